"""Where the time of a pass went: waiting for batches, moving them, computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Timing:
    """The times of one pass; all in seconds.

    Attributes:
        seconds: from asking for the iterator until the device had done everything.
        first_batch_s: until the first batch was there.
        wait_s: sum of the waits for a batch, and for the end.
        transfer_s: sum of the times until a batch was on its way to the device.
        compute_s: the rest: steps, and the wait for the device.
        samples, batches: how many came.
    """

    seconds: float
    first_batch_s: float
    wait_s: float
    transfer_s: float
    compute_s: float
    samples: int
    batches: int

    @property
    def steady_samples_per_s(self) -> float:
        """Return the samples a second, without the time to the first batch."""
        return self.samples / (self.seconds - self.first_batch_s)


def timing(laps: Sequence[int], started_ns: int, exhausted_ns: int, ended_ns: int, samples: int) -> Timing:
    """Sum the readings of a pass up.

    Args:
        laps: four readings in nanoseconds for each step: asked, received, transferred, stepped.
        started_ns: before the iterator was asked for.
        exhausted_ns: when the loader had said that there is no more.
        ended_ns: when the device had done everything.
        samples: how many came.
    """
    steps = np.asarray(laps, np.int64).reshape(-1, 4)
    last = int(steps[-1, 3]) if len(steps) else started_ns
    wait = int((steps[:, 1] - steps[:, 0]).sum()) + exhausted_ns - last
    transfer = int((steps[:, 2] - steps[:, 1]).sum())
    first = int(steps[0, 1]) if len(steps) else exhausted_ns
    return Timing(
        seconds=(ended_ns - started_ns) / 1e9,
        first_batch_s=(first - started_ns) / 1e9,
        wait_s=wait / 1e9,
        transfer_s=transfer / 1e9,
        compute_s=(ended_ns - started_ns - wait - transfer) / 1e9,
        samples=samples,
        batches=len(steps),
    )
