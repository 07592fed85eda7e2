"""The page of each property, made from the docstring of its test and from the loaders that break it.

`python tests/pages.py [NAME ...]` writes docs/properties anew; with names, only those show a new failure.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from conftest import SuiteRun
from test_broken_loaders import CUDA, FILES, LOADERS, OF_CUDA, Name, judge, promised_by, sweep

from loaderproof.suite import conformance

FOLDER = Path(__file__).parents[1] / "docs" / "properties"
BROKEN = "../../tests/broken_loaders"
# In the order in which they stand in a docstring.
PARTS = ("Why", "Reports", "Causes", "Remedy")
OPTIONAL = {"Reports"}
UNSEEN = "On a CUDA device alone; `python tests/pages.py {name}` there puts a failure on this page."
ROWS = tuple(f"  {row} " for row in ("loader", "request", "where", "expected", "got", "likely", "about"))


@dataclass(frozen=True)
class Property:
    """What a conformance test says of itself.

    Attributes:
        name: of the test, without `test_`.
        rule: what is asserted.
        notes: the paragraphs of its docstring that have no heading.
        parts: those that have one, by their headings.
        promises: what an adapter must promise for it.
        chapter: the file that it stands in.
    """

    name: str
    rule: str
    notes: list[str]
    parts: dict[str, str]
    promises: tuple[str, ...]
    chapter: str

    @classmethod
    def of(cls, test: Callable[..., object]) -> Property:
        """Read a test function."""
        first, *more = [" ".join(part.split()) for part in inspect.getdoc(test).split("\n\n")]
        promises = tuple(sorted(promised_by(test)))
        headed = [re.match(rf"({'|'.join(PARTS)}): (.*)", part) for part in more]
        notes = [part for part, heading in zip(more, headed, strict=True) if not heading]
        parts = dict(heading.groups() for heading in headed if heading)
        chapter = test.__module__.rpartition(".test_")[2]
        return cls(test.__name__.removeprefix("test_"), first, notes, parts, promises, chapter)


def properties() -> list[Property]:
    """Return every property, chapter by chapter."""
    found = pkgutil.iter_modules(conformance.__path__, f"{conformance.__name__}.")
    modules = [importlib.import_module(one.name) for one in found]
    return [
        Property.of(value)
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("test_") and value.__module__ == module.__name__
    ]


def page(one: Property, loaders: Iterable[Name], report: str) -> str:
    """Return the page of a property.

    Args:
        one: the property.
        loaders: the broken loaders that fail it: file and name.
        report: the failure of one of them; empty if none was seen, as there was no device to see it on.
    """
    owed = f"promises {', '.join(f'`{name}`' for name in one.promises)}" if one.promises else "is a loader"
    parts = {heading: text[:1].upper() + text[1:] for heading, text in one.parts.items()}
    texts = {
        "Why": parts.get("Why", ""),
        "When it fails": f"```\n{report}\n```" if report else UNSEEN.format(name=one.name),
        "Usual causes": parts.get("Causes", ""),
        "Remedy": parts.get("Remedy", ""),
        "Public reports": _links(one.parts.get("Reports", "")),
        "Loaders that break it": ", ".join(
            f"[`{name}`]({BROKEN}/{file}.py)" for file, name in sorted(loaders)
        ),
    }
    above = [f"# {one.name}", f"**{one.rule}**", *one.notes, f"Asked of whatever {owed}: `test_{one.name}`."]
    heading = "\n\n".join(above) + "\n"
    return heading + "".join(f"\n## {title}\n\n{text}\n" for title, text in texts.items() if text)


def index(all_of_them: Iterable[Property]) -> str:
    """Return the list of all pages."""
    lines = ["# Properties", "", "What a loader is asked for, chapter by chapter; each leads to its page."]
    chapter = ""
    for one in all_of_them:
        if one.chapter != chapter:
            chapter = one.chapter
            lines += ["", f"## {chapter.replace('_', ' ').capitalize()}", ""]
        owed = f" ({', '.join(one.promises)})" if one.promises else ""
        lines.append(f"- [{one.name}]({one.name}.md){owed}: {one.rule}")
    return "\n".join(lines) + "\n"


def _links(reports: str) -> str:
    link = r"[\1#\2](https://github.com/\1/issues/\2)"
    return re.sub(r"([\w.-]+/[\w.-]+)(?: PR)?#(\d+)", link, reports)


def report_on(text: str) -> str:
    """Return the failure that a page shows, or nothing."""
    found = re.search(r"^```\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def shortened(report: str) -> str:
    """Return the rows of a report, without the command, which differs from place to place."""
    # JUnit's message, which is cut short, stands before it.
    begun = [found.start() for found in re.finditer(r"^(Not kept|No answer)", report, re.MULTILINE)]
    head, *rows = report[begun[-1] :].replace(sys.executable, "python").splitlines()
    return "\n".join([head, "", *(row for row in rows if row.startswith(ROWS))])


def broken() -> dict[str, list[Name]]:
    """Return the loaders that fail each test, those that fail nothing else first."""
    found: dict[str, list[Name]] = {}
    for name, loader in sorted(LOADERS.items(), key=lambda item: len(item[1].fails)):
        for test in loader.fails:
            found.setdefault(test.removeprefix("test_"), []).append(name)
    return found


def reports(names: Iterable[Name]) -> dict[Name, dict[str, str]]:
    """Judge some loaders; return the failures of each by the name of the property."""
    found = {}
    sweep()
    for file, options in FILES.items():
        asked = [name for name in names if name[0] == file]
        if asked:
            with tempfile.TemporaryDirectory() as folder:
                for name, verdict in judge(SuiteRun(Path(folder)), asked, options).items():
                    found[name] = {test.removeprefix("test_"): text for test, text in verdict.failed.items()}
    sweep()
    return found


def main(asked: list[str]) -> None:
    """Write every page anew, with new failures on those that are asked for; on all if none is."""
    loaders = broken()
    shown = {name: found[0] for name, found in loaders.items() if not asked or name in asked}
    shown = {name: loader for name, loader in shown.items() if CUDA or loader[0] != OF_CUDA}
    failures = reports(set(shown.values()))
    found = {name: shortened(failures[loader][name]) for name, loader in shown.items()}
    for one in properties():
        file = FOLDER / f"{one.name}.md"
        before = report_on(file.read_text(encoding="utf-8")) if file.exists() else ""
        file.write_text(page(one, loaders[one.name], found.get(one.name) or before), encoding="utf-8")
    for gone in {file.stem for file in FOLDER.glob("*.md")} - {one.name for one in properties()} - {"README"}:
        (FOLDER / f"{gone}.md").unlink()
    (FOLDER / "README.md").write_text(index(properties()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
