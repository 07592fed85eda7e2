"""The causes of lost time, and how the time of loading divides among them.

What the loader's processes did while it ran alone decides: who was computing, who waited for a
device, and who for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from loaderproof.suite.diagnosis import evidence as arms
from loaderproof.suite.diagnosis.evidence import Activity, Evidence, Role


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
# Threads of one process that want more than so many times the cores there are.
_CROWD = 2.0
# A thread that has to wait so long for the interpreter, in ms; its switch interval is 5 ms.
_LATE_MS = 1.0
# Python threads beside the main one that use so much of what their process uses do the loader's work.
BESIDE = 0.3
# The slowest worker is busy so much of the time, and the others are idle so much more of it.
_ENGAGED, _IDLE = 0.5, 0.35
# Batches that take so many times the median one, are at most so many of all, and together take so much of all waits.
_LONG, _FEW, _CONCENTRATED = 3.0, 0.2, 0.5


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
        with_workers, without = steady(found, arms.WARM), steady(found, arms.PLAIN)
        loading = with_workers - steady(found, arms.REPLAY)
        gone = float(np.median((with_workers - without) / np.maximum(loading, 1e-9)))
    seen = found.activity
    taking = seen.main.active if seen and seen.workers else 0.0
    making = max((worker.active for worker in seen.workers), default=1.0) if seen else 1.0
    return min(max(gone, taking / (taking + making) if taking > making else 0.0, 0.0), 1.0)


def on_device(found: Evidence) -> float:
    """Return the share of the time of those who make batches that went to waiting for disk, network or clock.

    What they waited for cores that other programs had is left out: it is no part of making batches.
    """
    busy = makers(found.activity)
    device, running = (sum(getattr(one, what) for one in busy) for what in ("device", "running"))
    running *= found.granted
    return device / (device + running) if device else 0.0


def held(found: Evidence) -> bool:
    """Tell whether threads beside the main one make the batches and hold the interpreter's lock."""
    seen = found.activity
    if seen is None or seen.workers or seen.late_ms < _LATE_MS:
        return False
    return seen.threads_cpu > BESIDE * seen.main.cpu


def makers(seen: Activity | None) -> Sequence[Role]:
    """Return what those did that make batches: the workers, or the process that takes the batches if there are none."""
    return (seen.workers or [seen.main]) if seen else ()


def steady(found: Evidence, arm: str) -> np.ndarray:
    """Return the mean time of a step of one arm in each block, in seconds."""
    return np.array([arms.steady_s(one) for one in found.passes[arm]])
