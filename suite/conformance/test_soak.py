"""Long tests of life and death, which run with `--loader-soak`."""

from __future__ import annotations

import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.answers import Ended, Held, Inherited, Pass, Restarted
from loaderproof.suite.conformance.health import (
    content,
    difference,
    once_for_each_number_of_workers,
    undisturbed,
    workers_of,
)
from loaderproof.suite.conformance.scenarios import MANY, plain
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.trends import EPOCHS, PAIRS, rises

MIB = 2**20
# Small epochs, so that there can be many; and batches of 450 KiB, for which a page is no room.
SMALL, LARGE = "probe:100:32x30x3", "probe:200:64x60x3"
# So many samples that a Python object for each takes megabytes.
NUMEROUS = "probe:50000:4x7x1"
PATIENCE = 20
# By so much has to rise within 32 epochs what rises: a leak of 16 KiB in each is found.
LEAST = {"memory": MIB // 2, "descriptors": 1, "threads": 1, "shared_memory": MIB // 2}
# Less held when it is opened is not worth a verdict.
ENOUGH = 4 * MIB


@pytest.fixture(autouse=True)
def soak(subject: Judged) -> None:
    """Skip these tests in short runs."""
    if not subject.session.settings.soak:
        pytest.skip("it takes long; run it with --loader-soak")


@pytest.mark.parametrize("kind", LEAST)
def test_nothing_grows_over_many_epochs(subject: Judged, kind: str) -> None:
    """Over 72 epochs of one loader, neither memory nor descriptors, threads or shared memory rise.

    Why: a slow leak ends a run after days, and no short test shows it.

    Reports: pytorch/pytorch#20433, tensorflow/tensorflow#44176, karpathy/nanoGPT#287

    Causes: something small that is kept for each epoch: a log, a figure, a reference to an iterator.

    Remedy: let go of it when the epoch ends. Memory is counted over all processes, pages that they
    share once, apart from files that are mapped, whose pages the kernel takes back when it needs them.
    """
    scenario = subject.scenario(SMALL, epochs=EPOCHS, batch_size=10, shuffle=True, seed=subject.seed)
    undisturbed(subject, plain(subject))
    held: Held = subject.run("soak:many_epochs", scenario, times=PATIENCE)
    values = getattr(held, kind)
    if rises(values, LEAST[kind]):
        unit = "" if kind in {"descriptors", "threads"} else " bytes"
        subject.fail(
            Place(scenario),
            expected=f"no more {kind.replace('_', ' ')} at the end than at the beginning",
            got=f"each of {PAIRS} epochs has less than the one {PAIRS} later; every eighth:"
            f" {', '.join(map(str, values[::8]))}{unit}",
            hint="something is kept for each epoch",
        )


def test_kept_batches_hold_no_descriptors(subject: Judged) -> None:
    """Batches that are kept hold no file descriptors.

    Why: whoever keeps predictions or hard examples runs into the limit of open files, often 1024.

    Reports: pytorch/pytorch#973

    Causes: tensors come from workers in shared memory, of which each holds a descriptor.

    Remedy: `torch.multiprocessing.set_sharing_strategy("file_system")`, or `clone()` what is kept.
    """
    scenario = subject.scenario(MANY, epochs=1, batch_size=4)
    undisturbed(subject, scenario)
    kept, descriptors = subject.run("soak:kept_batches", scenario)
    if descriptors >= kept:
        subject.fail(
            Place(scenario, 0),
            expected=f"no more descriptors after keeping {kept} batches than before",
            got=f"{descriptors} more",
            hint="each tensor from a worker lies in shared memory that is held open",
        )


@pytest.mark.promises(Promise.WORKERS)
def test_workers_do_not_copy_what_they_inherit(subject: Judged) -> None:
    """In the course of an epoch, workers do not come to hold copies of what the loader holds.

    Why: a list of file names that fits once does not fit once for each worker, and memory runs out
    in the middle of an epoch.

    Reports: pytorch/pytorch#20433

    Causes: forked workers share memory until somebody writes to it, and Python counts references by
    writing into each object that it touches.

    Remedy: keep what there is for each sample in one NumPy array or tensor instead of a list or dict.
    """
    workers = workers_of(subject)
    scenario = subject.scenario(NUMEROUS, epochs=1, batch_size=250, shuffle=True, seed=subject.seed)
    undisturbed(subject, plain(subject))
    found: Inherited = subject.run("soak:inherited", scenario, times=PATIENCE)
    if found.opened >= ENOUGH and found.growth >= workers * found.opened / 2:
        subject.fail(
            Place(scenario, 0),
            expected=f"about the {found.opened / MIB:.0f} MiB that it held when it was opened",
            got=f"{found.growth / MIB:.0f} MiB more in the course of an epoch, with {workers} workers",
            hint="lists or dicts of Python objects are copied when workers touch them; use arrays",
        )


@pytest.mark.promises(Promise.WORKERS)
def test_full_shared_memory_is_reported(subject: Judged) -> None:
    """Where /dev/shm is full, the epoch is whole, or an exception ends it.

    Why: containers have 64 MiB of shared memory unless told otherwise. Who writes beyond it dies of
    SIGBUS, and who waits for a worker that died of it waits for ever.

    Causes: a worker's death is not noticed, or shared memory is filled in the loader's own process.

    Remedy: look after workers, as for `test_killed_worker_is_noticed`; `docker run --shm-size=8g`.
    """
    workers_of(subject)
    once_for_each_number_of_workers(subject)
    scenario = subject.scenario(LARGE, epochs=1, batch_size=10)
    undisturbed(subject, plain(subject))
    limit = subject.session.settings.timeout_s
    ended: Ended | None = subject.run(
        "soak:narrow_shared_memory", scenario, spec=subject.case.spec, limit_s=limit, times=4
    )
    if ended is None:
        pytest.skip("no small /dev/shm can be had here: that takes a user namespace (unshare --user --mount)")
    if ended.code not in {0, 1}:
        subject.fail(
            Place(scenario, 0),
            expected="a whole epoch, or an exception",
            got=f"{_end(ended, limit)}. Its last output was\n\n{ended.output}\n",
            hint="a worker's death is not noticed, or shared memory is filled by the loader itself",
        )


@pytest.mark.parametrize("how", ["removed", "read-only"])
def test_vanished_data_is_noticed(subject: Judged, how: str) -> None:
    """When the prepared data vanish under an open loader, the epoch is whole, or an exception ends it.

    Why: disks are cleaned and network folders go away in the middle of a run. What comes then must be
    the data, or an error.

    Causes: an except that takes a missing file for the end of the data, or for an empty sample.

    Remedy: let the exception through.
    """
    if subject.case.description.on_disk is None:
        pytest.skip("it has no data of its own on disk")
    scenario = subject.scenario(MANY, epochs=1, batch_size=4)
    whole = undisturbed(subject, scenario).epochs[0]
    found: Pass = subject.run("soak:vanished", scenario, how=how)
    if found.epoch is not None and content(found.epoch) != content(whole):
        subject.fail(
            Place(scenario, 0, 2),
            expected=f"an exception, or all {len(whole.index)} samples, after its data were {how}",
            got=f"no exception; {difference(found.epoch, whole)}",
            hint="an except that takes a missing file for the end of the data, or for an empty sample",
        )


def test_killed_run_leaves_the_next_alone(subject: Judged) -> None:
    """After a whole run was killed, no process goes on for long, and the next run works.

    Why: a run that was killed is started again, by people and by schedulers, on the same machine.

    Reports: mosaicml/streaming#781

    Causes: a fixed name in shared memory or a lock file that is there already; workers that wait for
    a parent that is gone, and hold memory or a port.

    Remedy: let the system choose names; have workers look for their parent, or start them as daemons
    that read from a pipe of the parent's.
    """
    once_for_each_number_of_workers(subject)
    undisturbed(subject, plain(subject))
    # No other scenario has batches of 5: what is left does not disturb other tests.
    scenario = subject.scenario(MANY, epochs=1, batch_size=5)
    limit = subject.session.settings.timeout_s
    found: Restarted = subject.run(
        "soak:killed_run", scenario, spec=subject.case.spec, limit_s=limit, times=4
    )
    if not found.began:
        pytest.skip("it did not come to its second batch in a new interpreter")
    got = [f"still running: {', '.join(found.left)}"] if found.left else []
    got += [] if found.next.code == 0 else [f"next run: {_end(found.next, limit)}"]
    if got:
        subject.fail(
            Place(scenario, 0, 2),
            expected="a run that ends when it is killed, and a next one that works",
            got="; ".join(got) + ("" if found.next.code == 0 else f". It printed\n\n{found.next.output}\n"),
            hint="a name in shared memory that is fixed, or workers that do not look for their parent",
        )


def _end(ended: Ended, limit_s: float) -> str:
    if ended.code is None:
        return f"no end within {limit_s:g} s"
    return f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
