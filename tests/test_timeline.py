"""From the readings of a clock to where the time went."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from loaderproof.model.accelerator import Cpu, Emulated
from loaderproof.suite.experiments.rounds import timed_pass
from loaderproof.suite.timeline import Readings, Timing, timing

SECOND = 10**9


def made(laps: list[int], exhausted: int, ended: int, sizes: list[int], *device, started: int = 0) -> Timing:
    """Return the timing of a pass whose readings are given in seconds."""
    readings = Readings([lap * SECOND for lap in laps], started * SECOND, exhausted * SECOND, ended * SECOND)
    return timing(readings, sizes, *(np.asarray(one) * SECOND for one in device))


# Started at 100; two steps of asked, received, transferred, stepped; exhausted at 130, ended at 140.
TWO_STEPS = [100, 104, 105, 112, 113, 116, 118, 125]


def test_sums_of_a_pass():
    """Waits, transfers and the rest add up to the whole, with the wait for the end of the pass."""
    summed = made(TWO_STEPS, 130, 140, [64, 32], started=100)

    assert 40 == summed.seconds
    assert (104 - 100) + (116 - 113) + (130 - 125) == summed.wait_s
    assert (105 - 104) + (118 - 116) == summed.transfer_s
    assert summed.seconds == summed.wait_s + summed.transfer_s + summed.compute_s
    assert (96, 2) == (summed.samples, summed.batches)


def test_ends_of_a_pass():
    """The first batch counts from the start, the tail from the last step's start to both of its ends."""
    summed = made(TWO_STEPS, 130, 140, [64, 32], started=100)

    assert 104 - 100 == summed.first_batch_s
    assert (130 - 118, 140 - 118) == (summed.exhausted_s, summed.tail_s)
    assert 130 - 125 == summed.ending_s


def test_start_before_the_first_request():
    """What it takes to start the iterator counts towards the first batch."""
    assert 4 == made([3, 4, 4, 4], 4, 4, [1]).first_batch_s


def test_first_step_is_not_measured():
    """Utilisation, step time and speed are those of the steps after the first, on the device's clock."""
    laps = [0, 4, 4, 4, 4, 7, 7, 7, 7, 8, 8, 8]

    summed = made(laps, 8, 20, [64, 64, 32], [0, 1, 0], [9, 3, 4])

    assert (8, 7, 2, 4) == (summed.measured_s, summed.computing_s, summed.steps, summed.step_s)
    assert 7 / 8 == summed.utilisation
    assert (64 + 32) / 8 == summed.steady_samples_per_s


def test_without_a_device():
    """Where nothing computes there is no utilisation; the measured time is that of the waits."""
    summed = made([0, 4, 4, 4, 5, 8, 8, 8, 9, 10, 10, 10], 12, 12, [64, 64, 32])

    assert (None, None) == (summed.computing_s, summed.utilisation)
    assert (3 + 1, 96 / 4) == (summed.measured_s, summed.steady_samples_per_s)
    assert [0, 3, 1] == summed.stalls.tolist()


@pytest.mark.parametrize("batches", [0, 1])
def test_nothing_is_steady_in_one_step(batches):
    """A pass of one batch or of none has no measured step, and claims nothing of such."""
    summed = made([0, 1, 1, 1] * batches, 2, 3, [64] * batches, [0] * batches, [2] * batches)

    assert (0, 0, 0) == (summed.steps, summed.measured_s, summed.measured_samples)
    steady = summed.step_s, summed.steady_samples_per_s, summed.utilisation, summed.wait_quantile(0.5)
    assert (None, None, None, None) == steady


def test_every_wait_is_kept():
    """The wait for each batch, the first too, is there to be looked at, with quantiles without the first."""
    asked = range(0, 101 * 200, 200)
    laps = [lap for number, start in enumerate(asked) for lap in (start, *[start + (number or 150)] * 3)]

    summed = made(laps, laps[-1], laps[-1], [1] * 101)

    assert [150, *range(1, 101)] == summed.waits.tolist()
    assert [1, 50.5, 100] == [summed.wait_quantile(share) for share in (0, 0.5, 1)]


def test_long_passes_stay_small():
    """The steps of a long pass take eight bytes each on their way to another process, which needs no torch."""
    laps, steps = list(range(4 * 10**5)), 10**5

    sent = pickle.dumps(timing(Readings(laps, 0, laps[-1], laps[-1]), [64] * steps))

    assert len(sent) < 8 * steps + 1_000
    assert b"torch" not in sent


def test_an_empty_pass():
    """A pass without a batch was one wait for its end."""
    summed = made([], 3, 5, [])

    assert (5, 3, 5) == (summed.seconds, summed.first_batch_s, summed.tail_s)
    assert (3, 3) == (summed.exhausted_s, summed.ending_s)
    assert (3, 0, 2) == (summed.wait_s, summed.transfer_s, summed.compute_s)
    assert (0, 0) == (summed.samples, summed.batches)


def test_fractions_of_a_microsecond_are_kept():
    """Nanoseconds do not drown in large readings of the clock."""
    late = 10**18

    summed = timing(Readings([late + lap for lap in (0, 1, 3, 6)], late, late + 7, late + 10), [1])

    assert (1e-8, 1e-9, 2e-9, 2e-9) == (
        summed.seconds,
        summed.first_batch_s,
        summed.wait_s,
        summed.transfer_s,
    )


MS = 10**6
# Nine, seven, five and three tenths of it, and one, make whole nanoseconds.
STEP_NS = 63 * MS // 10


class Clock:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now = 0

    def read(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that the training loop reads."""
    made = Clock()
    monkeypatch.setattr("time.perf_counter_ns", made.read)
    return made


def batches(count: int, before: Callable[[int], None]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of two; before each the loader does something."""
    for number in range(count):
        before(number)
        yield torch.zeros(2, 1, 6, 6), torch.zeros(2, dtype=torch.int64)


def first_label(images: Tensor, labels: Tensor) -> Tensor:
    """Stand in for a step."""
    return labels[0]


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("tenths", [0, 1, 3, 5, 7, 9])
def test_planted_share_on_a_device_with_a_queue(clock: Clock, tenths: int, depth: int):
    """A device that gets its batches so late that it is idle for a share of the time is idle for that share."""
    period_ns = STEP_NS * 10 // (10 - tenths)
    device = Emulated(STEP_NS, depth=depth, clock=clock.read, sleep=clock.sleep)

    def come(number: int) -> None:
        clock.now = max(clock.now, number * period_ns)

    found = timed_pass(batches(20, come), device, first_label)

    assert 1 - tenths / 10 == pytest.approx(found.utilisation, abs=1e-12)
    assert period_ns / 1e9 == pytest.approx(found.step_s, abs=1e-12)


@pytest.mark.parametrize("tenths", [0, 1, 3, 5, 7, 9])
def test_planted_share_on_the_cpu(clock: Clock, tenths: int):
    """A step that waits for its batch for a share of the time leaves the rest to computing."""

    def wait(number: int) -> None:
        clock.now += STEP_NS * tenths // (10 - tenths)

    def compute(images: Tensor, labels: Tensor) -> Tensor:
        clock.now += STEP_NS
        return labels[0]

    found = timed_pass(batches(20, wait), Cpu(), compute)

    assert 1 - tenths / 10 == pytest.approx(found.utilisation, abs=1e-8)
    assert tenths / 10 == pytest.approx(float(found.waits[1:].sum()) / found.measured_s, abs=1e-6)


def test_waits_that_cost_nothing(clock: Clock):
    """While the device is busy anyway, waiting for a batch is no stall; it is still seen as waiting."""
    device = Emulated(STEP_NS, clock=clock.read, sleep=clock.sleep)

    found = timed_pass(batches(20, lambda _: clock.sleep(STEP_NS / 2e9)), device, first_label)

    assert (1, 0) == (found.utilisation, found.stalls.max())
    assert STEP_NS / 2e9 == pytest.approx(found.wait_quantile(0.5))


def test_straggler_stalls_where_it_comes(clock: Clock):
    """One batch that is late by more than what is queued costs the rest, at its own step."""
    device = Emulated(2 * MS, depth=2, clock=clock.read, sleep=clock.sleep)

    found = timed_pass(
        batches(8, lambda number: clock.sleep(0.01 if number == 5 else 0)), device, first_label
    )

    # Batch 4 was let in while step 2 ran: steps 3 and 4 are still to come when 5 is asked for at its end.
    assert [0, 0, 0, 0, 0, 6, 0, 0] == pytest.approx((found.stalls * 1e3).tolist(), abs=1e-6)
