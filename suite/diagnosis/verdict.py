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
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from loaderproof.suite.diagnosis import evidence as arms
from loaderproof.suite.diagnosis.evidence import Activity, Evidence, Role
from loaderproof.suite.statistics import student_quantile


class Cause(StrEnum):
    """What holds training back."""

    NONE = "no bottleneck"
    UNKNOWN = "not enough evidence"
    COMPUTE = "accelerator"
    TRANSFER = "transfer"
    PINNING = "pinning"
    START_UP = "start-up"
    FETCH = "fetch"
    PREPARATION = "preparation"
    HAND_OVER = "hand-over"
    STRAGGLERS = "stragglers"
    OVER_SUBSCRIPTION = "over-subscription"
    GIL = "GIL"


LOADING = (
    Cause.FETCH,
    Cause.PREPARATION,
    Cause.HAND_OVER,
    Cause.STRAGGLERS,
    Cause.OVER_SUBSCRIPTION,
    Cause.GIL,
)
# xprof calls an input wait of 5 % of step time moderate.
MODERATE = 0.05
# A loader that could go twice as fast as the device leaves it no room: the device decides.
HEADSPACE = 2.0
LEAST_BLOCKS = 3

# Threads of one process that want more than so many times the cores there are.
_CROWD = 2.0
# A thread that has to wait so long for the interpreter, in ms; its switch interval is 5 ms.
_LATE_MS = 1.0
# Python threads beside the main one that use so much of what their process uses do the loader's work.
BESIDE = 0.3
# The slowest worker is busy so much of the time, and the others are idle so much more of it.
_ENGAGED, _IDLE = 0.5, 0.35
# Of the cores that the loader wanted, and that were there, it got less than so many.
CROWDED_OUT = 0.8
# A loader that alone is so many times as fast as the device keeps it busy on a quiet machine.
_ROOM = 1.1
# Batches that take so many times the median one, are at most so many of all, and together take so much of all waits.
_LONG, _FEW, _CONCENTRATED = 3.0, 0.2, 0.5


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


def weights(found: Evidence) -> dict[Cause, float]:
    """Return how the time of loading divides among its causes; the weights add up to 1."""
    split = dict.fromkeys(LOADING, 0.0)
    rest = 1.0
    for cause, part in (
        (Cause.STRAGGLERS, stragglers(found)),
        (Cause.OVER_SUBSCRIPTION, crowding(found)),
        (Cause.HAND_OVER, hand_over(found)),
    ):
        split[cause] = rest * part
        rest -= split[cause]
    device = on_device(found)
    split[Cause.FETCH] = rest * device
    split[Cause.GIL if held(found) else Cause.PREPARATION] = rest * (1 - device)
    return split


def fetch_stall(found: Evidence) -> Share:
    """Return what reading from the disk itself adds to an epoch, T2 - T3 of DS-Analyzer, as a share of it."""
    cold, warm = _epochs(found, arms.COLD), _epochs(found, arms.WARM)
    return share(Cause.FETCH, (cold - warm) / warm)


def headspace(found: Evidence) -> float:
    """Return how many times as fast as the device the loader alone is (SPDL's headspace)."""
    return float(np.median(_steady(found, arms.CEILING)) / np.median(_steady(found, arms.ALONE)))


def disturbed(found: Evidence) -> bool:
    """Tell whether a loader that had room on a quiet machine fell behind as other programs had the cores.

    Where the device is the processor itself, loading and computing take turns, and room says nothing.
    """
    running = max((one.running for one in _makers(found.activity)), default=0.0)
    undisturbed = 1 - running * (1 - found.granted)  # as a part of the time that a batch took
    crowded_out = found.device != "cpu" and found.granted < CROWDED_OUT
    return crowded_out and headspace(found) > _ROOM * undisturbed


def stragglers(found: Evidence) -> float:
    """Return the share of loading that a few workers or batches take beyond what all others take."""
    return max(_slow_worker(found.activity), _slow_batches(found))


def _slow_worker(seen: Activity | None) -> float:
    """Return how much of the time goes that one worker needs beyond the others, who wait for it."""
    if seen is None or len(seen.workers) < 2:
        return 0.0
    *others, slowest = sorted(worker.needed for worker in seen.workers)
    idle = 1 - float(np.mean(others)) / max(slowest, 1e-9)
    return idle if idle > _IDLE and slowest > max(_ENGAGED, seen.main.active) else 0.0


def _slow_batches(found: Evidence) -> float:
    """Return the share of the waits that is what a few batches take beyond the median."""
    # A batch that is late only beside training is no matter of that batch.
    waits = np.concatenate(
        [one.waits[1:] for one in found.passes.get(arms.PLAIN) or found.passes[arms.ALONE]]
    )
    if not found.passes.get(arms.PLAIN) and found.workers:
        return 0.0  # batches that several workers make at the same time come in bunches
    median = float(np.median(waits))
    long = waits > _LONG * median
    if long.mean() > _FEW:
        return 0.0  # so do batches that other processes make a few at a time
    beyond = np.where(long, waits - median, 0)
    part = float(beyond.sum() / max(waits.sum(), 1e-12))
    return part if part > _CONCENTRATED else 0.0


def crowding(found: Evidence) -> float:
    """Return the share of loading in which threads of one process waited for a core that others of it had."""
    if found.activity is None:
        return 0.0
    role = max([found.activity.main, *found.activity.workers], key=lambda one: one.demand)
    return 1 - role.cpu / role.demand if role.demand > _CROWD * found.cores else 0.0


def hand_over(found: Evidence) -> float:
    """Return the share of loading that goes away without workers, or is work of whoever takes the batches."""
    if not found.workers:
        return 0.0
    gone = 0.0
    if found.passes.get(arms.PLAIN):
        with_workers, without = _steady(found, arms.WARM), _steady(found, arms.PLAIN)
        loading = with_workers - _steady(found, arms.REPLAY)
        gone = float(np.median((with_workers - without) / np.maximum(loading, 1e-9)))
    seen = found.activity
    taking = seen.main.active if seen and seen.workers else 0.0
    making = max((worker.active for worker in seen.workers), default=1.0) if seen else 1.0
    return min(max(gone, taking / (taking + making) if taking > making else 0.0, 0.0), 1.0)


def on_device(found: Evidence) -> float:
    """Return the share of the time of those who make batches that went to waiting for disk, network or clock.

    What they waited for cores that other programs had is left out: it is no part of making batches.
    """
    makers = _makers(found.activity)
    device, running = (sum(getattr(one, what) for one in makers) for what in ("device", "running"))
    running *= found.granted
    return device / (device + running) if device else 0.0


def held(found: Evidence) -> bool:
    """Tell whether threads beside the main one make the batches and hold the interpreter's lock."""
    seen = found.activity
    if seen is None or seen.workers or seen.late_ms < _LATE_MS:
        return False
    return seen.threads_cpu > BESIDE * seen.main.cpu


def _makers(seen: Activity | None) -> Sequence[Role]:
    return (seen.workers or [seen.main]) if seen else ()


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


def _steady(found: Evidence, arm: str) -> np.ndarray:
    return np.array([arms.steady_s(one) for one in found.passes[arm]])


def _starting(found: Evidence, arm: str) -> np.ndarray:
    """Return what the first batch takes beyond a later one, and the end of an epoch."""
    usual = [float(np.mean(one.waits[1:])) if one.batches > 1 else 0.0 for one in found.passes[arm]]
    first = [one.first_batch_s - wait for one, wait in zip(found.passes[arm], usual, strict=True)]
    tail = [one.ending_s for one in found.passes[arm]]
    starting: np.ndarray = np.maximum(first, 0) + np.array(tail)
    return starting
