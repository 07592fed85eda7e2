"""Whose memory it is: batches belong to the consumer, the source and global state to nobody."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.scenarios import everything, over, plain, shuffled
from loaderproof.suite.judged import Judged, Place, batches
from loaderproof.suite.observation import Epoch, Observation


@over(everything)
def test_batches_stay_as_handed_out(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """A batch that is kept holds the same values after later batches and epochs.

    Why: whoever collects batches for an evaluation, or copies one to a device while the next is
    loaded, finds other samples in it than those that came.

    Reports: NVIDIA/DALI#1375, libffcv/ffcv#37, pytorch/pytorch#130785

    Causes: one buffer, or a ring of few, is filled again for each batch; pinned memory is used again
    before a copy out of it has ended.

    Remedy: hand out a copy, or memory that is used again only when its batch is gone.
    """
    del seen
    for batch, here in batches(epoch, place):
        if batch.changed:
            subject.fail(
                here,
                expected="the values that it had when it came",
                got="other values after the later batches and epochs",
                hint="one buffer is filled again for each batch; hand out copies or a ring that waits",
            )


def test_batches_are_writable_and_owned(subject: Judged) -> None:
    """Writing into a batch works, and changes no other batch and no later epoch.

    Why: augmentation and normalisation in place are usual. On views of a cache they change the data
    themselves, a little more in each epoch.

    Reports: pytorch/vision#4353, ray-project/ray#25106, pytorch/pytorch#5442,
    tensorflow/tensorflow#45964

    Causes: views of a cache, of a file or of bytes are handed out without a copy; batches are made
    in inference mode.

    Remedy: copy (`torch.from_numpy(array.copy())`, `tensor.clone()`), or collate into new memory.
    """
    scenario = plain(subject)
    written = subject.run("watching:watch_after_writing", scenario)
    before = subject.run("watching:watch", scenario).epochs[-1]
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
    """Reading three epochs changes no sample of the source.

    Why: a change in place adds up: each epoch trains on other data than the one before, and with
    workers, which change their own copies, it shows in some runs only.

    Reports: facebookresearch/pycls PR#21

    Causes: a transform works in place on the array that the source handed out.

    Remedy: copy before changing, or write `x = x + 1` in place of `x += 1`.
    """
    scenario = replace(plain(subject), epochs=3)
    changed = subject.run("watching:source_changes", scenario)
    if changed:
        subject.fail(
            Place(scenario),
            expected="the source as it was",
            got=f"{len(changed)} samples are changed, the first is #{changed[0]}",
            hint="a transform works in place on what the source handed out",
        )


@pytest.mark.promises(Promise.PRIVATE_RANDOMNESS)
def test_global_random_state_is_untouched(subject: Judged) -> None:
    """An epoch moves none of the global generators of random, NumPy and torch.

    Why: a model's initial weights, its dropout and its augmentation then depend on which loader is
    used and how often it was begun, so that two runs cannot be compared.

    Causes: the loader seeds a global generator, or draws its order or its workers' seeds from one; a
    DataLoader without a generator does.

    Remedy: give samplers, DataLoader and transforms a generator of their own, for example
    `generator=torch.Generator().manual_seed(request.seed)`.
    """
    scenario = shuffled(subject)
    moved = subject.run("watching:random_states", scenario)
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
