"""Where the time of a pass went: waiting for batches, moving them, computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Timing:
    """The times of one pass; all in seconds.

    `seconds` is the sum of waits, transfers and the rest, as the host saw them; and it is the sum of
    the first batch, the tail, and what lies between them.

    The measured steps are all but the first, as in MLPerf Storage: on the device's own clock, from
    the end of the first step to the end of the last. On a device with a queue, a wait for a batch
    costs nothing unless the device runs dry meanwhile.

    Attributes:
        seconds: from asking for the iterator until the device had done everything.
        first_batch_s: until the first batch was there.
        exhausted_s: from the last step's start until the loader had said that there is no more.
        tail_s: from the last step's start until the device had done everything.
        ending_s: from when the last step had been started until the loader had said so: what a loader
            takes for its ending, such as stopping workers.
        wait_s: sum of the waits for a batch, and for the end.
        transfer_s: sum of the times until a batch was on its way to the device.
        compute_s: the rest: steps, and the wait for the device.
        measured_s: of the measured steps.
        computing_s: of those, how long the device computed; None if there was no device.
        samples, batches: how many came.
        measured_samples: of the measured steps.
        waits: for each batch, float32, shape (batches,); the first from asking for the iterator.
        stalls: how long the device did nothing before each step, float32, shape (batches,); 0 before
            the first. Without a device that of a consumer that takes no time: the waits.
    """

    seconds: float
    first_batch_s: float
    exhausted_s: float
    tail_s: float
    ending_s: float
    wait_s: float
    transfer_s: float
    compute_s: float
    measured_s: float
    computing_s: float | None
    samples: int
    batches: int
    measured_samples: int
    waits: NDArray[np.float32] = field(compare=False, repr=False)
    stalls: NDArray[np.float32] = field(compare=False, repr=False)

    @property
    def steps(self) -> int:
        """Number of measured steps."""
        return max(self.batches - 1, 0)

    @property
    def step_s(self) -> float | None:
        """Mean time of a measured step with the wait before it; None if there is none."""
        return self.measured_s / self.steps if self.steps else None

    @property
    def steady_samples_per_s(self) -> float | None:
        """Samples a second of the measured steps: without start and tail; None if there is none."""
        return self.measured_samples / self.measured_s if self.steps else None

    @property
    def utilisation(self) -> float | None:
        """Accelerator utilisation of the measured steps, 0 to 1; None without a device or a step.

        Time computing / total time, as MLPerf Storage defines it for its emulated accelerators; on a
        device that computes, the time of each step is measured instead of given.
        """
        return None if self.computing_s is None or not self.steps else self.computing_s / self.measured_s

    def wait_quantile(self, share: float) -> float | None:
        """Return the wait for a batch that a share of the measured steps stays below; None without any."""
        return float(np.quantile(self.waits[1:], share)) if self.steps else None


@dataclass(frozen=True)
class Readings:
    """What a clock read in a pass; nanoseconds.

    Attributes:
        laps: four readings for each step: asked, received, transferred, stepped.
        started_ns: before the iterator was asked for.
        exhausted_ns: when the loader had said that there is no more.
        ended_ns: when the device had done everything.
    """

    laps: Sequence[int]
    started_ns: int
    exhausted_ns: int
    ended_ns: int

    @property
    def steps(self) -> NDArray[np.int64]:
        """The laps, shape (steps, 4)."""
        return np.asarray(self.laps, np.int64).reshape(-1, 4)


def timing(
    readings: Readings,
    sizes: Sequence[int],
    idle_ns: NDArray[np.int64] | None = None,
    computing_ns: NDArray[np.int64] | None = None,
) -> Timing:
    """Sum the readings of a pass up.

    Args:
        readings: of the clock.
        sizes: samples of each batch.
        idle_ns: how long the device did nothing before each step.
        computing_ns: how long each step took it; both None if there was no device.
    """
    asked, received, transferred, stepped = readings.steps.T
    started, exhausted, ended = readings.started_ns, readings.exhausted_ns, readings.ended_ns
    waits, transfer = received - asked, int((transferred - received).sum())
    any_came = len(asked) > 0
    ending = exhausted - (int(stepped[-1]) if any_came else started)
    wait = int(waits.sum()) + ending
    last_step = int(transferred[-1]) if any_came else started
    stalls = waits * (np.arange(len(waits)) > 0) if idle_ns is None else idle_ns
    computing = 0 if computing_ns is None else int(computing_ns[1:].sum())
    return Timing(
        seconds=(ended - started) / 1e9,
        first_batch_s=((int(received[0]) if any_came else exhausted) - started) / 1e9,
        exhausted_s=(exhausted - last_step) / 1e9,
        tail_s=(ended - last_step) / 1e9,
        ending_s=ending / 1e9,
        wait_s=wait / 1e9,
        transfer_s=transfer / 1e9,
        compute_s=(ended - started - wait - transfer) / 1e9,
        measured_s=(int(stalls.sum()) + computing) / 1e9,
        computing_s=None if computing_ns is None else computing / 1e9,
        samples=sum(sizes),
        batches=len(waits),
        measured_samples=sum(sizes[1:]),
        waits=(waits / 1e9).astype(np.float32),
        stalls=(stalls / 1e9).astype(np.float32),
    )
