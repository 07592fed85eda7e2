"""What every batch looks like and holds."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.scenarios import (
    WATCH,
    by_workers,
    contents,
    over,
    sizes,
    whole_by_workers,
    without_workers,
)
from loaderproof.suite.judged import Judged, Place, batches, samples
from loaderproof.suite.observation import Epoch, Observation

ROUNDING = 1e-6


@over(sizes)
def test_shapes(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Images have the shape (N, C, H, W) of the source, labels the shape (N,), and N is above 0.

    Why: a wrong shape is broadcast or flattened somewhere later, and the network learns from nonsense
    or fails far from the cause. An empty batch makes a loss of NaN.

    Reports: NVIDIA/DALI#3855, huggingface/accelerate#209

    Causes: a missing permute, a squeeze that takes more than it should, a collate that drops a
    dimension of a batch of one, an empty batch to make counts equal.

    Remedy: permute images from (H, W, C), squeeze by naming the dimension, and leave an empty batch
    out. Images of another order are declared nowhere: turn them in the adapter.
    """
    channels, height, width = _shape(subject, seen)
    for batch, here in batches(epoch, place):
        if (
            batch.size == 0
            or batch.image_shape[1:] != (channels, height, width)
            or batch.label_shape != (batch.size,)
        ):
            subject.fail(
                here,
                expected=f"images (N, {channels}, {height}, {width}), labels (N,), N above 0",
                got=f"images {batch.image_shape}, labels {batch.label_shape}",
                hint="a missing permute or squeeze, a collate that drops a dimension, or an empty last batch",
            )


@over(sizes)
def test_dtypes(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Images and labels have the dtypes that the description declares.

    Why: float64 doubles the memory and halves the speed, or stops at the first layer; labels in a
    narrow type wrap around when there are more classes.

    Reports: pytorch/pytorch#31689, huggingface/datasets#7472, facebookresearch/detectron2 PR#5386

    Causes: Python floats and NumPy's division make float64; a file format's uint8 or int32 is passed
    on; a stored schema undoes a cast.

    Remedy: cast once, where the batch is made, for example `labels.to(torch.int64)`; or declare
    `image_dtype` and `label_dtype`.
    """
    del seen
    about = subject.case.description
    for batch, here in batches(epoch, place):
        if (batch.image_dtype, batch.label_dtype) != (about.image_dtype, about.label_dtype):
            subject.fail(
                here,
                expected=f"images {about.image_dtype}, labels {about.label_dtype}",
                got=f"images {batch.image_dtype}, labels {batch.label_dtype}",
                hint="Python floats become float64, a missing cast leaves uint8 or int32",
            )


@over(sizes)
def test_range(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Values of images fill the range from 0 to 1 (uint8: 0 to 255), and none is NaN.

    Why: a network that was made for one range learns slowly or not at all from another, and a model
    that was trained on one is wrong on the other, without an error.

    Reports: pytorch/vision#546

    Causes: a division by 255 that is missing, made twice, or made for uint8 only; a normalisation
    that is part of the loader.

    Remedy: divide by 255 in one place, and leave means and deviations to the model. A loader that
    hands out bytes declares `image_dtype="uint8"`.
    """
    del seen
    top = 255.0 if subject.case.description.image_dtype == "uint8" else 1.0
    slack = max(subject.case.description.tolerance, ROUNDING) * top
    for batch, here in batches(epoch, place):
        # Own data need not fill any range.
        low, high = (0.0, top) if subject.truth and not math.isnan(batch.low) else (batch.low, batch.high)
        # Written so that NaN does not pass.
        if batch.size and not (abs(low) <= slack and abs(high - top) <= slack):
            subject.fail(
                here,
                expected=f"values from 0 to {top:g}; every image of this probe holds both",
                got=f"values from {batch.low:g} to {batch.high:g}",
                hint="a division by 255 that is missing or made twice, or a normalisation",
            )


@over(contents)
def test_values(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Every value equals the source's, up to rounding or to the tolerance that is declared.

    Why: what is lost here cannot be learned, and two loaders that differ in it give two accuracies.

    Reports: huggingface/datasets#5517, libffcv/ffcv#37

    Causes: a lossy format, 16 bits on the way, each image stretched to its own range, or memory that
    is filled again while it is still read.

    Remedy: keep the values as they are, divide by 255 and by nothing else; or declare `tolerance` for
    a format that is lossy on purpose.
    """
    allowed = max(subject.case.description.tolerance, ROUNDING)
    wrong = np.flatnonzero((epoch.index >= 0) & ~(epoch.error <= allowed))
    if wrong.size:
        subject.fail(
            replace(place, batch=epoch.batch_of(int(wrong[0]))),
            expected=f"values within {allowed:g} of the source's, in units of the range",
            got=f"differences up to {epoch.error[wrong].max():.3g}; samples {samples(seen, epoch.index[wrong])}",
            hint="a lossy format, a wrong scale, or work done in place on memory that is read again",
        )


@over(contents)
def test_layout(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Every pixel lies in its row, its column and its channel.

    Why: shape, values and labels are right, so nothing complains; but what the network sees is no
    picture any more. Square images hide it best.

    Reports: chongyi-zheng/stable_contrastive_rl#3, ehoogeboom/multinomial_diffusion#1

    Causes: reshape or view where permute is meant, height and width swapped, channels in the order
    of OpenCV.

    Remedy: `permute(2, 0, 1)` for an image of shape (H, W, C), and `[..., ::-1]` for BGR.
    """
    if not _shaped(seen, epoch):
        return  # the test of shapes reports it
    moved = np.flatnonzero((epoch.index >= 0) & ~epoch.placed)
    if moved.size:
        subject.fail(
            replace(place, batch=epoch.batch_of(int(moved[0]))),
            expected="pixels where they lie in the source",
            got=f"the same values in other places; samples {samples(seen, epoch.index[moved])}",
            hint="reshape or view used as permute, height and width swapped, or channels swapped",
        )


@over(contents)
def test_labels_belong_to_their_samples(
    subject: Judged, seen: Observation, epoch: Epoch, place: Place
) -> None:
    """Every label is that of the sample it comes with; labels above 255 survive.

    Why: a network trained on wrong labels reaches some accuracy all the same, so that the loss looks
    like one of a bad model.

    Reports: Dana-Farber-AIOS/pathml#56, minar09/cp-vton-plus#8, modestyachts/ImageNetV2#10,
    facebookresearch/detectron2 PR#5386, urvashik/knnlm#6

    Causes: images and labels that are listed or shuffled apart, an index off by one, folders sorted
    as text so that class 100 comes before class 2, labels kept in 8 or 16 bits.

    Remedy: shuffle one list of pairs, sort file names before pairing them, take the class from a map
    that is written down, and keep labels in int64.
    """
    if len(epoch.label) != len(epoch.index):
        return  # no label for each image: the test of shapes reports it
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
@over(by_workers, whole_by_workers)
def test_workers_change_no_content(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """The same samples with the same labels come with workers and without them.

    Why: a run on another machine, with another number of workers, trains on other data.

    Reports: huggingface/datasets#3423, pytorch/pytorch#30599, pytorch/pytorch#33413,
    huggingface/datasets#8669, numpy/numpy#18124, mehta-lab/VisCy#417

    Causes: every worker reads everything, one reads everything and the others nothing, each drops a
    rest of its own, or all share the position in one open file.

    Remedy: split the samples by `torch.utils.data.get_worker_info()`, batch after the split is
    joined, and open files in the worker, not before it is started.
    """
    del seen
    alone = subject.run(WATCH, without_workers(place.scenario)).epochs
    if epoch.number < len(alone) and _content(epoch) != _content(alone[epoch.number]):
        subject.fail(
            place,
            expected=f"the {len(alone[epoch.number].index)} samples that come with num_workers=0",
            got=f"{len(epoch.index)} samples, and not the same",
            hint="every worker reads everything, drops its own rest, or shares one file position",
        )


def _content(epoch: Epoch) -> Counter[tuple[int, int]]:
    return Counter(zip(epoch.index.tolist(), epoch.label.tolist(), strict=False))


def _shape(subject: Judged, seen: Observation) -> tuple[int, ...]:
    """Return the shape that images owe; one that is resized, and declares it, owes the same in all batches."""
    first = seen.epochs[0].batches[:1]
    if subject.truth and subject.case.description.tolerance and first and len(first[0].image_shape) == 4:
        return first[0].image_shape[1:]
    height, width, channels = seen.image_shape
    return channels, height, width


def _shaped(seen: Observation, epoch: Epoch) -> bool:
    height, width, channels = seen.image_shape
    return all(batch.image_shape[1:] == (channels, height, width) for batch in epoch.batches)
