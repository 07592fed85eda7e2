"""From evidence to a verdict: what a step's time goes to, as shares that add up to the whole.

    epoch = compute (T1: batches that lie on the device)
          + transfer (the loader's own batches, replayed from memory, less T1)
            + pinning (what of that goes away if they lie in pinned memory)
          + start-up (the first batch of an epoch and its end, beyond what any batch takes)
          + loading (the rest), divided among causes by what the loader's processes did meanwhile

The differences are those of DS-Analyzer (Mohan et al., VLDB 2021) and SPDL's headspace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from loaderproof.suite.diagnosis import evidence as arms
from loaderproof.suite.diagnosis.causes import LOADING, Cause, makers, steady, weights
from loaderproof.suite.diagnosis.evidence import Evidence
from loaderproof.suite.statistics import student_quantile

# xprof calls an input wait of 5 % of step time moderate.
MODERATE = 0.05
# A loader that could go twice as fast as the device leaves it no room: the device decides.
HEADSPACE = 2.0
LEAST_BLOCKS = 3

# Of the cores that the loader wanted, and that were there, it got less than so many.
CROWDED_OUT = 0.8
# A loader that alone is so many times as fast as the device keeps it busy on a quiet machine.
_ROOM = 1.1


@dataclass(frozen=True)
class Share:
    """A cause's share of the time of an epoch, with its 95 % interval over blocks; in percent."""

    cause: Cause
    percent: float
    low: float
    high: float

    def __str__(self) -> str:
        """Say it with its interval."""
        return f"{self.percent:.1f} % ({self.low:.1f} to {self.high:.1f})"


@dataclass
class Verdict:
    """What holds a loader back.

    Attributes:
        cause: the first cause.
        cost: its share; of UNKNOWN and NONE what all causes but compute cost.
        second: the next one that costs anything, or None; none for UNKNOWN.
        shares: of all causes, compute first; they add up to 100 %.
    """

    cause: Cause
    cost: Share
    second: Share | None
    shares: list[Share]


def judge(found: Evidence) -> Verdict:
    """Return the verdict on one loader."""
    parts = portions(found)
    shares = [share(cause, values) for cause, values in parts.items()]
    lost = share(Cause.NONE, 1 - parts[Cause.COMPUTE])
    causes = sorted((one for one in shares if one.cause is not Cause.COMPUTE), key=lambda one: -one.percent)
    worst = causes[0]
    second: Share | None = causes[1]
    cause, cost = worst.cause, worst
    much = lost.percent >= 100 * MODERATE
    unsure = lost.low < 100 * MODERATE < lost.high and worst.low < 100 * MODERATE
    if found.blocks < LEAST_BLOCKS or unsure or (much and cause in LOADING and disturbed(found)):
        cause, cost, second = Cause.UNKNOWN, lost, None
    elif not much:
        ample = headspace(found) > HEADSPACE
        cause, cost = (Cause.COMPUTE, shares[0]) if ample else (Cause.NONE, lost)
        second = worst
    tells = second is not None and second.low > 0 and second.percent > 1
    return Verdict(cause, cost, second if tells else None, shares)


def portions(found: Evidence) -> dict[Cause, np.ndarray]:
    """Return each cause's share of an epoch's time, one value a block; they add up to 1."""
    epoch, ceiling, replay = (_epochs(found, arm) for arm in (arms.WARM, arms.CEILING, arms.REPLAY))
    pinned = _epochs(found, arms.PINNED) if arms.PINNED in found.passes else replay
    starting = _starting(found, arms.WARM) - _starting(found, arms.REPLAY)
    starting = np.clip(starting, 0, np.maximum(epoch - replay, 0))
    parts = {
        Cause.COMPUTE: ceiling / epoch,
        Cause.TRANSFER: (pinned - ceiling) / epoch,
        Cause.PINNING: (replay - pinned) / epoch,
        Cause.START_UP: starting / epoch,
    }
    loading = (epoch - replay - starting) / epoch
    return parts | {cause: loading * weight for cause, weight in weights(found).items()}


def costs(found: Evidence) -> dict[str, tuple[float, float]]:
    """Return the ms that each cause costs in an epoch, and `all` of them, with half the interval's width."""
    epoch_ms = 1e3 * _epochs(found, arms.WARM)
    parts = {str(cause): interval(part * epoch_ms) for cause, part in portions(found).items()}
    return parts | {"all": interval(epoch_ms)}


def fetch_stall(found: Evidence) -> Share:
    """Return what reading from the disk itself adds to an epoch, T2 - T3 of DS-Analyzer, as a share of it."""
    cold, warm = _epochs(found, arms.COLD), _epochs(found, arms.WARM)
    return share(Cause.FETCH, (cold - warm) / warm)


def headspace(found: Evidence) -> float:
    """Return how many times as fast as the device the loader alone is (SPDL's headspace)."""
    return float(np.median(steady(found, arms.CEILING)) / np.median(steady(found, arms.ALONE)))


def disturbed(found: Evidence) -> bool:
    """Tell whether a loader that had room on a quiet machine fell behind as other programs had the cores.

    Where the device is the processor itself, loading and computing take turns, and room says nothing.
    """
    running = max((one.running for one in makers(found.activity)), default=0.0)
    undisturbed = 1 - running * (1 - found.granted)  # as a part of the time that a batch took
    crowded_out = found.device != "cpu" and found.granted < CROWDED_OUT
    return crowded_out and headspace(found) > _ROOM * undisturbed


def share(cause: Cause, values: np.ndarray) -> Share:
    """Return the mean of a share over blocks, with Student's t interval."""
    mean, half = interval(100 * values)
    return Share(cause, mean, mean - half, mean + half)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean over blocks, and half the width of its 95 % interval (Student's t)."""
    if values.size == 1:
        return float(values[0]), math.inf
    half = student_quantile(values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()), half


def _epochs(found: Evidence, arm: str) -> np.ndarray:
    return np.array([arms.epoch_s(one, found.batches) for one in found.passes[arm]])


def _starting(found: Evidence, arm: str) -> np.ndarray:
    """Return what the first batch takes beyond a later one, and the end of an epoch."""
    usual = [float(np.mean(one.waits[1:])) if one.batches > 1 else 0.0 for one in found.passes[arm]]
    first = [one.first_batch_s - wait for one, wait in zip(found.passes[arm], usual, strict=True)]
    tail = [one.ending_s for one in found.passes[arm]]
    starting: np.ndarray = np.maximum(first, 0) + np.array(tail)
    return starting
