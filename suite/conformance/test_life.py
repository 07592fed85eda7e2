"""What a loader does while it lives: beside others, beside itself, and until it is over."""

from __future__ import annotations

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.answers import Ended, Memory, Pass
from loaderproof.suite.conformance.health import (
    PATIENCE,
    content,
    difference,
    expect_whole,
    once_for_each_number_of_workers,
    undisturbed,
    workers_of,
)
from loaderproof.suite.conformance.scenarios import MANY, plain, shuffled
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch, Scenario

MIB = 2**20
# Batches of 450 KiB, epochs of 8.8 MiB as float32.
LARGE, LARGE_BATCH = "probe:200:64x60x3", 10
# A quarter of the bytes of an epoch's samples as they lie in the source, and far more than an
# allocator moves about: see `test_memory_is_given_back`.
LEAST_GROWTH = MIB
EPOCHS = 7
MOST_STORAGE = 4


def test_nothing_is_left_behind(subject: Judged) -> None:
    """A loader that is used, left early and closed leaves no process, thread, descriptor, file or memory.

    Why: what is left each time adds up over epochs and experiments until the machine gives out: of
    memory, of file descriptors, of space in /dev/shm.

    Reports: libffcv/ffcv#345, apache/mxnet PR#13318, mosaicml/streaming#781, pytorch/pytorch#973

    Causes: threads and workers are told to end only when an epoch is read to its end; files are opened
    and not closed; shared memory is not unlinked.

    Remedy: end them in `finally` of the generator, or give the loader a `close()`.
    """
    scenario = plain(subject)
    left = subject.run("life:left_behind", scenario, times=PATIENCE)
    if left:
        subject.fail(
            Place(scenario),
            expected="what was there before; each round opened it, left an epoch, read one, and closed it",
            got="; ".join(left),
            hint="workers or threads that are not joined, files that are not closed; give the loader a close()",
        )


def test_closing_raises_nothing(subject: Judged) -> None:
    """A loader can be closed after an epoch and in the middle of one without an exception.

    Why: an exception at the end of a run hides the result, or the error that the run ended with.

    Causes: `close()` ends what was never begun, or has ended already.

    Remedy: let `close()` do nothing about what is not there.
    """
    scenario = plain(subject)
    undisturbed(subject, scenario)
    raised = subject.run("life:closing", scenario)
    if raised:
        subject.fail(
            Place(scenario),
            expected="close() to return",
            got=f"{raised.splitlines()[-1]}\n\n{raised}",
            hint="something is ended that was never begun, or that has ended already",
        )


def test_passes_do_not_disturb_each_other(subject: Judged) -> None:
    """Two passes over one loader at the same time are both whole, or one of them raises an exception.

    Why: a progress bar, a validation in mid-epoch or a forgotten `next(iter(loader))` begins a second
    pass. If the two share a cursor, each gets a part, and no error tells.

    Reports: meta-pytorch/data#1198

    Causes: the position of an epoch is kept in the loader instead of in its iterator, workers that
    are reset for each new pass, or a lock that the first pass holds.

    Remedy: keep the position in the iterator that `__iter__` returns, or refuse a second pass with an
    exception while the first goes on.
    """
    scenario = plain(subject)
    seen = undisturbed(subject, scenario)
    expect_whole(seen, subject.run("watching:watch_after_break", scenario, taken=2).epochs)
    passes: list[Pass] = subject.run("life:overlapping", scenario)
    for number, one in enumerate(passes):
        if one.epoch is not None and content(one.epoch) != content(seen.epochs[0]):
            subject.fail(
                Place(scenario),
                expected=f"all {seen.count} samples in each of two passes, or an exception in one",
                got=f"in the {('first', 'second')[number]} pass {difference(one.epoch, seen.epochs[0])}",
                hint="the position is kept in the loader, or workers are reset, instead of one for each pass",
            )
    if all(one.raised for one in passes):
        subject.fail(
            Place(scenario),
            expected="at least one of two passes to be whole",
            got=f"exceptions in both; the first:\n\n{passes[0].raised}",
            hint="the second pass breaks the first, and cannot go on itself",
        )


def test_loaders_do_not_disturb_each_other(subject: Judged) -> None:
    """Two loaders at the same time each give what they give alone.

    Why: training and validation go on side by side, and so do two experiments in a notebook. What they
    share, such as a file name or a global generator, makes one depend on the other.

    Causes: state in a class or a module, one file or shared-memory name for all, a global generator.

    Remedy: keep state in the loader; take names for files and shared memory from `tempfile` or from
    the operating system.
    """
    asked = [shuffled(subject), shuffled(subject, subject.seed + 1)]
    alone = [undisturbed(subject, scenario) for scenario in asked]
    together: list[Pass] = subject.run("life:side_by_side", asked[0], other=asked[1])
    in_order = _keeps_its_order(subject, asked[0])
    for scenario, seen, one in zip(asked, alone, together, strict=True):
        owed = seen.epochs[0]
        if one.epoch is None:
            got = one.raised or ""
        elif content(one.epoch) != content(owed):
            got = difference(one.epoch, owed)
        elif in_order and not np.array_equal(one.epoch.index, owed.index):
            got = f"the same samples in another order: {one.epoch.index.tolist()}"
        else:
            continue
        subject.fail(
            Place(scenario, 0),
            expected=f"what it gives alone: {seen.count} samples, {owed.index.tolist()}",
            got=got,
            hint="state in a class or module, one name for files or shared memory, or a global generator",
        )


def _keeps_its_order(subject: Judged, scenario: Scenario) -> bool:
    """Tell whether a loader's order depends on nothing but its seed, when it is alone."""
    promised = {Promise.SHUFFLE, Promise.SEEDED_ORDER, Promise.PRIVATE_RANDOMNESS}
    if not promised <= subject.case.description.promises:
        return False
    first, again = (
        subject.run(experiment, scenario).epochs[0].index
        for experiment in ("watching:watch", "watching:watch_again")
    )
    return np.array_equal(first, again) and not subject.run("watching:random_states", scenario)


def test_reading_ahead_is_bounded(subject: Judged) -> None:
    """No more is read ahead of the consumer than the description declares.

    Why: a loader that reads ahead without bound holds all data in memory as soon as training is slower
    than loading.

    Causes: a queue without a size, tasks that are all handed out at the beginning.

    Remedy: give the queue a size, and hand out a task when a batch is taken.
    """
    ahead = subject.case.description.read_ahead
    if ahead is None:
        pytest.skip("it does not declare read_ahead")
    if subject.case.description.on_disk:
        pytest.skip("it reads from its own files, so what it reads cannot be counted")
    scenario = subject.scenario(MANY, epochs=1, batch_size=4)
    seen = undisturbed(subject, scenario)
    size = scenario.request.batch_size
    read = subject.run("life:read_ahead", scenario)
    # One batch was taken, and one may be in the making.
    most = size * (ahead * max(subject.case.workers, 1) + 2)
    if read > most:
        subject.fail(
            Place(scenario, 0, 0),
            expected=f"at most {most} of {seen.count} samples read when one batch is taken (read_ahead={ahead})",
            got=f"{read}",
            hint="a queue without a size, or tasks that are all handed out at the beginning",
        )


def test_batches_hold_no_more_than_they_show(subject: Judged) -> None:
    """The memory that a batch keeps alive is not much larger than the batch.

    Why: whoever keeps a batch that is a slice of something large keeps all of it, and whoever saves it
    or sends it to another process sends all of it.

    Reports: embeddings-benchmark/mteb PR#4747

    Causes: a slice of a whole epoch or data set is handed out as a batch.

    Remedy: `clone()` the slice, or collate into new memory.
    """
    scenario = _large(subject)
    found: Memory = subject.run("memory:epochs", scenario, least=LEAST_GROWTH)
    if found.storage > MOST_STORAGE * found.batch and found.storage - found.batch > MIB:
        subject.fail(
            Place(scenario),
            expected=f"a storage of at most {MOST_STORAGE} times the batch's {found.batch / MIB:.1f} MiB",
            got=f"{found.storage / MIB:.1f} MiB, {found.storage / found.batch:.0f} times as much",
            hint="the batch is a slice of a whole epoch or data set; clone it",
        )


def test_memory_is_given_back(subject: Judged) -> None:
    """The memory of all processes of a loader does not grow with each epoch.

    Why: a run that loses some memory in each epoch is killed after days, when most is to be lost.

    Reports: tensorflow/tensorflow#44176

    Causes: batches, iterators or shuffle buffers that are kept in a list, a cache without a limit.

    Remedy: let go of an epoch's things when it ends. `--loader-soak` measures smaller growth over many
    more epochs.
    """
    # A right loader fails if each of ten epochs in a row, after two, ends with a MiB more than the one
    # before: were ups and downs equally likely, once in a thousand even without the limit.
    scenario = _large(subject)
    found: Memory = subject.run("memory:epochs", scenario, least=LEAST_GROWTH)
    if found.epochs is None:
        pytest.skip("the kernel does not tell how much anonymous memory a process holds (smaps_rollup)")
    if len(found.epochs) == 2 * EPOCHS:
        held = [f"{size / MIB:.0f}" for size in found.epochs]
        subject.fail(
            Place(scenario),
            expected="about the same after each epoch",
            got=f"MiB after each of {len(held)} epochs: {', '.join(held)}",
            hint="batches, iterators or buffers of each epoch are kept",
        )


def _large(subject: Judged) -> Scenario:
    return subject.scenario(LARGE, epochs=EPOCHS, batch_size=LARGE_BATCH, shuffle=True, seed=subject.seed)


@pytest.mark.promises(Promise.WORKERS)
def test_workers_start_beside_a_busy_thread(subject: Judged) -> None:
    """Workers start and load while another thread of the program computes and logs.

    Why: a process that is forked while another thread holds a lock has a copy of that lock that nobody
    will ever release. Training threads hold such locks all the time, and the run stands still.

    Reports: pytorch/pytorch#45198, pytorch/pytorch#1838

    Causes: workers that log, or compute with OpenMP or OpenCV, through what they inherited.

    Remedy: start workers before other threads or with the start method `spawn`; make locks anew with
    `os.register_at_fork`; call `torch.set_num_threads(1)` and `cv2.setNumThreads(0)` in workers.
    """
    workers_of(subject)
    scenario = plain(subject)
    whole = undisturbed(subject, scenario).epochs[0]
    epoch: Epoch = subject.run("life:beside_a_busy_thread", scenario)
    if content(epoch) != content(whole):
        subject.fail(
            Place(scenario, 0),
            expected=f"the {len(whole.index)} samples that come when nothing else is going on",
            got=difference(epoch, whole),
            hint="state that a thread changes while workers copy it",
        )


@pytest.mark.promises(Promise.WORKERS)
def test_workers_can_be_spawned(subject: Judged) -> None:
    """Where processes are spawned instead of forked, the epoch is whole, or an exception says why not.

    Why: macOS, Windows, and programs that use CUDA before loading cannot fork. Spawned workers start
    from nothing, without what was set in the parent.

    Reports: pytorch/pytorch#45198

    Causes: open files, locks or lambdas in the data set, which cannot be pickled; global settings that
    only the parent has.

    Remedy: open files in the worker when they are first needed; pass settings as arguments.
    """
    workers_of(subject)
    once_for_each_number_of_workers(subject)
    scenario = plain(subject)
    whole = undisturbed(subject, scenario).epochs[0]
    found: Pass = subject.run("life:spawned", scenario)
    if found.epoch is not None and content(found.epoch) != content(whole):
        subject.fail(
            Place(scenario, 0),
            expected=f"the {len(whole.index)} samples that come from forked workers, or an exception",
            got=difference(found.epoch, whole),
            hint="global settings that only the parent has, or workers that never came up",
        )


def test_interpreter_can_end_in_mid_epoch(subject: Judged) -> None:
    """A script that ends in the middle of an epoch ends in time, with exit code 0, and leaves nothing.

    Why: a script that does not end blocks the next job, and one that crashes at its end fails it,
    though all work is done.

    Reports: apache/mxnet PR#13318

    Causes: a thread that is no daemon and waits for its consumer, workers that outlive their parent,
    objects of a library that are torn down in the wrong order.

    Remedy: end threads and workers with `weakref.finalize` or `atexit`, which run before the
    interpreter ends; make waiting threads daemons that nobody needs to join.
    """
    once_for_each_number_of_workers(subject)
    scenario = subject.scenario(MANY, epochs=1, batch_size=4)
    undisturbed(subject, scenario)
    limit = subject.session.settings.timeout_s
    ended: Ended = subject.run("interpreter:leave", scenario, spec=subject.case.spec, limit_s=limit, times=4)
    got = {0: [], None: [f"no end within {limit:g} s"]}.get(ended.code, [f"exit code {ended.code}"])
    # What is left even if the loader is closed is reported by the test of that.
    if not subject.run("life:left_behind", plain(subject), times=PATIENCE):
        got += [f"still running: {', '.join(ended.processes)}"] if ended.processes else []
        got += [f"in /dev/shm: {', '.join(ended.memory[:3])}"] if ended.memory else []
    if got:
        subject.fail(
            Place(scenario, 0, 2),
            expected="an interpreter that takes two batches, comes to its end, and leaves nothing",
            got=f"{'; '.join(got)}. Its last output was\n\n{ended.output}\n",
            hint="a thread or worker that waits for its consumer, or a wrong order of tearing down",
        )
