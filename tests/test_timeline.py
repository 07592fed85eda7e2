"""From the readings of a clock to where the time went."""

from loaderproof.suite.timeline import Timing, timing

SECOND = 10**9


def test_sums_of_a_pass():
    """Waits, transfers and the rest add up to the whole, with the wait for the end of the pass."""
    # Started at 100; two steps of asked, received, transferred, stepped; exhausted at 130, ended at 140.
    laps = [100, 104, 105, 112, 113, 116, 118, 125]

    summed = timing([lap * SECOND for lap in laps], 100 * SECOND, 130 * SECOND, 140 * SECOND, samples=96)

    assert 40 == summed.seconds
    assert 4 == summed.first_batch_s
    assert (104 - 100) + (116 - 113) + (130 - 125) == summed.wait_s
    assert (105 - 104) + (118 - 116) == summed.transfer_s
    assert summed.seconds == summed.wait_s + summed.transfer_s + summed.compute_s
    assert (96, 2) == (summed.samples, summed.batches)


def test_start_before_the_first_request():
    """What it takes to start the iterator counts towards the first batch."""
    summed = timing([lap * SECOND for lap in (3, 4, 4, 4)], 0, 4 * SECOND, 4 * SECOND, samples=1)

    assert 4 == summed.first_batch_s


def test_steady_speed_leaves_the_first_batch_out():
    """Steady throughput is taken over the time after the first batch came."""
    assert 50 == Timing(3.0, 1.0, 0, 0, 2.0, samples=100, batches=2).steady_samples_per_s


def test_an_empty_pass():
    """A pass without a batch was one wait for its end."""
    assert Timing(
        seconds=5, first_batch_s=3, wait_s=3, transfer_s=0, compute_s=2, samples=0, batches=0
    ) == timing([], 0, 3 * SECOND, 5 * SECOND, samples=0)


def test_fractions_of_a_microsecond_are_kept():
    """Nanoseconds do not drown in large readings of the clock."""
    late = 10**18

    summed = timing([late + lap for lap in (0, 1, 3, 6)], late, late + 7, late + 10, samples=1)

    assert (1e-8, 1e-9, 2e-9, 2e-9) == (
        summed.seconds,
        summed.first_batch_s,
        summed.wait_s,
        summed.transfer_s,
    )
