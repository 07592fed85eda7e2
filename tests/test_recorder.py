from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from loaderproof.loaders.contract import Request
from loaderproof.loaders.sources.probe import probe
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.fingerprint import channels_first
from loaderproof.suite.observation import Scenario

SOURCE = probe(23)
CATALOGUE = Catalogue(SOURCE)
IMAGES = torch.from_numpy(channels_first(SOURCE.images)) / 255
LABELS = torch.from_numpy(SOURCE.labels)


def batches(size: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return one epoch."""
    return list(zip(IMAGES.split(size), LABELS.split(size), strict=True))


def watcher(size: int = 4) -> recorder.Recorder:
    """Return a recorder for batches of some size."""
    return recorder.Recorder(CATALOGUE, Scenario("probe:23", Request(batch_size=size)))


def test_an_epoch_is_recorded_sample_by_sample():
    """Each sample is known by its place in the source, with its label, in its batch."""
    epoch = watcher().epoch(0, batches())

    assert [4, 4, 4, 4, 4, 3] == [batch.size for batch in epoch.batches]
    assert [*range(23)] == epoch.index.tolist()
    assert SOURCE.labels.tolist() == epoch.label.tolist()
    assert [0, 0, 1, 5] == [epoch.batch_of(sample) for sample in (0, 3, 4, 22)]
    assert epoch.ended


@pytest.mark.parametrize("endless", [batches(), [(IMAGES[:0], LABELS[:0])]], ids=["samples", "empty batches"])
def test_an_endless_epoch_is_cut(endless):
    """An epoch that does not end is watched for about two epochs, and marked."""
    epoch = watcher().epoch(0, itertools.cycle(endless))

    assert not epoch.ended
    assert len(epoch.index) < 3 * 23
    assert len(epoch.batches) < 4 * 23


def test_a_batch_of_one_without_its_dimension_is_one_sample():
    """What a squeeze has left of a batch of one is still known for its sample."""
    epoch = watcher(1).epoch(0, [(images.squeeze(), label.squeeze()) for images, label in batches(1)])

    assert [*range(23)] == epoch.index.tolist()
    assert {1} == {batch.size for batch in epoch.batches}


def test_batches_that_change_later_are_marked():
    """Whatever is written into a kept batch shows in a second look, and only there."""
    watched, epoch = watcher(), batches()
    record = watched.epoch(0, [(images.clone(), labels.clone()) for images, labels in epoch[:2]] + epoch[2:3])
    watched.look_again()
    unchanged = [batch.changed for batch in record.batches]
    watched._kept[1][1][1][0] += 1
    watched.look_again()

    assert [False, False, False] == unchanged
    assert [False, True, False] == [batch.changed for batch in record.batches]


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        ({"image": IMAGES, "label": LABELS}, "dict of length 2"),
        ((IMAGES, LABELS, LABELS), "tuple of length 3 of (a tensor of shape (23, 3, 12, 20), a tensor of"),
        ((IMAGES.numpy(), LABELS), "tuple of length 2 of (ndarray, a tensor of shape (23,))"),
        (
            (IMAGES[0, 0, 0, 0], LABELS[0]),
            "tuple of length 2 of (a tensor of shape (), a tensor of shape ())",
        ),
        (IMAGES, "a tensor of shape"),
        (None, "NoneType"),
    ],
    ids=["dict", "three", "arrays", "scalars", "tensor", "none"],
)
def test_what_is_no_batch_is_told(batch, what):
    """Anything but a pair of tensors is refused, with the number of the batch and what came instead."""
    with pytest.raises(recorder.NotABatch) as refused:
        watcher().epoch(0, [*batches()[:2], batch])

    assert f"batch 2 is {what}" in str(refused.value)
    assert "expected a pair (images, labels) of torch tensors" in str(refused.value)


@pytest.mark.parametrize("size", [1, 4, 23, 64])
def test_coverage_does_not_depend_on_the_batches(size):
    """A complete epoch has the coverage of the source, whatever its batches are."""
    assert CATALOGUE.coverage == recorder.covered(batches(size), CATALOGUE.fingerprint)


def test_coverage_outlives_the_buffers_of_the_loader():
    """Batches whose memory is filled again count as what they were when they came."""

    def refilled():
        images, labels = torch.empty_like(IMAGES[:4]), torch.empty_like(LABELS[:4])
        for new_images, new_labels in batches():
            yield images[: len(new_images)].copy_(new_images), labels[: len(new_labels)].copy_(new_labels)

    assert CATALOGUE.coverage == recorder.covered(refilled(), CATALOGUE.fingerprint)


def test_identities_name_what_came():
    """The hashes and labels of a pass lead back to its samples, and an endless one is cut."""
    hashes, labels = recorder.identities(itertools.cycle(batches()), CATALOGUE.fingerprint, 23)
    whole = slice(0, 23)

    assert CATALOGUE.fingerprint.of_pixels(CATALOGUE.pixels).tolist() == hashes[whole].tolist()
    assert SOURCE.labels.tolist() == labels[whole].tolist()


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        ((IMAGES[:4], LABELS[:3]), "batch 1 has 4 images and 3 labels"),
        ((IMAGES[:4, :, :6], LABELS[:4]), "batch 1 has images of 360 values; those of the source have 720"),
    ],
    ids=["labels", "values"],
)
def test_batches_that_cannot_be_covered_are_told(batch, what):
    """Too few labels or images of another size are refused with their numbers."""
    with pytest.raises(recorder.NotABatch, match=what):
        recorder.covered([batches()[0], batch], CATALOGUE.fingerprint)


def test_gradients_and_views_are_read_as_they_are():
    """Values are those of the tensor, whether it needs a gradient, is a view, or is of a type of torch's own."""
    wanted = IMAGES[:2].clone().requires_grad_()
    view = IMAGES[:4:2].permute(0, 2, 3, 1)

    assert np.array_equal(IMAGES[:2], recorder.as_array(wanted))
    assert np.array_equal(IMAGES.numpy()[:4:2].transpose(0, 2, 3, 1), recorder.as_array(view))
    assert [0.5, 1.0] == recorder.as_array(torch.tensor([0.5, 1.0], dtype=torch.bfloat16)).tolist()
