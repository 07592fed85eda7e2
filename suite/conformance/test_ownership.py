"""Whose memory it is: batches belong to the consumer, the source and global state to nobody."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.scenarios import everything, plain, shuffled
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch


def test_batches_stay_as_handed_out(subject: Judged) -> None:
    """A batch that is kept holds the same values after later batches and epochs."""
    for _, batch, place in subject.batches(everything(subject)):
        if batch.changed:
            subject.fail(
                place,
                expected="the values that it had when it came",
                got="other values after the later batches and epochs",
                hint="one buffer is filled again for each batch; hand out copies or a ring that waits",
            )


def test_batches_are_writable_and_owned(subject: Judged) -> None:
    """Writing into a batch works, and changes no other batch and no later epoch."""
    scenario = plain(subject)
    written = subject.run("experiments:watch_after_writing", scenario)
    before = subject.run("experiments:watch", scenario).epochs[-1]
    after = written.seen.epochs[0]
    got = [written.complaint] if written.complaint else []
    got += [f"writing into batch {one} changed batch {other}" for one, other in written.shared[:1]]
    got += [f"writing changed samples {written.changed[:5]} of the source"] if written.changed else []
    same = _samples(after) == _samples(before) and _error(after) <= max(_error(before), 1e-6)
    got += [] if same else ["the epoch after it holds what was written"]
    if got:
        subject.fail(
            Place(scenario, 0),
            expected="batches with memory of their own, to be written to",
            got="; ".join(got),
            hint="views of a cache, of a file or of bytes are handed out; copy, or collate into new memory",
        )


def test_source_stays_unchanged(subject: Judged) -> None:
    """Reading three epochs changes no sample of the source."""
    scenario = replace(plain(subject), epochs=3)
    changed = subject.run("experiments:source_changes", scenario)
    if changed:
        subject.fail(
            Place(scenario),
            expected="the source as it was",
            got=f"{len(changed)} samples are changed, the first is #{changed[0]}",
            hint="a transform works in place on what the source handed out",
        )


@pytest.mark.promises(Promise.PRIVATE_RANDOMNESS)
def test_global_random_state_is_untouched(subject: Judged) -> None:
    """An epoch moves none of the global generators of random, NumPy and torch."""
    scenario = shuffled(subject)
    moved = subject.run("experiments:random_states", scenario)
    if moved:
        subject.fail(
            Place(scenario),
            expected="the state that it had before",
            got=f"another state of {', '.join(moved)}",
            hint="give samplers, DataLoader and transforms a generator of their own",
        )


def _error(epoch: Epoch) -> float:
    """Return the largest difference from the source; NaN is what the test of values reports."""
    return float(np.nanmax(epoch.error, initial=0))


def _samples(epoch: Epoch) -> Counter[tuple[int, int]]:
    return Counter(zip(epoch.index.tolist(), epoch.label.tolist(), strict=False))
