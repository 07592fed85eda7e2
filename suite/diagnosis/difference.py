"""Where the difference between loaders comes from: the seconds of each cause, one loader's less another's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from loaderproof.suite.standing import PLAIN

# In milliseconds of an epoch.
_CRUMB_MS = 0.05


@dataclass(frozen=True)
class Span:
    """A time with its 95 % interval; milliseconds.

    Attributes:
        value: mean.
        half: half the width of the interval.
    """

    value: float
    half: float

    def __sub__(self, other: Span) -> Span:
        """Return the difference of two times that were measured apart: errors add up as squares."""
        return Span(self.value - other.value, math.hypot(self.half, other.half))

    def __str__(self) -> str:
        """Say it with its interval."""
        return f"{self.value:+.1f} ms ({self.value - self.half:+.1f} to {self.value + self.half:+.1f})"


def text(reports: Iterable[pytest.TestReport]) -> str:
    """Return how each loader differs from the best plain PyTorch one, cause by cause; "" if there is none.

    Args:
        reports: of a run that may have looked for bottlenecks and timed training.
    """
    notes: list[dict[str, Any]] = [
        dict(report.user_properties) for report in reports if report.when == "call"
    ]
    verdicts = [note["loader_verdict"] for note in notes if "loader_verdict" in note]
    trained = {note["loader"]: note["loader_train"] for note in notes if "loader_train" in note}
    plain = [one for one in verdicts if one["loader"].partition("-")[0] == PLAIN]
    if not plain or len(verdicts) < 2:
        return ""
    best = min(plain, key=lambda one: one["costs"]["all"]["ms"])
    others = [one for one in verdicts if one is not best]
    return "\n\n".join("\n".join(_compared(one, best, trained)) for one in others)


def _compared(
    one: Mapping[str, Any], best: Mapping[str, Any], trained: Mapping[str, Mapping[str, Any]]
) -> Sequence[str]:
    parts = {cause: _span(one["costs"][cause]) - _span(cost) for cause, cost in best["costs"].items()}
    whole = parts.pop("all")
    lines = [f"an epoch of {one['loader']} beside one of {best['loader']}: {whole}", ""]
    lines += [f"  {cause:<17} {part}" for cause, part in parts.items() if abs(part.value) > _CRUMB_MS]
    lines += [f"  {'together':<17} {sum(part.value for part in parts.values()):+.1f} ms"]
    pair = [trained.get(loader) for loader in (one["loader"], best["loader"])]
    if all(pair):
        measured = _trained(pair[0]) - _trained(pair[1])
        lines += [f"  {'timed apart':<17} {measured}, by the benchmark of training"]
    return lines


def _span(cost: Mapping[str, float | None]) -> Span:
    return Span(cost["ms"] or 0.0, math.inf if cost["half"] is None else cost["half"])


def _trained(figures: Mapping[str, Any] | None) -> Span:
    seconds = (figures or {})["seconds"]
    return Span(1e3 * seconds["value"], 500 * (seconds["high"] - seconds["low"]))
