"""What every batch looks like and holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.scenarios import contents, sizes, without_workers
from loaderproof.suite.judged import Judged, samples
from loaderproof.suite.observation import Epoch, Observation

ROUNDING = 1e-6


def test_shapes(subject: Judged) -> None:
    """Images have the shape (N, C, H, W) of the source, labels the shape (N,), and N is above 0."""
    for seen, batch, place in subject.batches(sizes(subject)):
        height, width, channels = seen.image_shape
        if (
            batch.size == 0
            or batch.image_shape[1:] != (channels, height, width)
            or batch.label_shape != (batch.size,)
        ):
            subject.fail(
                place,
                expected=f"images (N, {channels}, {height}, {width}), labels (N,), N above 0",
                got=f"images {batch.image_shape}, labels {batch.label_shape}",
                hint="a missing permute or squeeze, a collate that drops a dimension, or an empty last batch",
            )


def test_dtypes(subject: Judged) -> None:
    """Images and labels have the dtypes that the description declares."""
    about = subject.case.description
    for _, batch, place in subject.batches(sizes(subject)):
        if (batch.image_dtype, batch.label_dtype) != (about.image_dtype, about.label_dtype):
            subject.fail(
                place,
                expected=f"images {about.image_dtype}, labels {about.label_dtype}",
                got=f"images {batch.image_dtype}, labels {batch.label_dtype}",
                hint="Python floats become float64, a missing cast leaves uint8 or int32",
            )


def test_range(subject: Judged) -> None:
    """Values of images fill the range from 0 to 1 (uint8: 0 to 255), and none is NaN."""
    top = 255.0 if subject.case.description.image_dtype == "uint8" else 1.0
    slack = max(subject.case.description.tolerance, ROUNDING) * top
    for _, batch, place in subject.batches(sizes(subject)):
        # Written so that NaN does not pass.
        if batch.size and not (abs(batch.low) <= slack and abs(batch.high - top) <= slack):
            subject.fail(
                place,
                expected=f"values from 0 to {top:g}; every image of this probe holds both",
                got=f"values from {batch.low:g} to {batch.high:g}",
                hint="a division by 255 that is missing or made twice, or a normalisation",
            )


def test_values(subject: Judged) -> None:
    """Every value equals the source's, up to rounding or to the tolerance that is declared."""
    allowed = max(subject.case.description.tolerance, ROUNDING)
    for seen, epoch, place in subject.watch(contents(subject)):
        wrong = np.flatnonzero((epoch.index >= 0) & ~(epoch.error <= allowed))
        if wrong.size:
            subject.fail(
                replace(place, batch=epoch.batch_of(int(wrong[0]))),
                expected=f"values within {allowed:g} of the source's, in units of the range",
                got=f"differences up to {epoch.error[wrong].max():.3g}; samples {samples(seen, epoch.index[wrong])}",
                hint="a lossy format, a wrong scale, or work done in place on memory that is read again",
            )


def test_layout(subject: Judged) -> None:
    """Every pixel lies in its row, its column and its channel."""
    for seen, epoch, place in subject.watch(contents(subject)):
        moved = (
            np.flatnonzero((epoch.index >= 0) & ~epoch.placed) if _shaped(seen, epoch) else np.empty(0, int)
        )
        if moved.size:
            subject.fail(
                replace(place, batch=epoch.batch_of(int(moved[0]))),
                expected="pixels where they lie in the source",
                got=f"the same values in other places; samples {samples(seen, epoch.index[moved])}",
                hint="reshape or view used as permute, height and width swapped, or channels swapped",
            )


def test_labels_belong_to_their_samples(subject: Judged) -> None:
    """Every label is that of the sample it comes with; labels above 255 survive."""
    for seen, epoch, place in subject.watch(contents(subject)):
        if len(epoch.label) != len(epoch.index):
            continue  # no label for each image: the test of shapes reports it
        wrong = np.flatnonzero((epoch.index >= 0) & (epoch.label != seen.labels[epoch.index]))
        if wrong.size:
            first = int(wrong[0])
            subject.fail(
                replace(place, batch=epoch.batch_of(first)),
                expected=f"label {seen.labels[epoch.index[first]]} for sample #{epoch.index[first]}",
                got=f"label {epoch.label[first]}; {len(wrong)} of {len(epoch.index)} labels in this epoch are wrong",
                hint="images and labels shuffled or listed apart, an index off by one, labels cut to 8 or 16 bits",
            )


@pytest.mark.promises(Promise.WORKERS)
def test_workers_change_no_content(subject: Judged) -> None:
    """The same samples with the same labels come with workers and without them."""
    if subject.case.workers == 0:
        pytest.skip("this is the case without workers")
    for scenario in sizes(subject):
        alone = subject.run("experiments:watch", without_workers(scenario)).epochs
        for (_, epoch, place), other in zip(subject.watch([scenario]), alone, strict=False):
            if _content(epoch) != _content(other):
                subject.fail(
                    place,
                    expected=f"the {len(other.index)} samples that come with num_workers=0",
                    got=f"{len(epoch.index)} samples, and not the same",
                    hint="every worker reads everything, drops its own rest, or shares one file position",
                )


def _content(epoch: Epoch) -> Counter[tuple[int, int]]:
    return Counter(zip(epoch.index.tolist(), epoch.label.tolist(), strict=False))


def _shaped(seen: Observation, epoch: Epoch) -> bool:
    height, width, channels = seen.image_shape
    return all(batch.image_shape[1:] == (channels, height, width) for batch in epoch.batches)
