from __future__ import annotations

import itertools

import numpy as np
import pytest

from loaderproof.loaders.sources.probe import probe
from loaderproof.suite.fingerprint import Coverage, Fingerprint, channels_first, mixed, quantised

VALUES = 96
IMAGE = np.random.default_rng(7).permutation(256)[:VALUES].astype(np.uint8)  # no two bytes are equal
ZEROS, WHITE = np.zeros_like(IMAGE), np.full_like(IMAGE, 255)
PLACES = np.array(list(itertools.combinations(range(VALUES), 2)))
every_image = pytest.mark.parametrize("image", [IMAGE, ZEROS, WHITE], ids=["random", "black", "white"])


def different(images: np.ndarray) -> int:
    """Return how many different hashes images (uint8, N x values) have."""
    return len(np.unique(Fingerprint(images.shape[1]).of_pixels(images)))


def copies(image: np.ndarray, count: int) -> np.ndarray:
    """Return copies of an image, to be changed."""
    return np.tile(image, (count, 1))


@every_image
def test_images_that_differ_in_one_byte_never_collide(image):
    """Every change of a single byte gives a hash of its own."""
    images = copies(image, VALUES * 256).reshape(VALUES, 256, VALUES)
    for place in range(VALUES):
        images[place, :, place] += np.arange(256, dtype=np.uint8)

    assert VALUES * 255 + 1 == different(images.reshape(-1, VALUES))


@every_image
@pytest.mark.parametrize("by", [(1, 1), (1, 255), (128, 128), (255, 255), (64, 192)])
def test_images_that_differ_in_two_bytes_do_not_collide(image, by):
    """Changes of two bytes do not cancel out, wherever the two lie."""
    images = copies(image, len(PLACES))
    images[np.arange(len(PLACES))[:, None], PLACES] += np.array(by, np.uint8)

    assert len(PLACES) == different(images)


def test_images_with_swapped_bytes_do_not_collide():
    """Two bytes that change places change the hash, within a word and across words."""
    images = copies(IMAGE, len(PLACES))
    rows = np.arange(len(PLACES))[:, None]
    images[rows, PLACES] = images[rows, PLACES[:, ::-1]]

    assert len(PLACES) + 1 == different(np.vstack([images, IMAGE]))


def test_images_with_swapped_words_do_not_collide():
    """Eight bytes that change places with other eight change the hash."""
    words = IMAGE.reshape(-1, 8)
    orders = [np.arange(len(words))]
    for one, other in itertools.combinations(range(len(words)), 2):
        orders.append(np.arange(len(words)))
        orders[-1][[one, other]] = other, one

    assert len(orders) == different(words[np.array(orders)].reshape(-1, VALUES))


def test_images_that_are_moved_do_not_collide():
    """An image that is moved round by any number of bytes has a hash of its own."""
    assert VALUES == different(np.stack([np.roll(IMAGE, by) for by in range(VALUES)]))


@pytest.mark.parametrize("step", [1, 6, 8], ids=["side by side", "spread", "top bytes"])
@pytest.mark.parametrize("high", [1, 128, 255])
def test_images_of_black_and_white_do_not_collide(step, high):
    """All 65,536 images with sixteen pixels of two values have hashes of their own."""
    bits = (np.arange(2**16)[:, None] >> np.arange(16)) & 1
    images = np.zeros((2**16, 16 * step), np.uint8)
    images[:, step - 1 :: step] = bits * high

    assert 2**16 == different(images)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_images_of_wide_stripes_do_not_collide(width):
    """All 65,536 images of sixteen stripes, black or white, have hashes of their own."""
    bits = (np.arange(2**16)[:, None] >> np.arange(16)) & 1

    assert 2**16 == different(np.repeat(bits * 255, width, axis=1).astype(np.uint8))


@pytest.mark.parametrize("values", [1, 3, 7, 8, 9, 17])
def test_images_of_any_size_are_told_by_their_last_byte(values):
    """A size that fills no whole word loses nothing."""
    images = np.zeros((256, values), np.uint8)
    images[:, -1] = np.arange(256)

    assert 256 == different(images)


def test_labels_are_part_of_the_identity():
    """No image with one label has the hash of the same or another image with another label."""
    images = Fingerprint(VALUES).of_pixels(np.stack([np.roll(IMAGE, by) for by in range(50)]))
    labels = np.array([*range(-128, 1_000), 32_768, 65_536, 2**31, -(2**31)])
    hashes = mixed(np.repeat(images, len(labels)), np.tile(labels, len(images)))

    assert 50 * len(labels) == len(np.unique(hashes))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
def test_label_of_any_type_gives_the_same_hash(dtype):
    """The hash depends on the label, and not on the type that it comes in."""
    pixels, labels = copies(IMAGE, 3), np.array([0, 5, 127])
    fingerprint = Fingerprint(VALUES)

    assert fingerprint(pixels, labels).tolist() == fingerprint(pixels, labels.astype(dtype)).tolist()


def test_hash_of_a_sample_depends_on_no_other():
    """A sample has one hash, in whatever batch, shape and memory order it comes."""
    source = probe(30)
    pixels, labels = channels_first(source.images), source.labels
    fingerprint = Fingerprint(pixels[0].size)
    at_once = fingerprint(pixels, labels)
    alone = [fingerprint(pixels[place : place + 1], labels[place : place + 1])[0] for place in range(30)]
    strided = fingerprint(np.asfortranarray(pixels), labels)

    assert alone == at_once.tolist() == strided.tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_rounded_to_the_nearest_byte(dtype):
    """A byte divided by 255 comes back, and so does one that is off by a third of a step."""
    pixels = np.arange(256, dtype=np.uint8)
    off = np.where(pixels % 2, 0.3, -0.3) * (pixels > 0) * (pixels < 255)

    assert pixels.tolist() == quantised((pixels / 255).astype(dtype)).tolist()
    assert pixels.tolist() == quantised(((pixels + off) / 255).astype(dtype)).tolist()


def test_coverage_adds_up_over_batches_and_ranks():
    """Coverages of the parts sum up to that of the whole, in any order and in any parts."""
    hashes = np.random.default_rng(8).integers(0, 2**64, 1_000, np.uint64)
    shuffled = np.random.default_rng(9).permutation(hashes)
    ranks = [shuffled[rank::3] for rank in range(3)]
    batches = [rank[start : start + 32] for rank in ranks for start in range(0, len(rank), 32)]

    assert Coverage.of(hashes) == sum(map(Coverage.of, batches), Coverage())


def test_coverage_tells_any_single_fault():
    """Nothing that is missing, repeated, replaced or mislabelled leaves the coverage as it was."""
    source = probe(40)
    fingerprint = Fingerprint(source.images[0].size)
    hashes = fingerprint(channels_first(source.images), source.labels)
    whole = Coverage.of(hashes)
    faulty = [Coverage.of(np.delete(hashes, place)) for place in range(40)]
    faulty += [Coverage.of(np.append(hashes, one)) for one in hashes]
    for one, other in itertools.permutations(range(40), 2):
        replaced = hashes.copy()
        replaced[one] = hashes[other]
        faulty.append(Coverage.of(replaced))

    assert whole not in faulty
    assert len(faulty) == len(set(faulty))


def test_coverage_tells_swapped_labels():
    """Two samples that exchange their labels change the coverage, whichever two they are."""
    source = probe(40)
    pixels = Fingerprint(source.images[0].size).of_pixels(channels_first(source.images))
    whole = Coverage.of(mixed(pixels, source.labels))
    swapped = []
    for one, other in itertools.combinations(range(40), 2):
        labels = source.labels.copy()
        labels[[one, other]] = labels[[other, one]]
        swapped += [Coverage.of(mixed(pixels, labels))] if labels[one] != labels[other] else []

    assert len(swapped) > 700
    assert whole not in swapped
