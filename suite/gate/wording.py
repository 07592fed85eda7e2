"""How the gate's answers are put into words; the same ones on a terminal, in a failed test and on a job's page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loaderproof.suite.gate.decision import LEVEL, Answer, Effect
from loaderproof.suite.gate.judgement import Judgement
from loaderproof.suite.gate.measures import SHARES, Measure

COLUMNS = (
    "loader",
    "measure",
    "worse by",
    "at least",
    "at most",
    "margin",
    "would be seen",
    "blocks",
    "answer",
)
_LEVEL = f"{100 * LEVEL:g} %"
# Nobody waits for more.
_MOST_BLOCKS = 64
# What the noise of a run says of that of the next.
_RESERVE = 1.25


@dataclass(frozen=True)
class Account:
    """What is said of one loader.

    Attributes:
        measured: lines, each of one fact.
        likely: cause, or what it means; may be empty.
        remedy: what to do, with options; may be empty.
    """

    measured: Sequence[str]
    likely: str = ""
    remedy: str = ""


def rows(judgement: Judgement) -> list[list[str]]:
    """Return the cells of one loader's lines in a table, in the order of `COLUMNS`."""
    if not judgement.effects:
        return [[judgement.loader, *["-"] * (len(COLUMNS) - 2), str(judgement.answer)]]
    known = [
        _cells(measure, effect, judgement.answers[measure], judgement.tests)
        for measure, effect in judgement.effects.items()
    ]
    lacking = [[str(measure), *["-"] * (len(COLUMNS) - 3), "not compared"] for measure in judgement.missing]
    names = [judgement.loader, *[""] * (len(known) + len(lacking) - 1)]
    return [[name, *cells] for name, cells in zip(names, known + lacking, strict=True)]


def _cells(measure: Measure, effect: Effect, answer: Answer, tests: int) -> list[str]:
    low, high = effect.interval()
    figures = [_worse(measure, value) for value in (effect.mean, low, high)]
    plain = [amount(measure, value) for value in (effect.margin, effect.smallest(tests))]
    return [str(measure), *figures, *plain, str(effect.blocks), str(answer)]


def account(judgement: Judgement) -> Account:
    """Return what was measured of a loader, what it means, and what to do."""
    if judgement.answer is Answer.RECORDED:
        return Account(
            ["measured for later, as there was nothing to compare with"],
            remedy="keep it with --benchmark-save=base, and compare later runs with --loader-against stored",
        )
    if not judgement.effects:
        return Account([judgement.reason or "it was not compared"])
    told = {Answer.FAIL: _worse_than_base, Answer.PASS: _passed}.get(judgement.answer, _undecided)(judgement)
    missing = [f"{measure} was not compared: {reason}" for measure, reason in judgement.missing.items()]
    return Account([*told.measured, *missing], told.likely, told.remedy)


def sentence(judgement: Judgement) -> str:
    """Return everything about a loader, but for its name, in one line."""
    told = account(judgement)
    parts = ["; ".join(told.measured), told.likely, told.remedy]
    words = ". ".join(_capital(part).rstrip(".") for part in parts if part)
    return f"{judgement.answer}, against {judgement.base}. {words}."


def amount(measure: Measure, value: float) -> str:
    """Return how large a difference of levels is, for people."""
    number = _percent(measure, value)
    return f"{round(number, 2):,g} {_unit(measure)}" if math.isfinite(number) else "-"


def _worse(measure: Measure, value: float) -> str:
    number = _percent(measure, value)
    if not math.isfinite(number):
        return "-"
    rounded = round(number, 1) + 0.0  # and not -0.0
    return f"{rounded:+,.1f} {_unit(measure)}" if rounded else f"0.0 {_unit(measure)}"


def _percent(measure: Measure, value: float) -> float:
    """Return a difference of levels in percent, or in points of a hundred."""
    if measure in SHARES:
        return 100 * value
    try:
        return 100 * math.expm1(value)
    except OverflowError:
        return math.inf


def _unit(measure: Measure) -> str:
    return "points" if measure in SHARES else "%"


def _worse_than_base(judgement: Judgement) -> Account:
    failed = _with(judgement, Answer.FAIL)
    measured = [
        f"{measure} {_worse(measure, effect.mean)}, at least {_worse(measure, effect.interval()[0])}"
        f" (allowed {amount(measure, effect.margin)})"
        for measure, effect in failed.items()
    ]
    slower = [measure for measure in failed if measure is not Measure.MEMORY]
    profile = ",".join([*(["stages"] if slower else []), *(["memory"] if Measure.MEMORY in failed else [])])
    where = {"stages": "the time goes", "memory": "the memory goes"}.get(profile, "time and memory go")
    return Account(
        measured,
        f"what differs from {judgement.base} makes it worse; chance alone does so in fewer than 1 of 100 such runs",
        f"--loader-profile {profile} tells where {where}; if that is the price of something better, widen the"
        " margin with --loader-gate",
    )


def _passed(judgement: Judgement) -> Account:
    margins = dict.fromkeys(amount(measure, effect.margin) for measure, effect in judgement.effects.items())
    blocks = max(effect.blocks for effect in judgement.effects.values())
    return Account(
        [
            f"no measure is worse by more than {' or '.join(margins)}, shown at a level of {_LEVEL} in {blocks} blocks"
        ]
    )


def _undecided(judgement: Judgement) -> Account:
    open_ = _with(judgement, Answer.INCONCLUSIVE)
    disturbed = [measure for measure, effect in open_.items() if effect.unlike_itself()]
    measured = [_open(measure, effect, judgement.tests) for measure, effect in open_.items()]
    if disturbed:
        return Account(
            measured,
            f"the base differs from itself by more than the margin in {_list(disturbed)}: something disturbed this"
            " machine while it was measured, so no difference to the candidate can be believed",
            f"run it again on a quieter machine, or {_LET_PASS}",
        )
    return Account(
        measured, _why_open(list(open_.values())), f"{_more(list(open_.values()))}, or {_LET_PASS}"
    )


_LET_PASS = "let pass what cannot be decided with --loader-gate-inconclusive=pass"  # noqa: S105 - no password


def _open(measure: Measure, effect: Effect, tests: int) -> str:
    low, high = (_worse(measure, bound) for bound in effect.interval())
    return (
        f"{measure} {_worse(measure, effect.mean)}, from {low} to {high} (allowed"
        f" {amount(measure, effect.margin)}, seen from {amount(measure, effect.smallest(tests))})"
    )


def _why_open(effects: Sequence[Effect]) -> str:
    if all(effect.interval()[0] > 0 for effect in effects):
        return "it is worse than the base, but whether by more than the margin is not shown"
    return "the machine was too noisy for so narrow a margin and so few blocks"


def _more(effects: Sequence[Effect]) -> str:
    """Return what would decide, with how many blocks if not too many."""
    needed = max(_needed(effect) for effect in effects)
    if needed > _MOST_BLOCKS:
        return "choose a wider margin with --loader-gate, or a quieter machine"
    return (
        f"measure more with --loader-gate-blocks {math.ceil(needed)}, which should do if the noise stays the same;"
        " choose a quieter machine, or a wider margin with --loader-gate"
    )


def _needed(effect: Effect) -> float:
    """Return in about how many blocks the interval would not hold the margin any more."""
    half = effect.interval()[1] - effect.mean
    # Beyond the margin, what is left to be shown is that it is worse at all.
    gap = effect.mean if effect.mean > effect.margin else effect.margin - effect.mean
    wider = (half / gap) ** 2 if gap else math.inf
    return effect.blocks * max(_RESERVE, _RESERVE * wider)


def _with(judgement: Judgement, answer: Answer) -> dict[Measure, Effect]:
    return {one: effect for one, effect in judgement.effects.items() if judgement.answers[one] is answer}


def _list(measures: Sequence[Measure]) -> str:
    *most, last = map(str, measures)
    return f"{', '.join(most)} and {last}" if most else last


def _capital(text: str) -> str:
    return text if text.startswith("--") else text[:1].upper() + text[1:]
