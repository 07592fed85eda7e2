"""From what was measured of all loaders of a run to the gate's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loaderproof.suite.gate import decision
from loaderproof.suite.gate.decision import Answer, Effect
from loaderproof.suite.gate.judgement import Judgement
from loaderproof.suite.gate.measures import AGAIN, BASE, CANDIDATE, Block, Measure, levels, margin_of

NOT_TOLD = "the kernel does not tell the memory of processes (PSS)"


@dataclass(frozen=True)
class Measured:
    """What was measured of one loader.

    Attributes:
        loader: label of the case.
        base: what it was compared with, for people.
        blocks: one fresh process for each arm in each.
        stored: the base's levels by measure, from another run; None where it was measured beside.
    """

    loader: str
    base: str
    blocks: Sequence[Block]
    stored: Mapping[str, Sequence[float]] | None = None

    @property
    def seconds(self) -> float:
        """How long measuring took."""
        return sum(block.seconds for block in self.blocks)

    def levels(self, measure: Measure) -> list[float]:
        """Return the candidate's level in each block; none where it was not measured."""
        return levels(measure, self.blocks, CANDIDATE)

    def effect(self, measure: Measure, margin: float) -> Effect | None:
        """Return how much worse the candidate is, or None if that was not measured on both sides."""
        candidate = self.levels(measure)
        if self.stored is not None:
            there = list(self.stored.get(measure, ()))
            return decision.apart(margin, candidate, there) if candidate and there else None
        base, again = (levels(measure, self.blocks, arm) for arm in (BASE, AGAIN))
        if not candidate or not base:
            return None
        return decision.paired(margin, _less(candidate, base), _less(base, again))


def _less(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [left - right for left, right in zip(one, other, strict=True)]


@dataclass
class Effects:
    """The effects of one loader, and what could not be compared."""

    known: dict[Measure, Effect] = field(default_factory=dict)
    missing: dict[Measure, str] = field(default_factory=dict)


def judge(measured: Sequence[Measured], margin: float) -> list[Judgement]:
    """Return the answer for each loader; the level is shared by all of them and by all measures.

    Args:
        measured: of one run.
        margin: how much worse a loader may be, as a share.
    """
    found = {one.loader: _effects(one, margin) for one in measured}
    flat = {
        (loader, measure): effect for loader, each in found.items() for measure, effect in each.known.items()
    }
    answers = decision.decide(flat)
    return [
        _judgement(
            one,
            found[one.loader],
            {key[1]: answers[key] for key in answers if key[0] == one.loader},
            len(flat),
        )
        for one in measured
    ]


def _effects(one: Measured, margin: float) -> Effects:
    made = Effects()
    for measure in Measure:
        effect = one.effect(measure, margin_of(measure, margin))
        if effect:
            made.known[measure] = effect
        else:
            made.missing[measure] = NOT_TOLD
    return made


def _judgement(one: Measured, found: Effects, answers: dict[Measure, Answer], tests: int) -> Judgement:
    if one.stored is None and not any(BASE in block.seen for block in one.blocks):
        return Judgement(one.loader, one.base, Answer.RECORDED, seconds=one.seconds)
    return Judgement(
        one.loader,
        one.base,
        decision.overall(list(answers.values())),
        answers=answers,
        effects=found.known,
        tests=tests,
        seconds=one.seconds,
        missing=found.missing,
    )
