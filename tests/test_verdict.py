"""From evidence to causes: arithmetic of shares, the rules that divide loading, and the words."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from loaderproof.loaders.registry import load
from loaderproof.suite.diagnosis import difference, stages_report
from loaderproof.suite.diagnosis.causes import Cause
from loaderproof.suite.diagnosis.evidence import (
    ALONE,
    CEILING,
    COLD,
    PINNED,
    PLAIN,
    REPLAY,
    WARM,
    Activity,
    Evidence,
    Role,
    epoch_s,
    steady_s,
)
from loaderproof.suite.diagnosis.verdict import Verdict, fetch_stall, judge, portions
from loaderproof.suite.statistics import Ratio
from loaderproof.suite.timeline import Timing

BATCHES, BLOCKS = 100, 6
IDLE = Role(running=0.05, device=0.0, cpu=0.05, demand=0.05)
BUSY = Role(running=1.0, device=0.0, cpu=1.0, demand=1.0)
WAITING = Role(running=0.05, device=0.9, cpu=0.05, demand=0.05)


def passed(step_ms: float, first_ms: float = 0.0, tail_ms: float = 0.0, waits=None) -> Timing:
    """Return a pass of so many milliseconds a step."""
    seconds = (step_ms * BATCHES + first_ms + tail_ms) / 1e3
    each = np.full(BATCHES, step_ms / 1e3, np.float32) if waits is None else waits
    return Timing(
        seconds=seconds,
        first_batch_s=first_ms / 1e3,
        exhausted_s=tail_ms / 1e3,
        ending_s=tail_ms / 1e3,
        tail_s=tail_ms / 1e3,
        wait_s=0.0,
        transfer_s=0.0,
        compute_s=0.0,
        measured_s=seconds,
        computing_s=None,
        samples=64 * BATCHES,
        batches=BATCHES,
        measured_samples=64 * (BATCHES - 1),
        waits=each,
        stalls=each,
    )


def evidence(
    main: Role = IDLE, workers=(), spread: float = 0.001, late_ms=0.05, beside=0.0, **arms
) -> Evidence:
    """Return evidence in which each block differs a little from the others."""
    generator = np.random.default_rng(7)
    arms = {CEILING: passed(2.0), REPLAY: passed(2.0), ALONE: passed(10.0), **arms}
    found = Evidence("a loader", "emulated 2 ms step", len(workers), BATCHES, cores=2.0)
    found.activity = Activity(1.0, main, list(workers), beside, late_ms, [])
    for arm, one in arms.items():
        found.passes[arm] = [
            replace(one, seconds=one.seconds * (1 + spread * generator.normal())) for _ in range(BLOCKS)
        ]
    return found


def test_epoch_is_first_batch_steps_and_end():
    """A pass that was cut off after some steps tells how long a whole epoch takes."""
    part = passed(2.0, first_ms=30, tail_ms=10)

    assert 0.002 == pytest.approx(steady_s(part))
    assert 0.03 + 0.002 * 1_000 + 0.01 == pytest.approx(epoch_s(part, 1_000))


def test_shares_add_up():
    """Whatever was measured, the shares of all causes add up to the whole, in each block."""
    found = evidence(workers=[BUSY, WAITING], spread=0.3, **{WARM: passed(10, 50, 5), PLAIN: passed(12)})

    assert np.ones(BLOCKS) == pytest.approx(sum(portions(found).values()))


@pytest.mark.parametrize(
    ("found", "cause", "percent"),
    [
        (evidence(main=BUSY, **{WARM: passed(10)}), Cause.PREPARATION, 80),
        (evidence(main=WAITING, **{WARM: passed(10)}), Cause.FETCH, 80 * 0.9 / 0.95),
        (
            evidence(workers=[WAITING, WAITING], **{WARM: passed(10), PLAIN: passed(20)}),
            Cause.FETCH,
            80 * 0.9 / 0.95,
        ),
        (evidence(workers=[BUSY, BUSY], **{WARM: passed(10), PLAIN: passed(20)}), Cause.PREPARATION, 80),
        (evidence(workers=[BUSY, IDLE], **{WARM: passed(10), PLAIN: passed(2)}), Cause.STRAGGLERS, 80 * 0.95),
        (
            evidence(main=BUSY, workers=[IDLE, IDLE], **{WARM: passed(10), PLAIN: passed(2)}),
            Cause.HAND_OVER,
            80,
        ),
        (evidence(**{WARM: passed(2, first_ms=200), REPLAY: passed(2)}), Cause.START_UP, 50),
        (evidence(main=BUSY, **{WARM: passed(8), REPLAY: passed(8)}), Cause.TRANSFER, 75),
        (evidence(**{WARM: passed(8), REPLAY: passed(8), PINNED: passed(4)}), Cause.PINNING, 50),
        (evidence(**{WARM: passed(8), REPLAY: passed(8), PINNED: passed(7)}), Cause.TRANSFER, 62.5),
        (
            evidence(main=replace(BUSY, cpu=2.0, demand=16.0), **{WARM: passed(10)}),
            Cause.OVER_SUBSCRIPTION,
            80 * 14 / 16,
        ),
        (evidence(main=BUSY, beside=0.9, late_ms=5.0, **{WARM: passed(10)}), Cause.GIL, 80),
        (evidence(**{WARM: passed(2), ALONE: passed(0.5)}), Cause.COMPUTE, 100),
        (evidence(**{WARM: passed(2.04), ALONE: passed(1.8)}), Cause.NONE, 2),
    ],
    ids=lambda value: str(value) if isinstance(value, Cause) else "",
)
def test_cause_is_found_with_its_cost(found, cause, percent):
    """Each pattern of evidence has one cause, at the share of the time that follows from its figures."""
    verdict = judge(found)

    assert (cause, pytest.approx(percent, abs=1.0)) == (verdict.cause, verdict.cost.percent)
    assert verdict.cost.low - 1 < percent < verdict.cost.high + 1


def test_late_threads_in_another_library_are_no_matter_of_the_lock():
    """Threads that compute without the interpreter's lock prepare; they do not wait for it."""
    assert (
        Cause.PREPARATION is judge(evidence(main=BUSY, beside=1.5, late_ms=0.1, **{WARM: passed(10)})).cause
    )


def test_one_slow_batch_in_eight_is_a_straggler():
    """Batches that take many times the usual one, and most of all the waiting, are told from slow ones."""
    waits = np.where(np.arange(BATCHES) % 8 == 7, 0.1, 0.001).astype(np.float32)
    slow = passed(waits.mean() * 1e3, waits=waits)

    assert Cause.STRAGGLERS is judge(evidence(main=BUSY, **{WARM: slow, ALONE: slow})).cause


def test_batches_that_are_late_beside_training_alone_are_no_stragglers():
    """What keeps a batch waiting only while training runs is nothing that the batch has."""
    waits = np.where(np.arange(BATCHES) % 8 == 7, 0.1, 0.001).astype(np.float32)
    slow = passed(waits.mean() * 1e3, waits=waits)

    assert Cause.STRAGGLERS is not judge(evidence(main=BUSY, **{WARM: slow})).cause


CROWDED = Role(running=1.0, device=0.0, cpu=0.3, demand=1.0)


@pytest.mark.parametrize(
    ("device", "alone_ms", "main", "cause"),
    [
        ("emulated", 1.0, CROWDED, Cause.UNKNOWN),
        ("emulated", 1.0, BUSY, Cause.PREPARATION),
        ("emulated", 3.0, CROWDED, Cause.UNKNOWN),
        ("emulated", 8.0, CROWDED, Cause.PREPARATION),
        ("cpu", 1.0, CROWDED, Cause.PREPARATION),
    ],
    ids=[
        "has room",
        "on a quiet machine",
        "would have room",
        "is too slow anyway",
        "shares the processor with training",
    ],
)
def test_a_loader_with_room_is_not_blamed_for_a_busy_machine(device, alone_ms, main, cause):
    """A loader that alone is faster than the device is blamed for waits only if it got the cores that it wanted."""
    found = evidence(main=main, **{WARM: passed(4), ALONE: passed(alone_ms)})
    found.device = device

    assert cause is judge(found).cause


def test_a_busy_machine_makes_no_bottleneck():
    """Who is fast enough on a busy machine has no bottleneck on it."""
    assert Cause.NONE is judge(evidence(main=CROWDED, **{WARM: passed(2.04), ALONE: passed(1.8)})).cause


def test_waiting_for_others_cores_is_no_preparation():
    """A process that hardly computes, and queues behind other programs to do so, waits for its storage."""
    queues = Role(running=0.5, device=0.4, cpu=0.05, demand=0.5)

    assert Cause.FETCH is judge(evidence(main=queues, **{WARM: passed(10)})).cause


def test_batches_that_come_a_few_at_a_time_are_no_stragglers():
    """A pool of processes that hands over three batches at a time has no slow one among them."""
    waits = np.where(np.arange(BATCHES) % 3, 0.0001, 0.03).astype(np.float32)
    slow = passed(waits.mean() * 1e3, waits=waits)

    assert Cause.STRAGGLERS is not judge(evidence(main=BUSY, **{WARM: slow})).cause


def test_bunches_of_equal_workers_are_no_stragglers():
    """Two equal workers deliver in pairs, so every second wait is none; nobody is slower than the other."""
    waits = np.where(np.arange(BATCHES) % 2, 0.0, 0.02).astype(np.float32)
    found = evidence(workers=[BUSY, BUSY], **{WARM: passed(10, waits=waits), PLAIN: passed(18)})

    assert Cause.PREPARATION is judge(found).cause


@pytest.mark.parametrize(("granted", "cause"), [(0.5, Cause.PREPARATION), (1.0, Cause.STRAGGLERS)])
def test_a_worker_that_others_keep_from_its_core_is_no_straggler(granted, cause):
    """Of two workers one may have to wait for a core; only one that needs longer for its work is slow."""
    slowest = Role(running=1.0, device=0.0, cpu=granted, demand=1.0)
    other = Role(running=0.4, device=0.0, cpu=0.4, demand=0.4)
    found = evidence(workers=[slowest, other], **{WARM: passed(10), PLAIN: passed(18)})

    assert cause is judge(found).cause


def test_idle_workers_are_no_stragglers():
    """Where nobody is busy most of the time, nobody waits for the one that is busy a little longer."""
    little = [replace(IDLE, running=0.15, cpu=0.15, demand=0.15), IDLE]

    assert (
        Cause.STRAGGLERS is not judge(evidence(workers=little, **{WARM: passed(10), PLAIN: passed(12)})).cause
    )


def test_wide_intervals_are_no_evidence():
    """What lies between nothing and much is not called either."""
    assert Cause.UNKNOWN is judge(evidence(spread=0.2, **{WARM: passed(2.15)})).cause


def test_two_blocks_are_no_evidence():
    """However clear it looks, two blocks decide nothing."""
    found = evidence(main=BUSY, **{WARM: passed(10)})
    found.passes = {arm: passes[:2] for arm, passes in found.passes.items()}

    assert Cause.UNKNOWN is judge(found).cause


def test_without_a_look_loading_is_preparation():
    """Where the kernel does not tell what processes do, nothing is said of disks or locks."""
    found = evidence(main=BUSY, **{WARM: passed(10)})
    found.activity = None

    assert (Cause.PREPARATION, None) == (judge(found).cause, judge(found).second)


def test_cold_files_add_to_an_epoch():
    """The fetch stall is the time that dropped files add, as a share of the epoch without."""
    found = evidence(**{WARM: passed(10), COLD: passed(15)})

    assert 50 == pytest.approx(fetch_stall(found).percent, abs=0.5)


def said(found: Evidence, verdict: Verdict | None = None) -> str:
    """Return what a person reads."""
    return stages_report.text(found, verdict or judge(found), load("torch_dataloader").description)


def test_words_name_cause_cost_and_remedy():
    """The text begins with the cause and its cost, and ends with what to change, by the adapter's options."""
    found = evidence(workers=[BUSY, BUSY], **{WARM: passed(2, first_ms=200), PLAIN: passed(1.5)})

    lines = said(found).splitlines()

    assert lines[0].startswith("  start-up costs 49.6 % (")
    assert any("try persistent_workers=True; --loader-tune measures what it brings" in line for line in lines)


def test_words_say_which_number_of_workers_is_faster():
    """A number of workers is recommended only if its interval lies above this one's."""
    found = evidence(workers=[BUSY, BUSY], **{WARM: passed(10), PLAIN: passed(20)})
    found.speeds = {0: Ratio(0.5, 0.45, 0.55), 4: Ratio(1.6, 1.5, 1.7)}
    assert "num_workers=4 brings 1.60x here (1.50 to 1.70)" in said(found)

    found.speeds[4] = Ratio(1.6, 0.9, 2.8)
    assert "leave num_workers=2: no other number is faster here (0: 0.50x, 4: 1.60x)" in said(found)


def report(found: Evidence, trained_s: float | None = None) -> SimpleNamespace:
    """Return what pytest would report of a loader that was diagnosed, and perhaps timed."""
    about = load("torch_dataloader").description
    noted = [("loader", found.loader), ("loader_verdict", stages_report.as_data(found, judge(found), about))]
    timed = {"seconds": {"value": trained_s, "low": 0.9 * (trained_s or 0), "high": 1.1 * (trained_s or 0)}}
    noted += [("loader_train", timed)] if trained_s else []
    return SimpleNamespace(when="call", user_properties=noted)


def test_difference_is_told_cause_by_cause():
    """What another loader takes more or less than the best plain one is the sum over causes, and timed apart."""
    plain = evidence(spread=0, **{WARM: passed(3, first_ms=100), REPLAY: passed(2)})
    plain.loader = "torch_dataloader-2workers"
    other = evidence(spread=0, **{WARM: passed(2, first_ms=20), REPLAY: passed(2)})
    other.loader = "another"

    lines = difference.text([report(plain, 0.4), report(other, 0.22)]).splitlines()

    assert (
        "an epoch of another beside one of torch_dataloader-2workers: -180.0 ms (-180.0 to -180.0)"
        == lines[0]
    )
    assert any(re.fullmatch(r" +start-up +-(79|78)\.\d ms .*", line) for line in lines)
    assert any(re.fullmatch(r" +together +-180\.0 ms", line) for line in lines)
    assert any(re.fullmatch(r" +timed apart +-180\.0 ms \(-225\.7 to -134\.3\), .*", line) for line in lines)


def test_one_loader_differs_from_none():
    """A run with one loader, or without a plain PyTorch one, has no differences to tell."""
    found = evidence(**{WARM: passed(3)})

    assert "" == difference.text([report(found)]) == difference.text([report(found), report(found)])


def test_data_are_plain():
    """What goes into files has no infinities, which JSON does not know."""
    found = evidence(main=BUSY, **{WARM: passed(10)})
    found.passes = {arm: passes[:1] for arm, passes in found.passes.items()}

    data = stages_report.as_data(found, judge(found), load("torch_dataloader").description)

    assert ("not enough evidence", None) == (data["cause"], data["cost"]["high"])
    assert 10 == len(data["shares"])


def test_words_name_what_workers_share():
    """Workers of which one at a time is busy wait for each other; those that are all busy do not."""
    in_turns = Role(running=0.5, device=0.0, cpu=0.5, demand=0.5)
    found = evidence(workers=[in_turns, in_turns], **{WARM: passed(10), PLAIN: passed(10)})
    assert "look for what the workers share" in said(found)

    found = evidence(workers=[BUSY, BUSY], **{WARM: passed(10), PLAIN: passed(20)})
    assert "look for what the workers share" not in said(found)


def test_words_name_threads_that_may_hold_the_lock():
    """Threads that prepare batches may hold the interpreter's lock too briefly for that to be seen."""
    assert "as far as that is Python, they take turns" in said(
        evidence(main=BUSY, beside=0.9, **{WARM: passed(10)})
    )
    assert "as far as that is Python, they take turns" not in said(evidence(main=BUSY, **{WARM: passed(10)}))
