"""What is gated, and how a block of measurements becomes one number for each measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

# The arms of a block; the base twice, which shows what is noise.
CANDIDATE, BASE, AGAIN = "candidate", "base", "base again"
_MIB = 2**20


class Measure(StrEnum):
    """What the gate compares; of each, more is worse."""

    TRAINING = "training"
    """Seconds of an epoch of training."""
    LOADING = "loading"
    """Seconds of an epoch of the loader alone."""
    FIRST_BATCH = "first batch"
    """Seconds from opening the loader to its first batch, with an epoch of training behind it."""
    WAIT = "wait share"
    """Share of an epoch of training in which the host waited for batches, 0 to 1."""
    MEMORY = "peak memory"
    """Most bytes that all processes of the loader held (PSS)."""


# These are compared as differences in points; all others as ratios.
SHARES = frozenset({Measure.WAIT})


def margin_of(measure: Measure, margin: float) -> float:
    """Return the largest difference of levels that a margin allows.

    Args:
        measure: what is compared.
        margin: how much worse it may be, as a share; of shares, so many points of a hundred.
    """
    return margin if measure in SHARES else math.log1p(margin)


@dataclass(frozen=True)
class Seen:
    """What one process showed in one block; times in seconds.

    Attributes:
        first_batches_s: from opening the loader to its first batch, each time that it was opened.
        training_s, loading_s: of each epoch of training, and of the loader alone.
        wait_shares: of each epoch of training, 0 to 1.
        peak_bytes: None where the kernel does not tell.
    """

    first_batches_s: Sequence[float]
    training_s: Sequence[float]
    loading_s: Sequence[float]
    wait_shares: Sequence[float]
    peak_bytes: int | None


@dataclass(frozen=True)
class Block:
    """One fresh process for each arm, measured side by side.

    Attributes:
        seen: what each arm showed, by its name.
        ceiling_s: epochs of training on batches that lie on the device, in the process of the first arm.
        seconds: that the whole block took.
    """

    seen: Mapping[str, Seen]
    ceiling_s: Sequence[float]
    seconds: float


def levels(measure: Measure, blocks: Sequence[Block], arm: str) -> list[float]:
    """Return one number a block; the difference of two arms is how much worse the first is.

    Args:
        measure: what to look at.
        blocks: of one loader.
        arm: name of an arm.

    Returns:
        Shares as they are; natural logarithms of times as multiples of the block's ceiling, which
        cancels out within a block, and of memory in MiB. Medians of a block's epochs, so that one that
        was disturbed does not count. None at all where there is no such arm, or the kernel does not tell
        memory.
    """
    there = [block for block in blocks if arm in block.seen]
    numbers = [_level(measure, block.seen[arm], median(block.ceiling_s)) for block in there]
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else []


def _level(measure: Measure, seen: Seen, ceiling_s: float) -> float | None:
    if measure is Measure.WAIT:
        return median(seen.wait_shares)
    if measure is Measure.MEMORY:
        return math.log(seen.peak_bytes / _MIB) if seen.peak_bytes else None
    training = median(seen.training_s)
    seconds = {
        Measure.TRAINING: training,
        Measure.LOADING: median(seen.loading_s),
        # A first batch is as late as the epoch behind it makes it: twice 1 ms delays nobody.
        Measure.FIRST_BATCH: median(seen.first_batches_s) + training,
    }
    return math.log(seconds[measure] / ceiling_s)
