"""What is known of each loader at the end of a run, and its rank or the reason why it has none."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from loaderproof.suite import article_rows, turns
from loaderproof.suite.statistics import Estimate, Ratio

PLAIN = "torch_dataloader"


@dataclass
class Standing:
    """One row of the table.

    Attributes:
        label: of the case.
        passed, failed, deviating, unobserved: conformance tests, by name with parameters.
        unchecked: tests that could not be made of a loader over its own data, by the reason.
        training, loading: figures of the benchmarks, if they ran.
        rank: 1 for the fastest; loaders whose intervals overlap share one. None without a rank.
        reason: why there is no rank.
        to_plain: speed as a multiple of the best plain PyTorch loader's.
        break_even: epochs after which the setup has paid back against it; inf for never. The interval
            is that of `to_plain`; setup is measured once, and taken as it was.
    """

    label: str
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    deviating: list[str] = field(default_factory=list)
    unobserved: list[str] = field(default_factory=list)
    unchecked: dict[str, list[str]] = field(default_factory=dict)
    training: dict[str, Any] | None = None
    loading: dict[str, Any] | None = None
    rank: int | None = None
    reason: str = ""
    to_plain: Ratio | None = None
    break_even: Estimate | None = None

    @property
    def owed(self) -> int:
        """Number of conformance tests that the loader owes."""
        return len(self.passed) + len(self.failed) + len(self.deviating) + len(self.unobserved)

    @property
    def to_ceiling(self) -> Ratio | None:
        """Speed as a share of the ceiling's."""
        return Ratio(**self.training["to_ceiling"]) if self.training else None


def standings(reports: Iterable[pytest.TestReport]) -> list[Standing]:
    """Collect what the reports of the suite's tests say of each loader, and rank them.

    Args:
        reports: of all phases of all tests; those of other tests do not count.
    """
    rows: dict[str, Standing] = {}
    for report in reports:
        properties: dict[str, Any] = dict(report.user_properties)
        if "loader" in properties:
            _add(rows.setdefault(properties["loader"], Standing(properties["loader"])), report, properties)
    _compare(list(rows.values()))
    return list(rows.values())


def _add(row: Standing, report: pytest.TestReport, properties: dict[str, Any]) -> None:
    if report.skipped and "unchecked" in properties:
        row.unchecked.setdefault(properties["unchecked"], []).append(report.nodeid.rpartition("::")[2])
    if report.when == "call" and "loader_train" in properties:
        row.training = properties["loader_train"]
    if report.when == "call" and "loader_load" in properties:
        row.loading = properties["loader_load"]
    if properties["phase"] != turns.CONFORMANCE:
        return
    test = report.nodeid.rpartition("::")[2]
    if hasattr(report, "wasxfail") and report.skipped:
        row.deviating.append(test)
    elif report.failed:
        row.failed.append(test)
    elif report.skipped and "not observed" in str(report.longrepr):
        row.unobserved.append(test)
    elif report.passed and report.when == "call":
        row.passed.append(test)


def _compare(rows: list[Standing]) -> None:
    timed = [(row, row.to_ceiling) for row in rows if row.to_ceiling]
    plain = [(row, speed) for row, speed in timed if row.label.partition("-")[0] == PLAIN]
    if plain:
        best, its_speed = max(plain, key=lambda pair: pair[1].value)
        for row, speed in timed:
            row.to_plain = Ratio(1, 1, 1) if row is best else speed / its_speed
            row.break_even = None if row is best else _break_even(row, best, row.to_plain)
    for row in rows:
        row.reason = _why_unranked(row)
    _rank([(row, speed) for row, speed in timed if not row.reason])


def _why_unranked(row: Standing) -> str:
    if not row.training:
        return "not timed"
    if not row.training["equal_work"]:
        return _unequal(row.training)
    broken = row.failed + row.deviating
    if broken:
        return f"does not keep: {_first_of(broken)}"
    if row.unobserved:
        return f"not observed: {_first_of(row.unobserved)}"
    return "" if row.passed else "conformance was not tested"


def _first_of(tests: list[str]) -> str:
    more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
    return tests[0].partition("[")[0].removeprefix("test_") + more


def _unequal(figures: dict[str, Any]) -> str:
    came, owed = figures["delivered"], figures["samples"]
    if set(came) == {owed}:
        return f"unequal work: {owed} samples, but not always in {figures['batches']} batches"
    few, many = min(came), max(came)
    return f"unequal work: {few}{'' if few == many else f' to {many}'} samples for {owed}"


def _rank(rows: list[tuple[Standing, Ratio]]) -> None:
    """Rank by speed; whoever cannot be told from the first of a group shares its rank."""
    rank, leader = 0, None
    for place, (row, speed) in enumerate(sorted(rows, key=lambda pair: -pair[1].value), start=1):
        if leader is None or speed.differs(leader):
            rank, leader = place, speed
        row.rank = rank


def _break_even(row: Standing, plain: Standing, to_plain: Ratio) -> Estimate:
    """Return after how many epochs the dearer setup has paid back; 0 if it is not dearer."""
    dearer = _setup_s(row) - _setup_s(plain)
    if dearer <= 0:
        return Estimate(0.0, 0.0, 0.0)

    def epochs(speed: float) -> float:
        # Epochs are compared through the ceiling, which both were measured beside.
        gain = _figures(row)["seconds"]["value"] * (speed - 1)
        return dearer / gain if gain > 0 else math.inf

    return Estimate(epochs(to_plain.value), epochs(to_plain.high), epochs(to_plain.low))


def _setup_s(row: Standing) -> float:
    return float(sum(_figures(row)[name] for name in ("prepare_s", "open_s", "first_batch_s")))


def _figures(row: Standing) -> dict[str, Any]:
    return row.training or {}


@dataclass(frozen=True)
class ArticleRow:
    """One row of the article's experiment.

    Attributes:
        figures: as the benchmark noted them.
        published_ratio: the best plain row's seconds over this row's, in the article.
        ratio: the same here, taken through the ceilings; None if no plain row was measured.
    """

    figures: dict[str, Any]
    published_ratio: float
    ratio: Ratio | None


def article(reports: Iterable[pytest.TestReport]) -> list[ArticleRow]:
    """Collect the rows of the article's experiment, each beside the best plain row."""
    notes: list[dict[str, Any]] = [
        dict(report.user_properties) for report in reports if report.when == "call"
    ]
    figures = [note["loader_article"] for note in notes if "loader_article" in note]
    plain = [one for one in figures if one["row"].startswith("plain")]
    best = max(plain, key=lambda one: one["to_ceiling"]["value"], default=None)
    published = min(row.published_s for row in article_rows.PLAIN)
    return [
        ArticleRow(
            one,
            published / one["published_s"],
            None if best is None else Ratio(1, 1, 1) if one is best else _speed(one) / _speed(best),
        )
        for one in figures
    ]


def _speed(figures: dict[str, Any]) -> Ratio:
    return Ratio(**figures["to_ceiling"])
