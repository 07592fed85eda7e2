"""The same where the loader that goes on has another place: another process, rank, crew or past."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.interruptions import (
    Tried,
    ask,
    expect_rest,
    interrupted,
    most_telling,
    place_of,
    shown,
)
from loaderproof.suite.conformance.scenarios import GREY
from loaderproof.suite.continuation import Continued, Saved
from loaderproof.suite.judged import Judged
from loaderproof.suite.observation import Scenario

pytestmark = pytest.mark.promises(Promise.RESUMING)


def test_resumes_in_a_fresh_process(subject: Judged) -> None:
    """A state is followed by the same samples in another process as in the one where it was taken.

    It travels as JSON text, or pickled if it is no plain data.

    Why: a job that goes on after a crash is always another process, so a test within one shows nothing.

    Reports: huggingface/accelerate#4195

    Causes: a part of the state is kept in a module, a class or a file of the process; it depends on `hash()` of
    a string, on `id()`, or on a global generator.

    Remedy: put into the state all that is needed, or derive it from the seed and the epoch alone.
    """
    if subject.session.settings.isolation == "none":
        pytest.skip("--loader-isolation none: there is no other process")
    found = most_telling(subject)
    ended = [one for one in found.run.saved if one.cut.moment == "after" and one.cut.epoch == 0]
    saved = [one for one in (*found.run.telling, *ended) if found.went_on_from(one)]
    for came in _resumed(subject, found.scenario, saved, afresh=True):
        expect_rest(subject, found, came, "in a fresh process, a state taken")


@pytest.mark.promises(Promise.SHARDING)
def test_resumes_on_every_rank(subject: Judged) -> None:
    """Each rank of two goes on from its own state with the rest of its own part.

    Why: a run on several devices repeats or loses batches that a test on one does not show.

    Reports: huggingface/accelerate#3938

    Causes: a position that is counted in batches of all ranks is loaded as one of a single rank, or corrected
    for what was loaded ahead by the number of ranks.

    Remedy: count what this rank handed out; or what all did, and divide when it is loaded.
    """
    scenario = most_telling(subject).scenario
    for rank in range(2):
        found = interrupted(subject, _on(scenario, rank, 2), few=True)
        for came in found.continued:
            if not came.cut.boundary:
                expect_rest(subject, found, came, f"on rank {rank} of 2, a state taken")


def test_state_fits_another_number_of_workers_or_is_refused(subject: Judged) -> None:
    """A state that was taken with other workers is followed by exactly the rest, or refused with a message.

    Why: the job goes on where there are more cores or fewer, and samples are lost or repeated without a word.

    Reports: huggingface/transformers#40245

    Causes: the state holds a position for each worker, and those of workers that are no longer there are dropped.

    Remedy: save the position of the whole loader; or save the number of workers, compare it when a state is
    loaded, and raise an error that names both.
    """
    if subject.case.workers == 0:
        pytest.skip("this is the case without workers")
    found = most_telling(subject)
    alone = interrupted(subject, _with_workers(found.scenario, 0), few=True)
    for origin, workers in (found, 0), (found, 1), (alone, subject.case.workers):
        saved = [one for one in origin.run.telling if one.cut.epoch and origin.went_on_from(one)]
        _expect_rest_or_refusal(subject, origin, _with_workers(found.scenario, workers), saved)


def _expect_rest_or_refusal(subject: Judged, origin: Tried, scenario: Scenario, saved: list[Saved]) -> None:
    before = f"num_workers={origin.scenario.request.num_workers}"
    for came in _resumed(subject, scenario, saved):
        owed = sorted(origin.run.after(came.cut)[0])
        if not came.refused and (came.raised or sorted(came.rest) != owed):
            subject.fail(
                place_of(scenario, came),
                expected=f"a state taken with {before} {came.cut}: {shown(owed)} in any order, or a refusal",
                got=came.raised or shown(sorted(came.rest)),
                hint="positions of single workers are loaded by others; compare the number and raise an error",
            )


@pytest.mark.promises(Promise.SHARDING)
def test_state_fits_another_world_size_or_is_refused(subject: Judged) -> None:
    """A state that was taken in a world of another size is followed by exactly the rest, or refused.

    One rank's state is loaded by each of two, and that of the first of two by one alone. What all ranks
    get together counts. A refusal is an exception with a message, from every rank or from one.

    Why: the job goes on with more devices or fewer, and samples are lost or repeated without a word.

    Reports: huggingface/transformers#40245

    Causes: the number of batches is taken over as it is, though a batch of all ranks now holds more samples or
    fewer.

    Remedy: save how many samples of the epoch all ranks have had, and cut the rest into new parts; or save the
    world size, compare it when a state is loaded, and raise an error that names both.
    """
    if subject.truth is not None:
        pytest.skip("own data need not divide by two ranks, so it is not known what each of them must get")
    scenario = most_telling(subject).scenario
    # 24 samples: the epoch and what is left of it divide by one rank and by two.
    one, two = (_on(replace(scenario, data=GREY), 0, size) for size in (1, 2))
    alone = interrupted(subject, one, few=True)
    both = [interrupted(subject, _on(two, rank, 2), few=True) for rank in range(2)]
    _expect_shared_rest(subject, [alone], [two, _on(two, 1, 2)])
    _expect_shared_rest(subject, both, [one])


def _expect_shared_rest(subject: Judged, before: list[Tried], after: list[Scenario]) -> None:
    """Fail if ranks of a new world do not share what those of the old have left."""
    whole = sorted(place for rank in before for place in rank.run.epoch(1))
    if whole != list(range(24)) or not all(rank.resumes for rank in before):
        return  # the tests of sharding, or of resuming on every rank, report it
    for saved in before[0].run.telling[-1:]:
        handed = Counter(place for rank in before for place in rank.run.before(saved.cut))
        owed = sorted((Counter(whole) - handed).elements())
        ranks = [came for scenario in after for came in _resumed(subject, scenario, [saved])]
        got = sorted(place for came in ranks for place in came.rest)
        failed = next((came for came in ranks if came.raised), None)
        if not any(came.refused for came in ranks) and (failed or got != owed):
            subject.fail(
                place_of(after[0], ranks[0]),
                expected=f"a state taken with world_size={len(before)} {saved.cut}, over all {len(after)} ranks:"
                f" {shown(owed)}, or a refusal",
                got=failed.raised if failed else shown(got),
                hint="batches of another world size are counted as if they were of this one",
            )


def test_resumes_in_a_used_loader_or_refuses(subject: Judged) -> None:
    """A state that is loaded into a loader that has run already is followed by exactly the rest, or refused.

    Why: a training loop that goes back to its last good checkpoint uses the loader that it has.

    Causes: the position is set, but the permutation, the queue or the workers of the last pass are still there.

    Remedy: build everything anew when a state is loaded; or raise an error for a loader that was iterated.
    """
    found = most_telling(subject)
    saved = [one for one in found.run.telling if found.went_on_from(one)]
    for came in ask(subject, "resume_used", found.scenario, saved=saved):
        if not came.refused:
            expect_rest(subject, found, came, "in a loader that has run already, a state taken")


def _resumed(
    subject: Judged, scenario: Scenario, saved: list[Saved], *, afresh: bool = False
) -> list[Continued]:
    return ask(subject, "resume", scenario, afresh=afresh, saved=saved, further=0) if saved else []


def _on(scenario: Scenario, rank: int, world_size: int) -> Scenario:
    return replace(scenario, request=replace(scenario.request, rank=rank, world_size=world_size))


def _with_workers(scenario: Scenario, workers: int) -> Scenario:
    return replace(scenario, request=replace(scenario.request, num_workers=workers))
