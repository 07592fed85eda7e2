"""The state of a loader: plain data that is there at any time, costs nothing, and is its owner's."""

from __future__ import annotations

import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.interruptions import (
    disturbed,
    most_telling,
    place_of,
    scenarios,
    shown,
    tries,
)
from loaderproof.suite.continuation import Handled
from loaderproof.suite.judged import Judged, Place

pytestmark = pytest.mark.promises(Promise.RESUMING)


def test_state_can_be_taken_at_any_time(subject: Judged) -> None:
    """A state can be taken before any iteration, after every batch, and after the end of an epoch.

    Why: a checkpoint that is written before training starts, or between two epochs, ends the job.

    Reports: Lightning-AI/litData#331, meta-pytorch/data PR#1260

    Causes: the state is made by the first batch, or belongs to an iterator that is gone at the end.

    Remedy: keep epoch and position in the loader, from the moment that it is made.
    """
    for found in tries(subject):
        for saved in found.run.saved:
            if saved.error:
                subject.fail(
                    Place(found.scenario, saved.cut.epoch),
                    expected=f"a state, taken {saved.cut}",
                    got=saved.error,
                    hint="there is a state only while an iterator lives; keep epoch and position in the loader",
                )


def test_state_is_plain_data(subject: Judged) -> None:
    """A state is made of dicts with names as keys, lists, texts, numbers and None, and survives JSON.

    Why: it is written into checkpoints of any format, read by other versions of the library, and looked at by
    people. What is not plain comes back as something else, or cannot be written.

    Causes: tensors or arrays (the state of a generator is one), numbers or tuples as keys, NumPy numbers,
    objects of the library.

    Remedy: `tensor.tolist()`, `int(number)`, `str(key)`; and back again when the state is loaded.
    """
    for found in tries(subject):
        for saved in found.run.saved:
            if saved.state.strange:
                subject.fail(
                    Place(found.scenario, saved.cut.epoch),
                    expected=f"a state, taken {saved.cut}, that is the same after json.dumps and json.loads",
                    got=saved.state.strange,
                    hint="tensors, NumPy numbers, or keys that are not text; convert them with tolist, int and str",
                )


def test_state_stays_as_it_was_taken(subject: Judged) -> None:
    """A state does not change when its loader goes on or another loads it, and its loader minds no change to it.

    Why: a state that is kept in memory until a checkpoint is written says then something else; one that
    somebody moves or trims breaks the pass that is going on.

    Reports: pytorch/rl PR#3966

    Causes: `state_dict` returns what the loader itself uses, or a copy whose inner dicts and lists are still
    the loader's.

    Remedy: build the state anew each time, or return `copy.deepcopy` of it; copy what is loaded, too.
    """
    found = most_telling(subject)
    seen: Handled = subject.run("handling:handled", found.scenario, batches=2)
    expected = f"a state taken {seen.cut} that no longer belongs to the loader"
    hint = "state_dict returns, or load_state_dict keeps, the dicts or lists that the loader goes on using"
    place = place_of(found.scenario, seen.edited)
    if seen.by_iterating or seen.by_loading:
        got = (
            "it changed while its loader went on"
            if seen.by_iterating
            else "it changed in the loader that loaded it"
        )
        subject.fail(place, expected=expected, got=got, hint=hint)
    owed = found.run.epoch(seen.cut.epoch)
    for came, what in (
        (seen.edited, "its epoch is"),
        (seen.taken_again, "with the rest from the next state its epoch is"),
    ):
        if came.raised or not found.fits(owed, came.rest):
            got = came.raised or f"{what} is {shown(came.rest)} instead of {shown(owed)}"
            subject.fail(place, expected=expected, got=f"after it was emptied: {got}", hint=hint)


def test_taking_the_state_disturbs_nothing(subject: Judged) -> None:
    """Epochs in which a state is taken after every batch are those in which none is taken.

    Why: writing checkpoints changes what is trained on, and runs with and without them cannot be compared.

    Causes: `state_dict` draws from the generator that shuffles, takes a batch from a queue, or starts an
    iterator anew.

    Remedy: let the loader count what it hands out, and let `state_dict` only read.
    """
    for found in tries(subject):
        epoch = disturbed(subject, found)
        if epoch is not None:
            subject.fail(
                Place(found.scenario, epoch),
                expected="the samples that come when no state is taken",
                got=f"{shown(found.run.epoch(epoch))}, with a state taken after each batch",
                hint="state_dict draws from a generator, takes from a queue, or begins a pass",
            )


def test_asking_for_the_state_starts_nothing(subject: Judged) -> None:
    """Asking a fresh loader for its state starts no process and no thread, and reads no sample.

    Why: a checkpoint that is written before training starts workers that nobody uses, or reads data that are
    thrown away; a loader that is only looked at then has to be closed, too.

    Causes: `state_dict` makes an iterator and asks that, and with it come workers and what they load ahead.

    Remedy: answer from what the loader knows: the beginning of epoch 0, or what was loaded.
    """
    scenario = scenarios(subject)[-1]
    started = subject.run("handling:started_by_asking", scenario)
    if started:
        subject.fail(
            Place(scenario),
            expected="a state, taken before any iteration, and nothing else",
            got="; ".join(started),
            hint="state_dict makes an iterator with its workers; answer from what the loader knows",
        )
