"""Pass, fail or inconclusive: what the blocks of a candidate and its base decide.

One number a block, how much worse the candidate was there; blocks are independent, as each has
processes of its own. Two tests have to agree: Student's t, and sign-flips of the same numbers, which
assume nothing but symmetry (Fisher, The Design of Experiments, 1935, section 21).

- Proven worse than the base, and by more than the margin as far as was measured, is a fail. The level
  holds for all loaders and measures of a run together (Holm, A simple sequentially rejective multiple
  test procedure, Scand. J. Statist. 6:65, 1979).
- Proven not to be worse by the margin, in every measure, is a pass. No correction is needed where all
  have to hold (Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics
  24:295, 1982).
- All else is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from loaderproof.suite.gate.choices import FEWEST

LEVEL = 0.01
# A slow-down counts as visible if so many of such runs would have failed.
POWER = 0.9
# All sign-flips are tried up to so many blocks; beyond, about as many are drawn.
_EXACT = 20

Key = TypeVar("Key")


class Answer(StrEnum):
    """What the gate says."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    RECORDED = "recorded"
    """Measured for later; there was nothing to compare with."""


@dataclass(frozen=True)
class Effect:
    """How much worse a candidate is than its base in one measure.

    Attributes:
        margin: how much worse it may be; on the scale of the differences, above 0.
        differences: candidate less base, one a block.
        noise: base less base again, one a block; empty with a base of another run.
        mean: of the differences.
        error: standard error of that.
        degrees: degrees of freedom of that.
    """

    margin: float
    differences: Sequence[float]
    noise: Sequence[float]
    mean: float
    error: float
    degrees: float

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.differences)

    def interval(self) -> tuple[float, float]:
        """Return the one-sided bounds at the level, below and above."""
        half = _t_quantile(1 - LEVEL, self.degrees) * self.error
        return self.mean - half, self.mean + half

    def p_worse(self) -> float:
        """Return how likely it is to see this if the candidate is not worse than its base."""
        return self._p(self.differences, self.mean)

    def p_within(self) -> float:
        """Return how likely it is to see this if the candidate is worse by the margin, or by more."""
        return self._p([self.margin - one for one in self.differences], self.margin - self.mean)

    def _p(self, values: Sequence[float], mean: float) -> float:
        return max(_p_t(mean, self.error, self.degrees), _p_sign_flip(values))

    def smallest(self, tests: int) -> float:
        """Return the smallest effect that nine of ten such runs would have called a fail.

        From base against base: the minimum detectable effect of a one-sided t test (Bloom, Minimum
        detectable effects, Evaluation Review 19:547, 1995), or what is measured beyond the margin so often.

        Args:
            tests: among how many the level is shared.
        """
        error = _error(self.noise) if self.noise else self.error
        proof, luck = _t_quantile(1 - LEVEL / tests, self.degrees), _t_quantile(POWER, self.degrees)
        return max(self.margin, proof * error) + luck * error

    def fails(self) -> bool:
        """Tell whether it would fail if it were the only one."""
        return self.mean > self.margin and self.p_worse() <= LEVEL

    def unlike_itself(self) -> bool:
        """Tell whether the base would fail against itself, one way or the other."""
        both = (self.noise, [-one for one in self.noise]) if self.noise else ()
        return any(paired(self.margin, signed).fails() for signed in both)


def paired(margin: float, differences: Sequence[float], noise: Sequence[float] = ()) -> Effect:
    """Return the effect of candidate and base that were measured in the same blocks."""
    mean = float(np.mean(differences))
    return Effect(margin, differences, noise, mean, _error(differences), len(differences) - 1)


def apart(margin: float, candidate: Sequence[float], base: Sequence[float]) -> Effect:
    """Return the effect of a candidate against a base that was measured in another run.

    Welch's t (The generalization of "Student's" problem when several different population
    variances are involved, Biometrika 34:28, 1947).

    Args:
        margin: see `Effect`.
        candidate: levels, one a block; at least two.
        base: the same of the other run.
    """
    parts = [_error(side) ** 2 for side in (candidate, base)]
    below = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (candidate, base), strict=True))
    degrees = sum(parts) ** 2 / below if below else len(candidate) + len(base) - 2
    reference = float(np.mean(base))
    differences = [one - reference for one in candidate]
    return Effect(margin, differences, (), float(np.mean(differences)), math.sqrt(sum(parts)), degrees)


def blocks_needed(tests: int) -> int:
    """Return the fewest blocks with which one of so many tests can fail at the level at all.

    Of n blocks the smallest chance that sign-flips can give is 1 / 2^n.
    """
    return max(FEWEST, math.ceil(math.log2(tests / LEVEL)))


def holm(chances: Mapping[Key, float]) -> set[Key]:
    """Return which of several hypotheses are rejected at the level by Holm's procedure."""
    rejected: set[Key] = set()
    for place, key in enumerate(sorted(chances, key=lambda one: chances[one])):
        if chances[key] > LEVEL / (len(chances) - place):
            break
        rejected.add(key)
    return rejected


def decide(effects: Mapping[Key, Effect]) -> dict[Key, Answer]:
    """Return the answer for each measure of each loader, all of one run."""
    worse = holm({key: effect.p_worse() for key, effect in effects.items()})
    return {key: _answer(effect, worse=key in worse) for key, effect in effects.items()}


def _answer(effect: Effect, *, worse: bool) -> Answer:
    if effect.unlike_itself():
        return Answer.INCONCLUSIVE
    if worse and effect.mean > effect.margin:
        return Answer.FAIL
    return Answer.PASS if effect.p_within() <= LEVEL else Answer.INCONCLUSIVE


def overall(answers: Sequence[Answer]) -> Answer:
    """Return the answer for a loader: one measure that fails fails it, and all have to pass."""
    if Answer.FAIL in answers:
        return Answer.FAIL
    return Answer.PASS if answers and set(answers) == {Answer.PASS} else Answer.INCONCLUSIVE


def _error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def _p_t(distance: float, error: float, degrees: float) -> float:
    from scipy.stats import t  # noqa: PLC0415 - half a second that only a gate pays

    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(t.sf(distance / error, degrees))


def _t_quantile(share: float, degrees: float) -> float:
    from scipy.stats import t  # noqa: PLC0415 - half a second that only a gate pays

    return float(t.ppf(share, degrees))


def _p_sign_flip(values: Sequence[float]) -> float:
    """Return the share of all assignments of signs whose sum is at least what was seen."""
    numbers = np.asarray(values, float)
    seen = numbers.sum() - 1e-12
    if len(numbers) > _EXACT:
        return _p_of_drawn_signs(numbers, seen)
    sums = np.zeros(1)
    for number in numbers:
        sums = np.concatenate((sums + number, sums - number))
    return float(np.count_nonzero(sums >= seen)) / len(sums)


def _p_of_drawn_signs(numbers: NDArray[np.float64], seen: float) -> float:
    generator = np.random.default_rng(len(numbers))
    shape = 2**14, len(numbers)
    times = 2**6
    reached = sum(
        int(np.count_nonzero(generator.choice((1.0, -1.0), shape) @ numbers >= seen)) for _ in range(times)
    )
    # What was seen is one of the assignments, drawn or not.
    return (reached + 1) / (times * shape[0] + 1)
