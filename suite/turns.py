"""In which order loaders are judged: one by one, conformance before speed; then the article, and the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from loaderproof.suite.session import Case


CONFORMANCE, SPEED, DIAGNOSIS, ARTICLE = "conformance", "speed", "diagnosis", "the article's experiment"
GATE, DECISION = "gate", "the gate's decision"
# Name of the plugin that keeps the gate of a run.
GATEKEEPER = "loaderproof-gate"
# A profile never runs before what is timed: what it starts may stay.
_ORDER = (CONFORMANCE, SPEED, DIAGNOSIS)
# After all loaders: the gate's level is shared by all that it measured.
_AFTER = (ARTICLE, GATE, DECISION)
# By their markers.
_MARKED = {"article": ARTICLE, "diagnosis": DIAGNOSIS, "gate": GATE, "decision": DECISION}


def case_of(item: pytest.Item) -> Case | None:
    """Return the loader that an item judges, or None if it is no test of the suite."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec and _is_ours(item) else None
    # Of an empty list of cases pytest makes one test with a placeholder.
    return case if hasattr(case, "label") else None


def phase_of(item: pytest.Item) -> str:
    """Return the part of the suite that an item belongs to."""
    for marker, phase in _MARKED.items():
        if item.get_closest_marker(marker):
            return phase
    return SPEED if "benchmark" in getattr(item, "fixturenames", ()) else CONFORMANCE


def without_case(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of the suite that no loader of this run takes part in."""
    return [item for item in items if _is_ours(item) and case_of(item) is None]


def take(items: list[pytest.Item]) -> list[str]:
    """Sort the suite's items among themselves, in place, and return the labels of their loaders."""
    places = [place for place, item in enumerate(items) if case_of(item)]
    labels = {case.label: None for case in (case_of(items[place]) for place in places) if case}
    rank = {label: number for number, label in enumerate(labels)}

    def turn(item: pytest.Item) -> tuple[int, int, int]:
        case, phase = case_of(item), phase_of(item)
        place = rank[case.label] if case else 0
        if phase in _AFTER:
            return 1 + _AFTER.index(phase), place, 0
        return 0, place, _ORDER.index(phase)

    for place, item in zip(places, sorted((items[place] for place in places), key=turn), strict=True):
        items[place] = item
    return list(labels)


def _is_ours(item: pytest.Item) -> bool:
    return {"case", "subject"} <= set(getattr(item, "fixturenames", ()))
