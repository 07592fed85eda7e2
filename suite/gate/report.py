"""What people and machines read of the gate: a table, a failed test's text, a job's page, and files."""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loaderproof.suite import table
from loaderproof.suite.gate import results, wording
from loaderproof.suite.gate.decision import LEVEL, Answer
from loaderproof.suite.gate.judgement import Judgement
from loaderproof.suite.gate.results import ResultError, read

__all__ = ["ResultError", "discard", "markdown", "publish", "read", "text", "why", "write"]

JSON, MARKDOWN = "gate.json", "gate.md"
# GitHub names a file here whose text it shows on the page of the job.
_SUMMARY = "GITHUB_STEP_SUMMARY"
# So many characters of one loader; a crash may come with pages of stacks, which the log has.
_LONGEST = 1500
_LEGEND = (
    f"worse by: than the base, and negative if better; at least, at most: one-sided {100 * (1 - LEVEL):g} % bounds;"
    " would be seen: what nine of ten such runs would call a fail, by how the base differs from itself"
)


def text(judgements: Sequence[Judgement], width: int = 0, *, colour: bool = False) -> str:
    """Return a table of all loaders and measures, and what it means, for a terminal of some width."""
    lines = [_LEGEND] if any(one.effects for one in judgements) else []
    lines += [f"\n{one.loader}: {wording.sentence(one)}" for one in judgements]
    cells = [row for one in judgements for row in wording.rows(one)]
    return table.draw(wording.COLUMNS, cells, "\n".join(lines), width, colour=colour)


def why(judgement: Judgement, command: str = "") -> str:
    """Return the text of a failed test.

    Args:
        judgement: of the loader.
        command: repeats the test.
    """
    told = wording.account(judgement)
    rows = {
        "loader": judgement.loader,
        "base": judgement.base,
        "measured": "\n            ".join(told.measured) if judgement.effects else "",
        "blocks": ", ".join(dict.fromkeys(str(effect.blocks) for effect in judgement.effects.values())),
        "likely": told.likely,
        "remedy": told.remedy,
        "about": "docs/gate.md",
        "repeat": command,
    }
    lines = [f"  {name:<9} {words}" for name, words in rows.items() if words]
    reason = [] if judgement.effects else ["", *told.measured]
    return "\n".join([_heading(judgement), "", *lines, *reason])


def _heading(judgement: Judgement) -> str:
    if not judgement.effects:
        return "Not compared: the loader passes no gate that it did not go through."
    if judgement.answer is Answer.FAIL:
        return "Not kept: The loader is not worse than its base by more than the margin."
    return "Inconclusive: whether the loader is worse than its base by more than the margin."


def markdown(judgements: Sequence[Judgement], *, complete: bool = True) -> str:
    """Return the summary for a job's page.

    Args:
        judgements: of all loaders.
        complete: whether all loaders of the run are among them.
    """
    answers = Counter(str(one.answer) for one in judgements)
    whole = str(results.answer_of([one.answer for one in judgements]))
    counted = ", ".join(f"{count} {answer}" for answer, count in answers.items())
    rest = "" if complete else " The run did not answer for all of its loaders, so the gate is not passed."
    cells = [row for one in judgements for row in wording.rows(one)]
    parts = [
        f"## Gate: {whole if complete else 'not complete'}",
        f"Loaders: {counted or 'none'}.{rest}",
        "\n".join([_line(wording.COLUMNS), _line(["---"] * len(wording.COLUMNS)), *map(_line, cells)]),
        "\n".join(f"- **{_plain(one.loader)}**: {_plain(wording.sentence(one))}" for one in judgements),
        f"{_LEGEND[0].upper()}{_LEGEND[1:]}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(words: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    printable = "".join(one if one.isprintable() else " " for one in words)
    line = " ".join(printable.split())
    short = line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
    return re.sub(
        r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", html.escape(short, quote=False)
    )


def write(
    folder: Path, judgements: Sequence[Judgement], environment: Mapping[str, Any], *, complete: bool
) -> None:
    """Write the answer for machines and for people; the former last, so that it is there only if all is.

    Args:
        folder: of the report.
        judgements: of all loaders.
        environment: plain data about machine and versions.
        complete: whether all loaders of the run are among them.
    """
    results.put(folder / MARKDOWN, markdown(judgements, complete=complete))
    results.put(folder / JSON, results.as_text(judgements, environment, complete=complete))


def discard(folder: Path) -> None:
    """Remove the answer of an earlier run, so that one that is interrupted leaves none."""
    for name in (JSON, MARKDOWN):
        results.drop(folder / name)


def publish(summary: str) -> str | None:
    """Append a summary to the page of the job, if there is one; return a warning if that fails.

    Args:
        summary: Markdown.
    """
    path = os.environ.get(_SUMMARY)
    if not path:
        return None
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"\n{summary}")
    except OSError as error:
        return (
            f"the summary is not on the page of the job: {path}, which {_SUMMARY} names, takes none ({error})"
        )
    return None
