from __future__ import annotations

import numpy as np
import pytest

from loaderproof.loaders.sources.arrays import ArraySource
from loaderproof.loaders.sources.probe import probe
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.fingerprint import Coverage, channels_first
from loaderproof.suite.identities import UNKNOWN, Difference

SOURCE = probe(23)
CATALOGUE = Catalogue(SOURCE)
IMAGES = channels_first(SOURCE.images).astype(np.float32) / 255
ORDER = np.random.default_rng(3).permutation(23)
RIGHT = Difference([], [], [], 0)


def compared(
    places: list[int], labels: dict[int, int] | None = None, catalogue: Catalogue = CATALOGUE
) -> Difference:
    """Compare an epoch of the samples at some places, some with other labels (turn to label)."""
    came = catalogue.labels[places].copy()
    for turn, label in (labels or {}).items():
        came[turn] = label
    return catalogue.compare(catalogue.fingerprint.of_pixels(catalogue.pixels[places]), came)


def with_duplicates() -> Catalogue:
    """Return five samples: 0 and 3 are equal, 1 and 4 have one image and two labels."""
    images, labels = SOURCE.images[[0, 1, 2, 0, 1]], np.array([7, 8, 9, 7, 6])
    return Catalogue(ArraySource("duplicates", images, labels, 10))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_exact_samples_are_found(dtype):
    """Samples are found in any order, as bytes or as floats, and nothing is wrong with them."""
    images = CATALOGUE.pixels if dtype == np.uint8 else (CATALOGUE.pixels / 255).astype(dtype)
    found = CATALOGUE.find(images[ORDER])

    assert ORDER.tolist() == found.index.tolist()
    assert found.error.max() < 1e-7
    assert found.placed.all()


@pytest.mark.parametrize("data", [(2, "test", (9, 14, 1)), (200, "train", (4, 7, 1))])
def test_small_and_grey_images_are_told_apart(data):
    """Even the smallest probes are found, each by its own image."""
    catalogue = Catalogue(probe(*data))
    found = catalogue.find((catalogue.pixels / 255 * 1.01).astype(np.float32))

    assert list(range(data[0])) == found.index.tolist()
    assert found.placed.all()


@pytest.mark.parametrize(
    ("scaled", "error"),
    [
        (IMAGES * 255, 254),
        (IMAGES / 255, 1 - 1 / 255),
        (IMAGES * 2 - 1, 1),
        (1.5 * IMAGES + 3, 3.5),
        (IMAGES * 255 / 256, 1 / 256),
        (IMAGES + 256 / 255, 256 / 255),
    ],
    ids=["unscaled", "scaled twice", "around 0", "stretched", "by 256", "a whole turn of a byte"],
)
def test_scaled_samples_are_found_with_their_error(scaled, error):
    """A wrong scale is no missing sample: each is found, with the largest difference of its values."""
    found = CATALOGUE.find(scaled[ORDER].astype(np.float32))

    assert ORDER.tolist() == found.index.tolist()
    assert pytest.approx(np.full(23, error), rel=1e-5) == found.error
    assert found.placed.all()


def test_noise_is_measured():
    """Slightly noisy samples are found, with the largest difference of their values."""
    noise = np.random.default_rng(4).normal(0, 0.01, IMAGES.shape)
    found = CATALOGUE.find((IMAGES + noise)[ORDER])

    assert ORDER.tolist() == found.index.tolist()
    assert pytest.approx(abs(noise).reshape(23, -1).max(axis=1)[ORDER], rel=1e-4) == found.error
    assert found.placed.all()


@pytest.mark.parametrize(
    "moved",
    [
        IMAGES[:, ::-1],
        IMAGES[..., ::-1],
        IMAGES.transpose(0, 2, 3, 1),
        SOURCE.images.reshape(23, 3, 12, 20) / 255,
    ],
    ids=["channels swapped", "mirrored", "channels last", "reshaped"],
)
def test_moved_pixels_are_no_missing_sample(moved):
    """Samples with their pixels in other places are found, without an error, and not in place."""
    found = CATALOGUE.find(moved[ORDER].astype(np.float32))

    assert ORDER.tolist() == found.index.tolist()
    assert found.error.max() < 1e-6
    assert not found.placed.any()


def test_moved_and_scaled_pixels_are_found_too():
    """Two faults at once are told apart: the error is that of the scale, whatever the places."""
    found = CATALOGUE.find(IMAGES[..., ::-1] / 2)

    assert list(range(23)) == found.index.tolist()
    assert pytest.approx(np.full(23, 0.5)) == found.error
    assert not found.placed.any()


def test_value_that_is_no_number_hides_no_sample():
    """A sample with NaN or infinity in one place is found by the others, and its error says so."""
    images = IMAGES[ORDER].copy()
    images[0, 0, 0, 0], images[1, 2, 3, 4] = np.nan, np.inf
    found = CATALOGUE.find(images)

    assert ORDER.tolist() == found.index.tolist()
    assert [True, False] == [np.isnan(found.error[0]), np.isfinite(found.error[1])]
    assert found.placed.all()


@pytest.mark.parametrize(
    "foreign",
    [
        np.zeros((3, 12, 20)),
        np.ones((3, 12, 20)),
        np.full((3, 12, 20), np.nan),
        np.random.default_rng(5).random((3, 12, 20)),
        (IMAGES[0] + IMAGES[1]) / 2,
        channels_first(probe(1, "test").images)[0] / 255,
        IMAGES[0, :, :6],
        np.zeros(0),
    ],
    ids=["black", "white", "nan", "random", "two mixed", "of another split", "cut", "empty"],
)
def test_foreign_images_are_not_found(foreign):
    """What is no sample of the source is taken for none."""
    found = CATALOGUE.find(np.stack([foreign, foreign]).astype(np.float32))

    assert [UNKNOWN, UNKNOWN] == found.index.tolist()
    assert not found.placed.any()
    assert np.isinf(found.error).all()


def test_no_images_are_nothing_found():
    """An empty batch is no error."""
    assert 0 == len(CATALOGUE.find(IMAGES[:0]).index)


def test_one_wrong_sample_in_a_batch_spoils_no_other():
    """Right, scaled, moved and foreign samples in one batch are each taken for what they are."""
    found = CATALOGUE.find(np.stack([IMAGES[4], IMAGES[5] * 9, IMAGES[6, ..., ::-1], IMAGES[7] * 0]))

    assert [4, 5, 6, UNKNOWN] == found.index.tolist()
    assert [True, True, False, False] == found.placed.tolist()
    assert [0, 8, 0, np.inf] == pytest.approx(found.error.tolist(), abs=1e-6)


def test_complete_epoch_differs_in_nothing():
    """An epoch of all samples in any order has no difference, and the coverage of the source."""
    assert RIGHT == compared(ORDER.tolist())
    assert Coverage.of(CATALOGUE.hashes[ORDER]) == CATALOGUE.coverage


@pytest.mark.parametrize(
    ("places", "labels", "difference"),
    [
        ([*range(20)], {}, Difference([20, 21, 22], [], [], 0)),
        ([*range(23), 3, 3, 8], {}, Difference([], [3, 8], [], 0)),
        ([0, 0, *range(2, 23)], {}, Difference([1], [0], [], 0)),
        ([*range(23)], {5: 999}, Difference([], [], [5], 0)),
        ([*range(23), 5], {5: 999}, Difference([], [5], [5], 0)),
        ([], {}, Difference([*range(23)], [], [], 0)),
    ],
    ids=["missing", "repeated", "replaced", "mislabelled", "repeated with a wrong label", "nothing"],
)
def test_differences_are_named(places, labels, difference):
    """Missing, repeated and mislabelled samples are named by their places in the source."""
    assert difference == compared(places, labels)


def test_swapped_labels_are_mislabelled():
    """Two samples that exchange their labels are both named."""
    labels = {2: int(CATALOGUE.labels[9]), 9: int(CATALOGUE.labels[2])}

    assert Difference([], [], [2, 9], 0) == compared([*range(23)], labels)


def test_foreign_samples_are_counted():
    """Samples that are not in the source are counted, and what they took the place of is missing."""
    pixels = CATALOGUE.pixels.copy()
    pixels[[4, 6]] = 0
    found = CATALOGUE.compare(CATALOGUE.fingerprint.of_pixels(pixels), CATALOGUE.labels)

    assert Difference([4, 6], [], [], 2) == found


@pytest.mark.parametrize(
    ("places", "labels", "difference"),
    [
        ([4, 3, 2, 1, 0], {}, RIGHT),
        ([0, 0, 2, 1, 4], {}, RIGHT),
        ([0, 1, 2, 4], {}, Difference([0], [], [], 0)),
        ([0, 1, 2, 3, 4, 3], {}, Difference([], [0], [], 0)),
        ([0, 1, 2, 3, 1], {}, Difference([], [], [1], 0)),
        ([0, 1, 2, 3, 4], {3: 5}, Difference([], [], [0], 0)),
        ([0, 1, 2, 3, 4, 1], {}, Difference([], [1], [], 0)),
    ],
    ids=[
        "complete",
        "one of two equals twice",
        "one of two equals missing",
        "one of two equals thrice",
        "one image twice with one of its two labels",
        "one of two equals mislabelled",
        "one image thrice",
    ],
)
def test_equal_samples_in_the_source_are_owed_as_often_as_they_are_there(places, labels, difference):
    """Of samples that the source holds more than once, as many are owed; they are named by the first."""
    assert difference == compared(places, labels, with_duplicates())


def test_an_image_that_is_twice_in_the_source_is_found_once():
    """Equal images are all taken for the first of them."""
    catalogue = with_duplicates()

    assert [0, 1, 2, 0, 1] == catalogue.find(catalogue.pixels).index.tolist()


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (RIGHT, "a second pass was complete"),
        (Difference([1, 2], [], [], 0), "2 missing: #1, #2"),
        (
            Difference([], [*range(9)], [4], 3),
            "9 repeated: #0, #1, #2, #3, #4, ...; 1 mislabelled: #4; 3 that are not",
        ),
    ],
)
def test_difference_is_told_in_words(difference, text):
    """A difference names up to five samples of each kind."""
    assert str(difference).startswith(text)
