"""A run that was interrupted goes on as if it had not been: state saved, state loaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.interruptions import (
    WATCH,
    Tried,
    ask,
    expect_rest,
    interrupted,
    most_telling,
    place_of,
    shown,
    tried,
)
from loaderproof.suite.continuation import Continued, by_place
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Observation

pytestmark = pytest.mark.promises(Promise.RESUMING)


def test_resumes_the_rest_of_the_epoch(subject: Judged) -> None:
    """A state that is loaded into a fresh loader is followed by exactly the rest of the epoch it was taken in.

    It is taken before the first batch and after every other of two epochs, shuffled and not. The samples must
    be the same, and their order too where the order is promised. A loader with `set_epoch` is told the number
    of the epoch before the state is loaded, and that of each epoch after it as usual.

    Why: a job that is stopped and goes on from its checkpoint trains on some samples twice and on others not
    at all. A test without shuffling, or in the first epoch alone, does not notice.

    Reports: huggingface/accelerate#4195, huggingface/datasets#7901, mosaicml/streaming#437,
    meta-pytorch/data#1513, Lightning-AI/litData#24

    Causes: the position is saved without the permutation, the epoch or the state of the generator; what a
    shuffle buffer holds is not saved; batches that workers loaded ahead are counted; the state is accepted
    and ignored.

    Remedy: save the epoch and the number of batches that were handed out, and derive the permutation from the
    seed and the epoch; or save the generator's state as it was when the epoch began. A buffer has to be saved
    with what it holds, or filled again by reading from the beginning of the epoch.
    """
    for found in tried(subject):
        for came in found.continued:
            if not came.cut.boundary:
                expect_rest(subject, found, came)


def test_resumes_at_the_end_of_an_epoch(subject: Judged) -> None:
    """A state taken at the end of an epoch is followed by the next epoch, at once or after an empty pass.

    It is taken after the last batch, after the end was reached, and when the next pass has begun.

    Why: a checkpoint at the end of an epoch is the most usual one. An epoch is trained on twice, or skipped.

    Reports: meta-pytorch/data#1437

    Causes: the position is set to 0 at the end without counting the epoch, or the epoch is counted and the
    position is not set to 0.

    Remedy: move the epoch and the position together, and only when an epoch has ended or a pass begins.
    """
    for found in tried(subject):
        for came in found.continued:
            if came.cut.boundary and found.resumes:
                expect_rest(subject, found, came)


def test_epochs_after_a_resumed_one_are_complete(subject: Judged) -> None:
    """After the rest of the interrupted epoch, the next two are those of a run that was not interrupted.

    Why: every later epoch lacks the samples that came before the interruption, or has the order of another.

    Reports: huggingface/datasets#7447, Lightning-AI/litData#316

    Causes: the position that was loaded is skipped again in each pass, or the epoch that was loaded is not
    counted on.

    Remedy: use what was loaded for one pass, and forget it when that pass begins.
    """
    for found in tried(subject):
        for came in found.continued:
            _expect_further(subject, found, came)


def _expect_further(subject: Judged, found: Tried, came: Continued) -> None:
    owed, begun = found.run.after(came.cut), len(came.passes)
    # How the first pass goes is judged by the tests before; an exception in it leaves none.
    if begun == 0 or not found.fits(owed[0], came.rest):
        return
    for number in range(1, begun + bool(came.raised)):
        got = None if number == begun else came.passes[number]
        if got is None or not found.fits(owed[number], got):
            short = got is not None and len(got) < len(owed[number])
            subject.fail(
                Place(found.scenario, came.cut.next_epoch + number),
                expected=f"after a state taken {came.cut} and the rest of that epoch: {shown(owed[number])}",
                got=came.raised if got is None else shown(got),
                hint="the position that was loaded is skipped in every pass"
                if short
                else "the epoch that was loaded is not counted on, or its generator does not go on",
            )


def test_resumes_twice_in_a_row(subject: Judged) -> None:
    """A state that a resumed loader gives, at once or some batches later, is as good as the first.

    Why: a long job is interrupted more than once. The second time it loses its place, or a worker's.

    Reports: meta-pytorch/data PR#1251

    Causes: the state counts from where the loader was resumed and not from the beginning of the epoch; what was
    loaded shows up in the state only after the first batch, or worker by worker.

    Remedy: fill the state with what was loaded, before anything is iterated, and count on from there.
    """
    found = most_telling(subject)
    workers = found.scenario.request.num_workers
    counts = {1, max(workers - 1, 1)} if workers else {1, 2}
    # A state that is not there before the first batch is reported by the test of that.
    counts |= {0} if not any(one.error for one in found.run.saved) else set()
    for one in found.run.telling:
        if found.went_on_from(one):
            times = sorted(counts) if one.cut.epoch else [1]
            came = ask(subject, "resume_twice", found.scenario, saved=[(one, taken) for taken in times])
            for taken, again in zip(times, came, strict=True):
                later = f"{taken} batch{'es' * (taken != 1)}"
                expect_rest(subject, found, again, f"with a second state {later} after loading one taken")


@pytest.mark.promises(Promise.AUGMENTATION)
def test_random_draws_go_on_after_resuming(subject: Judged) -> None:
    """After resuming, what is drawn for each sample is what a run without an interruption draws.

    Why: a resumed run replays the augmentation of its first epoch, and cannot be compared with any other.

    Reports: fangchangma/sparse-to-dense.pytorch#19

    Causes: workers are seeded with their number alone, or a generator starts anew when a state is loaded.

    Remedy: derive what is drawn from the seed, the epoch and the sample; or save the generator's state.
    """
    usual = most_telling(subject)
    scenario = replace(usual.scenario, request=replace(usual.scenario.request, augment=True))
    found = interrupted(subject, scenario, few=True)
    again: Observation = subject.run(WATCH, replace(scenario, epochs=2))
    repeats = all(
        found.run.drawn(epoch.number) == by_place(epoch.index.tolist(), _drawn(epoch.extras))
        for epoch in again.epochs
    )
    for came in found.continued:
        if repeats and not came.cut.boundary and found.rest_fits(came):
            _expect_draws(subject, found, came)


def _drawn(extras: dict[str, np.ndarray]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in extras.items() if name != "id"}


def _expect_draws(subject: Judged, found: Tried, came: Continued) -> None:
    whole = found.run.drawn(came.cut.next_epoch)
    wrong = {
        place: drawn
        for place, drawn in by_place(came.rest, came.draws[0]).items()
        if drawn != whole.get(place)
    }
    if wrong:
        place, got = next(iter(wrong.items()))
        others = [
            number for number in range(len(found.run.epochs)) if found.run.drawn(number).get(place) == got
        ]
        subject.fail(
            place_of(found.scenario, came),
            expected=f"a state taken {came.cut}: {whole.get(place)} drawn for sample #{place}",
            got=f"{got}"
            + (f", as in epoch {others[0]}" if others else "")
            + f"; {len(wrong)} samples differ",
            hint="a generator starts anew when a state is loaded, or is seeded with the worker's number alone",
        )
