"""Own data as a source, and samples that are known by their hashes alone."""

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from loaderproof.loaders import sources
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.object import HALF_A_STEP, ObjectSource, as_image
from loaderproof.loaders.sources.probe import probe
from loaderproof.suite.experiments.records import FirstPass, Truth
from loaderproof.suite.fingerprint import channels_first
from loaderproof.suite.identities import UNKNOWN

FILE = Path(__file__).parent / "loaders_for_tests" / "own_data.py"
BYTES = np.random.default_rng(1).integers(0, 256, (4, 6, 3), np.uint8)
SOURCE = probe(23)
IMAGES = channels_first(SOURCE.images).astype(np.float32) / 255
ORDER = np.random.default_rng(2).permutation(23)


def first_pass(images: np.ndarray, labels: np.ndarray, ids: np.ndarray | None = None) -> FirstPass:
    """Return what came in batches of five."""
    parts = [slice(start, start + 5) for start in range(0, len(images), 5)]
    return FirstPass((images[part], labels[part], None if ids is None else ids[part]) for part in parts)


@pytest.mark.parametrize(
    "image",
    [
        BYTES,
        Image.fromarray(BYTES),
        torch.from_numpy(BYTES).permute(2, 0, 1),
        torch.from_numpy(BYTES).permute(2, 0, 1) / 255,
    ],
    ids=["array", "PIL", "bytes", "floats"],
)
def test_images_are_converted(image):
    """Whatever holds an image, it becomes an array of bytes, height by width by channels."""
    assert np.array_equal(BYTES, as_image(image, "it"))


@pytest.mark.parametrize(
    "image", [BYTES[..., 0], Image.fromarray(BYTES[..., 0]), torch.from_numpy(BYTES[..., 0])]
)
def test_grey_images_have_one_channel(image):
    """An image without channels has one."""
    assert np.array_equal(BYTES[..., :1], as_image(image, "it"))


def test_images_are_copies():
    """Who changes what it gets changes no data."""
    as_image(BYTES, "it")[:] = 0

    assert BYTES.any()


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (BYTES.astype(np.float32), "float32 values"),
        (torch.full((3, 4, 6), -0.5), "values from -0.5 to -0.5; the truth lies in [0, 1]: leave out the"),
        (torch.full((3, 4, 6), torch.nan), "the truth lies in [0, 1]"),
        (torch.zeros(4), "an image of shape (4,)"),
        ("cat.png", "it has str for its image"),
    ],
)
def test_what_is_no_image_is_told(image, told):
    """Whoever gives something else than an image learns what is wanted."""
    with pytest.raises(SourceError) as refused:
        as_image(image, "it")

    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([], "has no samples"),
        ([BYTES], "sample 0 of mine is ndarray of shape (4, 6, 3); a sample is (image, label)"),
        ([(BYTES, 0.5)], "has float for its label"),
        ([(BYTES, -1)], "has int for its label"),
        ([(BYTES, 0), (BYTES[:2], 0)], "sample 1 of mine has the shape (2, 6, 3)"),
    ],
)
def test_what_are_no_samples_is_told(samples, told):
    """Samples that are none are named by their place."""
    with pytest.raises(SourceError) as refused:
        list(ObjectSource("mine", samples, ("", "")))

    assert told in str(refused.value)


@pytest.mark.parametrize("label", [3, np.int32(3), np.array(3), torch.tensor(3)])
def test_labels_are_numbers_of_any_kind(label):
    """A label may be a number of Python, NumPy or torch."""
    assert 3 == ObjectSource("mine", [(BYTES, label)], ("", ""))[0][1]


@pytest.fixture
def own(monkeypatch):
    """Data of a file, and the import system as it was, afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda name: sources.load(f"object:{FILE}:{name}")
    sys.modules.pop("own_data", None)


def test_a_single_object_is_shared_out(own):
    """Of one object every sixth sample is held out, but for a loader that has all of it."""
    found = own("pictures")

    assert (75, 15) == (len(found["train"]), len(found["test"]))
    assert 90 == len(found["train"].whole)
    assert 12 == found["train"].num_classes


def test_a_function_gives_each_split(own):
    """A function or class is called with each split."""
    found = own("Pictures")

    assert (90, 90) == (len(found["train"]), len(found["test"]))
    assert not np.array_equal(found["train"][0][0], found["test"][0][0])


def test_own_data_goes_to_other_processes_by_its_name(own):
    """What a module holds need not be picklable, and is never copied."""
    train = own("pictures")["train"]
    again = pickle.loads(pickle.dumps(train))  # noqa: S301 - our own

    assert train is copy.deepcopy(train)
    assert np.array_equal(train[7][0], again[7][0])


def test_exact_samples_are_found_without_their_pixels():
    """Samples are found by the hashes of a source that was read once, without an error."""
    found = Truth(SOURCE).find(IMAGES[ORDER])

    assert ORDER.tolist() == found.index.tolist()
    assert found.error.max() < 1e-6


@pytest.mark.parametrize(
    ("changed", "error"), [(IMAGES / 2, 0.5), (IMAGES * 255, 254), (IMAGES + np.float32(0.01), 0.01)]
)
def test_changed_samples_are_found_with_their_error(changed, error):
    """A wrong scale is no missing sample: its values are compared with those of the sample read again."""
    found = Truth(SOURCE).find(changed[ORDER])

    assert ORDER.tolist() == found.index.tolist()
    assert pytest.approx(np.full(23, error), rel=1e-4) == found.error


def test_foreign_samples_are_not_found():
    """What is no sample is taken for none."""
    noise = np.random.default_rng(3).random(IMAGES[:2].shape).astype(np.float32)

    assert [UNKNOWN] * 2 == Truth(SOURCE).find(noise).index.tolist()


def test_ids_tell_samples_of_any_values_and_sizes():
    """With its id a sample is known whatever became of it; values of another size are not compared."""
    truth = Truth(SOURCE)
    same = truth.named(IMAGES[ORDER] * 0, ORDER)
    smaller = truth.named(IMAGES[ORDER][..., ::2], ORDER)

    assert ORDER.tolist() == same.index.tolist() == smaller.index.tolist()
    assert pytest.approx(IMAGES[ORDER].reshape(23, -1).max(axis=1)) == same.error
    assert not smaller.error.any()


def test_floats_of_the_truth_are_rounded():
    """Values between the 256 steps that a source has are no error."""
    image = torch.rand((3, 4, 6), generator=torch.Generator().manual_seed(1))
    truth = Truth(ObjectSource("mine", [(image, 0)], ("", "")))
    found = truth.find(image[None].numpy())

    assert HALF_A_STEP == truth._rounding
    assert ([0], 0.0) == (found.index.tolist(), found.error[0])


def test_a_first_pass_finds_its_samples_again():
    """Values of any range are found again, also if they differ in their last bits."""
    images = IMAGES * 7 - 3
    found = first_pass(images, SOURCE.labels).find(images[ORDER] * np.float32(1 + 1e-6))

    assert ORDER.tolist() == found.index.tolist()


def test_a_first_pass_finds_no_other_samples():
    """A sample that differs in one pixel is another one."""
    images = IMAGES.copy()
    images[:, 0, 0, 0] += 0.5

    assert {UNKNOWN} == set(first_pass(IMAGES, SOURCE.labels).find(images).index.tolist())


def test_a_first_pass_with_ids_goes_by_them():
    """Ids of any numbers tell samples; one that did not come is unknown."""
    seen = first_pass(IMAGES, SOURCE.labels, ORDER * 3)

    assert [0, 22, UNKNOWN] == seen.named(IMAGES[:3] * 0, ORDER[[0, 22, 0]] * 3 + [0, 0, 1]).index.tolist()


def test_equal_samples_stand_for_one_another():
    """The first of equal samples is owed as often as there are; the label tells equal images apart."""
    images, labels = IMAGES[[0, 1, 0, 1]], np.array([5, 6, 5, 7])
    seen = first_pass(images, labels)
    index = seen.settled(seen.find(images).index, labels)

    assert [2, 1, 0, 1] == seen.owed.tolist()
    assert [0, 1, 0, 3] == index.tolist()


def test_a_wrong_label_of_equal_images_repeats_no_sample():
    """Where only labels tell equal images apart, a wrong one counts for the sample that is still owed."""
    images, labels = IMAGES[[0, 1, 1]], np.array([5, 6, 7])
    seen, wrong = first_pass(images, labels), np.array([5, 6, 9])
    index = seen.settled(seen.find(images).index, wrong)

    assert [0, 1, 2] == seen.balanced(index, wrong).tolist()


def test_a_second_look_counts_what_comes_again():
    """A first pass knows how many samples of another were in it."""
    seen = first_pass(IMAGES, SOURCE.labels)
    seen.look_again([(IMAGES[:5], SOURCE.labels[:5], None), (IMAGES[:5] * 0.3, SOURCE.labels[:5], None)])

    assert (10, 5) == (seen.fresh, seen.again)
