"""The table at the end of a run."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from loaderproof.suite.standing import Standing
from loaderproof.suite.statistics import Ratio

_COLUMNS = ("loader", "kept", "samples/s", "x plain", "of ceiling", "first batch", "setup", "pays back", "rank")


def draw(rows: Sequence[Standing], width: int, *, colour: bool) -> str:
    """Return the table as text for a terminal of some width."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(_COLUMNS):
        table.add_column(column, justify="left" if number in (0, len(_COLUMNS) - 1) else "right", overflow="fold")
    for row in sorted(rows, key=lambda row: (row.rank is None, row.rank or 0)):
        table.add_row(*_cells(row))
    out = io.StringIO()
    console = Console(file=out, width=max(width, 60), force_terminal=colour, color_system="auto" if colour else None)
    console.print(table)
    return out.getvalue().rstrip()


def _cells(row: Standing) -> list[str]:
    kept = f"{len(row.passed)}/{row.owed}" if row.owed else "-"
    if row.deviating:
        kept += f" ({len(row.deviating)} declared)"
    rank = str(row.rank) if row.rank else f"- {row.reason}"
    if not row.training:
        return [row.label, kept, *["-"] * 6, rank]
    figures = row.training
    return [
        row.label,
        kept,
        f"{figures['samples_per_s']:,.0f}",
        _ratio(row.to_plain),
        f"{100 * row.to_ceiling.value:.1f} %",
        _seconds(figures["first_batch_s"]),
        _seconds(figures["prepare_s"] + figures["open_s"]),
        _epochs(row.break_even),
        rank,
    ]


def _ratio(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.value:.3f}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _epochs(epochs: float | None) -> str:
    if epochs is None:
        return "-"
    if math.isinf(epochs):
        return "never"
    return "at once" if epochs == 0 else f"{math.ceil(epochs)} epochs"
