"""What a loader does when something goes wrong."""

from __future__ import annotations

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.loaders.contract import OnError
from loaderproof.suite.answers import Killed, Outcome, Skipped
from loaderproof.suite.conformance.health import (
    PATIENCE,
    content,
    difference,
    is_whole,
    undisturbed,
    workers_of,
)
from loaderproof.suite.conformance.scenarios import MANY, plain
from loaderproof.suite.judged import Judged, Place

POISONED = 9
MESSAGE = f"sample {POISONED} cannot be read: poison"


@pytest.mark.parametrize("error", ["ValueError", "KeyError", "OSError"])
def test_errors_surface(subject: Judged, error: str) -> None:
    """An exception while a sample is read reaches whoever iterates, with its message.

    Why: an error that is hidden costs samples, or puts others in their place, in every epoch, and
    nobody knows. One that loses its message takes hours to find.

    Reports: rom1504/clip-retrieval PR#13, meta-pytorch/torchrec PR#4294, microsoft/infinibatch#17

    Causes: an except that skips, retries or replaces the sample; a thread that dies alone while its
    consumer waits or takes the queue's end for the end of the data.

    Remedy: let the exception through, or carry it from the thread or worker to the consumer and raise
    it there with `from error`. A loader that leaves bad samples out on purpose declares
    `on_error=OnError.SKIP`.
    """
    _expect_raised(subject, error, "an except that skips, retries or replaces, or a thread that dies alone")


def test_stop_iteration_surfaces(subject: Judged) -> None:
    """A StopIteration while a sample is read is an error, too, and does not end the epoch.

    Why: one `next()` too many in a transform ends each epoch early, without a word, and the rest of
    the data is never trained on.

    Reports: Lightning-AI/pytorch-lightning#5055

    Causes: Python takes any StopIteration out of `__next__` for the end; a DataLoader passes one on
    that a data set raises.

    Remedy: catch it where samples are read and `raise RuntimeError(...) from error`. In a generator
    Python does so by itself.
    """
    _expect_raised(
        subject, "StopIteration", "a StopIteration of a sample or a transform goes through __next__"
    )


def _expect_raised(subject: Judged, error: str, hint: str) -> None:
    scenario = plain(subject)
    _expect_read(subject, OnError.RAISE)
    outcome: Outcome = subject.run("poisoning:poison", scenario, place=POISONED, error=error, message=MESSAGE)
    if outcome.raised is None or MESSAGE not in outcome.raised:
        subject.fail(
            Place(scenario),
            expected=f"an exception that says {MESSAGE!r}, as the {error} did",
            got=f"{outcome.came} samples and no exception"
            if outcome.raised is None
            else f"another exception: {outcome.raised.splitlines()[-1]}",
            hint=hint,
        )


def _expect_read(subject: Judged, policy: OnError) -> None:
    """Skip a loader that declares another policy, or that never reads the sample."""
    if subject.case.description.on_error is not policy:
        pytest.skip(f"it declares on_error={subject.case.description.on_error.value!r}")
    read = subject.run("watching:watch", plain(subject)).epochs[0].index
    if POISONED not in read and np.all(read >= 0):
        pytest.skip(f"sample #{POISONED} is not read at all, as test_every_sample_once reports")


def test_bad_samples_are_left_out_and_counted(subject: Judged) -> None:
    """A loader that declares so leaves out a sample that cannot be read, and counts it.

    Why: whoever allows for bad samples wants to know how many there are, and wants every other sample
    once: no neighbour twice in its place.

    Reports: rom1504/clip-retrieval PR#13

    Causes: the next sample is taken for a bad one, a whole batch is thrown away, nothing is counted,
    or the count stays in the workers.

    Remedy: leave the sample out of its batch and add one to the loader's attribute `skipped`; or
    declare `on_error=OnError.RAISE` and let the exception through.
    """
    _expect_read(subject, OnError.SKIP)
    scenario = plain(subject)
    whole = undisturbed(subject, scenario).epochs[0]
    found: Skipped = subject.run(
        "poisoning:skipped", scenario, place=POISONED, error="ValueError", message=MESSAGE
    )
    epoch = found.seen.epochs[0]
    owed = {pair: count for pair, count in content(whole).items() if pair[0] != POISONED}
    if content(epoch) != owed or found.counted != 1:
        subject.fail(
            Place(scenario, 0),
            expected=f"every sample once but #{POISONED}, and skipped == 1",
            got=f"{difference(epoch, whole)}; skipped == {found.counted!r}",
            hint="a neighbour in its place, a batch thrown away, or a count that stays in the workers",
        )


def test_nothing_is_left_after_an_error(subject: Judged) -> None:
    """After an exception in the middle of an epoch, nothing more is left than after a good one.

    Why: a run that catches errors and goes on fills the disk or runs out of processes.

    Reports: webdataset/webdataset PR#503

    Causes: a temporary file that is written and not renamed, workers that are not ended when one of
    them raises.

    Remedy: clean up in `finally` or with a context manager, also in `prepare`.
    """
    scenario = plain(subject)
    undisturbed(subject, scenario)
    if subject.run("life:left_behind", scenario, times=PATIENCE):
        pytest.skip("it leaves as much without an error, as test_nothing_is_left_behind reports")
    left = subject.run(
        "poisoning:left_after_errors",
        scenario,
        times=PATIENCE,
        place=POISONED,
        error="OSError",
        message=MESSAGE,
    )
    if left:
        subject.fail(
            Place(scenario),
            expected="what was there before; each round opened it, met an OSError, and closed it",
            got="; ".join(left),
            hint="temporary files, threads or workers that are cleaned up on the good way only",
        )


@pytest.mark.promises(Promise.WORKERS)
def test_killed_worker_is_noticed(subject: Judged) -> None:
    """When a worker is killed in mid-epoch, there is an exception or a whole epoch, and a new loader works.

    Why: the kernel kills workers when memory runs out. A loader that waits for them for ever holds
    the machine until somebody looks; one that goes on without them loses samples.

    Reports: pytorch/pytorch#21554

    Causes: a queue that is read without a time-out, without a look at whether the workers live.

    Remedy: wait with a time-out and check `process.is_alive()`, or wait on `process.sentinel` beside
    the queue.
    """
    workers_of(subject)
    scenario = subject.scenario(MANY, epochs=1, batch_size=4)
    seen = undisturbed(subject, scenario)
    whole = seen.epochs[0]
    found: Killed = subject.run("life:killed_worker", scenario)
    if not found.workers:
        pytest.skip("its workers are no processes, so none can be killed alone")
    came = found.interrupted.epoch
    if came is not None and content(came) != content(whole):
        subject.fail(
            Place(scenario, 0),
            expected=f"an exception, or all {seen.count} samples",
            got=f"no exception; {difference(came, whole)}",
            hint="what the killed worker was to load is given up, or its end is taken for the end of the data",
        )
    if found.after is None or not is_whole(seen, found.after):
        subject.fail(
            Place(scenario, 0),
            expected="a new loader that works, after the one whose worker was killed is closed",
            got="nothing" if found.after is None else difference(found.after, whole),
            hint="a lock or a queue that outlives the loader",
        )
