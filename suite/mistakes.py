"""What is likely to be wrong in a loader that does not go on from its state as it should."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from loaderproof.suite.continuation import Continued, Places, Run

_SHIFTS = {
    -2: "the position is 2 batches too early: not all that was handed out is counted",
    -1: "the position is 1 batch too early: what is being handed out is not counted",
    1: "the position is 1 batch too late: a batch that was loaded ahead is counted",
    2: "the position is 2 batches too late: batches that were loaded ahead are counted",
}


def likely(run: Run, came: Continued) -> str:
    """Return the likely reason why the first pass after a cut is not what it should be."""
    if came.raised:
        return "what the state or the request holds here was not thought of when it is saved or loaded"
    return next(itertools.chain(_other_epoch(run, came), _shifted(run, came), _otherwise(run, came)))


def _other_epoch(run: Run, came: Continued) -> Iterator[str]:
    got, owed = came.rest, run.after(came.cut)[0]
    for number in range(len(run.epochs)) if got else ():
        whole = run.epoch(number)
        if got == whole and number <= came.cut.next_epoch:
            yield f"the position is not restored: epoch {number} comes from its beginning"
        elif got == whole:
            yield f"an epoch is lost: epoch {number} comes from its beginning"
        elif number != came.cut.next_epoch and got == whole[-len(owed) :]:
            yield f"the position is restored, the epoch is not: this is the rest of epoch {number}"


def _shifted(run: Run, came: Continued) -> Iterator[str]:
    whole = run.epochs[came.cut.next_epoch]
    begun = 0 if came.cut.complete else came.cut.batches
    for shift, meaning in _SHIFTS.items():
        if 0 <= begun + shift <= len(whole) and came.rest == _joined(whole[begun + shift :]):
            yield meaning


def _otherwise(run: Run, came: Continued) -> Iterator[str]:
    got, owed = came.rest, run.after(came.cut)[0]
    if sorted(got) == sorted(owed):
        yield "the position is restored, the order is not: the state of a generator or a queue is not saved"
    if set(got) < set(owed):
        yield "what a shuffle buffer, a queue or a worker held is not in the state"
    if len(got) == len(owed):
        yield "the position is restored, the permutation is not: save it, or the seed and epoch that give it"
    yield "only a part of the position is in the state: that of a worker, a buffer or the epoch is missing"


def _joined(batches: list[Places]) -> Places:
    return list(itertools.chain.from_iterable(batches))
