"""The table at the end of a run."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from loaderproof.suite import article_rows
from loaderproof.suite.standing import ArticleRow, Standing
from loaderproof.suite.statistics import Estimate, Ratio

_LOADERS = (
    "loader",
    "kept",
    "samples/s",
    "alone",
    "x plain",
    "of ceiling",
    "AU",
    "first batch",
    "setup",
    "pays back",
    "rank",
)
_DETAILS = (
    "loader",
    "steady/s",
    "AU",
    "stall",
    "wait p50",
    "p95",
    "p99",
    "next first",
    "ending",
)
_ARTICLE = (
    "system",
    "seconds there",
    "x plain there",
    "seconds here",
    "x plain here",
    "of ceiling",
    "build",
    "work",
)
# Columns of words; so is the last of any table. All others hold figures.
_WORDS = ("loader", "system", "measure")
# Narrower than this, a table of so many columns is no table any more; a log file has no width at all.
_NARROWEST = 140


def loaders(rows: Sequence[Standing], width: int, *, colour: bool) -> str:
    """Return the table of loaders as text for a terminal of some width."""
    ordered = sorted(rows, key=lambda row: (row.rank is None, row.rank or 0))
    caption = next((f"training {_caption(row.training)}" for row in ordered if row.training), "")
    # Said below: beside so many figures there is no room for words.
    notes = [f"{row.label} is not ranked: {row.reason}" for row in ordered if row.reason]
    caption = "\n".join([caption, *(notes if caption else [])])
    return draw(_LOADERS, [_loader(row) for row in ordered], caption, width, colour=colour)


def details(rows: Sequence[Standing], width: int, *, colour: bool) -> str:
    """Return where the time of each loader's epochs went; nothing if none was timed."""
    timed = [row for row in rows if row.training]
    if not timed:
        return ""
    lines = [
        "Of the steps after the first: AU, accelerator utilisation, is computing / total time; stall is the share",
        "of time that the ceiling does not take; wait is for a batch. next first: time to the first batch of later",
        "epochs; ending: time until the loader says that there is no more.",
    ]
    lines += [
        f"{row.label}: setup pays back: {_pays_back(row.break_even, interval=True)}"
        for row in timed
        if row.break_even and 0 < row.break_even.low < math.inf
    ]
    return draw(_DETAILS, [_detail(row) for row in timed], "\n".join(lines), width, colour=colour)


def unchecked(rows: Sequence[Standing]) -> str:
    """Return what could not be checked of loaders over their own data, and why."""
    lines = []
    for row in rows:
        lines += [f"{row.label}:"] if row.unchecked else []
        for why, tests in row.unchecked.items():
            names = dict.fromkeys(_words(test) for test in tests)
            lines.append(f"  {why}:\n    {', '.join(names)}")
    return "\n".join(lines)


def _words(test: str) -> str:
    return test.partition("[")[0].removeprefix("test_").replace("_", " ")


def article(rows: Sequence[ArticleRow], width: int, *, colour: bool) -> str:
    """Return the table of the article's experiment."""
    caption = next((f"{row.figures['epochs']} epochs {_caption(row.figures)}" for row in rows), "")
    if any(row.figures["shortened"] for row in rows):
        caption += "; so short a run is mostly the start of workers: --loader-samples all runs it whole"
    if not article_rows.AS_PUBLISHED:
        caption += (
            "\nwithout torchvision, so samples become tensors by the adapter's own means, which are faster"
        )
    return draw(_ARTICLE, [_article(row) for row in rows], caption, width, colour=colour)


def draw(columns: Sequence[str], rows: list[list[str]], caption: str, width: int, *, colour: bool) -> str:
    """Return a table as text for a terminal of some width, with a caption below."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    last = len(columns) - 1
    for number, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if column in _WORDS or number == last else "right"
        # Figures stay on one line; what is said in the last column may take several.
        width_of_figures = 0 if number == last else max((len(row[number]) for row in rows), default=0)
        table.add_column(column, justify=justify, overflow="fold", min_width=width_of_figures)
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    kind: Literal["standard"] | None = "standard" if colour else None
    console = Console(
        file=out,
        width=max(width, _NARROWEST),
        force_terminal=colour,
        color_system=kind,
        markup=False,  # a name in brackets is a name
        emoji=False,
    )
    console.print(table, highlight=False)
    console.print(caption, highlight=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _article(row: ArticleRow) -> list[str]:
    figures = row.figures
    work = [
        _work(figures, kind, owed) for kind, owed in zip(("trained", "tested"), figures["owed"], strict=True)
    ]
    return [
        figures["row"],
        f"{figures['published_s']:.2f}",
        f"{row.published_ratio:.3f}",
        f"{figures['seconds']:.2f}",
        _ratio(row.ratio, interval=True),
        _share(Ratio(**figures["to_ceiling"])),
        _seconds(figures["build_s"]),
        "equal" if figures["equal_work"] else f"unequal: {', '.join(filter(None, work))} in an epoch",
    ]


def _work(figures: dict[str, Any], kind: str, owed: int) -> str:
    counts = figures[kind]
    few, many = min(counts), max(counts)
    return "" if few == many == owed else f"{few} to {many} {kind} for {owed}"


def _loader(row: Standing) -> list[str]:
    kept = f"{len(row.passed)}/{row.owed}" if row.owed else "-"
    if row.deviating:
        kept += f" ({len(row.deviating)} declared)"
    rank = str(row.rank) if row.rank else "-"
    if not row.training or not row.to_ceiling:
        return [row.label, kept, *["-"] * 8, rank]
    figures = row.training
    return [
        row.label,
        kept,
        _rate(figures["samples_per_s"]),
        _rate(row.loading["samples_per_s"]) if row.loading else "-",
        _ratio(row.to_plain),
        _share(row.to_ceiling),
        _percent(figures["utilisation"]),
        _seconds(figures["first_batch_s"]),
        _seconds(figures["prepare_s"] + figures["open_s"]),
        _pays_back(row.break_even),
        rank,
    ]


def _detail(row: Standing) -> list[str]:
    figures = row.training or {}
    return [
        row.label,
        _rate(figures["steady_samples_per_s"]),
        *(_interval(figures[name]) for name in ("utilisation", "stall_share")),
        *(_mean_s(figures[f"wait_{name}_s"]) for name in ("p50", "p95", "p99")),
        *(_mean_s(figures[name]) for name in ("next_first_batch_s", "ending_s")),
    ]


def _caption(figures: dict[str, Any]) -> str:
    return f"on {figures['device']}, {figures['data']}, {figures['blocks']} blocks, 95 % intervals"


def _rate(speed: dict[str, float] | None) -> str:
    return f"{speed['value']:,.0f}" if speed else "-"


def _percent(share: dict[str, float] | None) -> str:
    return f"{100 * share['value']:.1f} %" if share else "-"


def _interval(share: dict[str, float] | None) -> str:
    return _share(Estimate(**share)) if share else "-"


def _mean_s(seconds: dict[str, float] | None) -> str:
    return _seconds(seconds["value"]) if seconds else "-"


def _share(ratio: Estimate) -> str:
    share = f"{round(100 * ratio.value, 1) + 0.0:.1f}"  # and not -0.0
    spread = "" if math.isinf(ratio.high - ratio.low) else f" ±{50 * (ratio.high - ratio.low):.1f}"
    return f"{share}{spread} %"


def _ratio(ratio: Ratio | None, *, interval: bool = False) -> str:
    if ratio is None:
        return "-"
    return f"{ratio.value:.3f}" + (f" ({ratio.low:.3f} to {ratio.high:.3f})" if interval else "")


def _seconds(seconds: float) -> str:
    if seconds < 1e-4:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _pays_back(epochs: Estimate | None, *, interval: bool = False) -> str:
    if epochs is None:
        return "-"
    count = _epochs(epochs.value)
    text = f"{count} epoch{'' if count == '1' else 's'}" if count.isdigit() else count
    return text + (f" ({_epochs(epochs.low)} to {_epochs(epochs.high)})" if interval else "")


def _epochs(epochs: float) -> str:
    return "never" if math.isinf(epochs) else str(math.ceil(epochs)) if epochs > 0 else "at once"
