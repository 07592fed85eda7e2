"""The embedded data set: ten classes of drawn figures, 28x28 pixels, grey.

Every figure is stretched, sheared, turned and moved at random, drawn in a random brightness
under random noise. All arithmetic is on integers, and all randomness comes straight from the bit
generator, whose stream NumPy keeps fixed: the same bytes on every machine.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import ArraySource, read_arrays, write_arrays
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.portion import first
from loaderproof.loaders.sources.spec import whole_number
from loaderproof.loaders.store import cache_root, keep

VERSION = 1  # goes up whenever a pixel changes
COUNTS = {"train": 60_000, "test": 10_000}
SEEDS = {"train": 1, "test": 2}
FINGERPRINTS = {"train": "7feb40f0d541be178339050309cb8b82", "test": "06c85c494e42267ad6020f8b337d2130"}

# Strokes through points of a grid of 16 by 16.
FIGURES = {
    "ring": ("5,0 11,0 16,5 16,11 11,16 5,16 0,11 0,5 5,0",),
    "bar": ("8,0 8,16",),
    "cross": ("8,0 8,16", "0,8 16,8"),
    "triangle": ("8,0 16,15 0,15 8,0",),
    "square": ("1,1 15,1 15,15 1,15 1,1",),
    "zigzag": ("1,1 15,1 1,15 15,15",),
    "hook": ("14,0 14,11 10,16 5,16 1,11",),
    "arrow": ("8,16 8,0", "2,6 8,0 14,6"),
    "hourglass": ("1,0 15,0 1,16 15,16 1,0",),
    "ladder": ("2,0 2,16", "14,0 14,16", "2,8 14,8"),
}

SIDE = 28  # pixels
CANVAS = 256  # units; a pixel is about 4 of them, so that the nearest unit is near enough
GRID = 5  # units between two points of the grid
STROKE = 5  # units from the middle of a stroke to its edge
ONE = 256  # 1.0 in the numbers below

# Lowest and highest value of what is drawn at random for each image.
TURN = (-100, 100)  # 1/256 rad
SHEAR = (-60, 60)  # 1/256
STRETCH = (190, 329)  # 1/256; more makes the figure smaller
MOVE = (-2500, 2500)  # 1/256 unit
BRIGHTNESS = (50, 255)
NOISE = (40, 219)  # span of the noise, in grey levels

CHUNK = 250  # images drawn at a time: their intermediate arrays fit into a processor's cache


def load(rest: str) -> dict[str, Source]:
    """Return the figures, or the first `rest` of them and a sixth as many for testing."""
    target = cache_root() / "sources" / f"glyphs-{VERSION}"
    whole = keep(target, _write, lambda directory: read_arrays(directory, "glyphs"))
    if not rest:
        return whole
    count = whole_number(rest, "the number of samples", COUNTS["train"])
    counts = {"train": count, "test": max(1, count // 6)}
    return {split: first(whole[split], counts[split], f"glyphs:{rest}/{split}") for split in whole}


def _write(directory: Path) -> None:
    drawn = {split: ArraySource(split, *draw(COUNTS[split], SEEDS[split]), len(FIGURES)) for split in COUNTS}
    for split, source in drawn.items():
        if source.fingerprint != FINGERPRINTS[split]:
            msg = (
                f"the {split} figures drawn here have the fingerprint {source.fingerprint} instead of"
                f" {FINGERPRINTS[split]}: NumPy {np.__version__} computes in another way on this machine;"
                " please report it, and use probe:1000 until then"
            )
            raise SourceError(msg)
    write_arrays(directory, drawn)


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw figures.

    Args:
        count: how many.
        seed: decides all of them.

    Returns:
        Images (uint8, NHWC) and labels (int64, N).
    """
    bits = np.random.PCG64(seed)
    labels = _between(bits, 0, len(FIGURES) - 1, count)
    canvases = np.stack([_canvas(strokes) for strokes in FIGURES.values()])
    brightness, noise = (_between(bits, *bounds, count) for bounds in (BRIGHTNESS, NOISE))
    views = _views(bits, count)
    images = np.empty((count, SIDE, SIDE, 1), np.uint8)
    for start in range(0, count, CHUNK):
        part = slice(start, min(count, start + CHUNK))
        ink = canvases.ravel()[_places(views, labels, part)].astype(np.int32)
        ink *= _column(brightness, part)[:, :, None]
        ink += _noise(bits, ink.shape) * _column(noise, part)[:, :, None]
        images[part, :, :, 0] = np.clip(ink >> 8, 0, 255)
    return images, labels


class _Views(NamedTuple):
    """Where each image's pixels lie, in 1/256 unit: x = x0 + xx * column + xy * row, and y alike."""

    xx: np.ndarray
    xy: np.ndarray
    x0: np.ndarray
    yx: np.ndarray
    yy: np.ndarray
    y0: np.ndarray


def _views(bits: np.random.PCG64, count: int) -> _Views:
    turn, shear, wide, high, right, down = (
        _between(bits, *bounds, count) for bounds in (TURN, SHEAR, STRETCH, STRETCH, MOVE, MOVE)
    )
    cosine = ONE - (turn * turn >> 9)  # to second order
    xx, xy = cosine * wide >> 6, (shear - turn) * wide >> 6
    yx, yy = turn * high >> 6, cosine * high >> 6
    middle = CANVAS * ONE // 2
    return _Views(
        xx, xy, middle + right - ((xx + xy) * (SIDE - 1) >> 1),
        yx, yy, middle + down - ((yx + yy) * (SIDE - 1) >> 1),
    )  # fmt: skip


def _places(views: _Views, labels: np.ndarray, part: slice) -> np.ndarray:
    """Return the index of each pixel's unit on the canvases, which lie one behind the other."""
    xx, xy, x0, yx, yy, y0, label = (_column(values, part) for values in (*views, labels))
    line = np.arange(SIDE, dtype=np.int32)
    x = (xx * line)[:, None, :] + (xy * line + x0)[:, :, None]
    y = (yx * line)[:, None, :] + (yy * line + y0)[:, :, None]
    places: np.ndarray = (label[:, :, None] * CANVAS + (y >> 8)) * CANVAS + (x >> 8)
    return places


def _canvas(strokes: tuple[str, ...]) -> np.ndarray:
    """Draw a figure large, its edges blurred over about a pixel."""
    inked = np.zeros((CANVAS, CANVAS), bool)
    for stroke in strokes:
        for start, end in pairwise(_point(text) for text in stroke.split()):
            inked |= _near(start, end)
    grey = inked * np.int64(255)
    for axis in (0, 1):
        grey = np.sum([np.roll(grey, shift, axis) for shift in range(-2, 3)], axis=0) // 5
    return grey.astype(np.uint8)


def _point(text: str) -> tuple[int, int]:
    """Return a point of the grid in units of the canvas, whose middle is the grid's."""
    x, y = ((int(side) - 8) * GRID + CANVAS // 2 for side in text.split(","))
    return x, y


def _near(start: tuple[int, int], end: tuple[int, int]) -> np.ndarray:
    """Tell which units lie within half a stroke's width of a straight line, by exact arithmetic."""
    y, x = np.mgrid[:CANVAS, :CANVAS].astype(np.int64)
    (left, top), along, down = start, end[0] - start[0], end[1] - start[1]
    square = along * along + down * down
    foot = np.clip((x - left) * along + (y - top) * down, 0, square)
    far_x, far_y = (x - left) * square - along * foot, (y - top) * square - down * foot
    near: np.ndarray = far_x * far_x + far_y * far_y <= STROKE * STROKE * square * square
    return near


def _noise(bits: np.random.PCG64, shape: tuple[int, ...]) -> np.ndarray:
    """Return one of -128..127 for each pixel."""
    words = bits.random_raw(-(-int(np.prod(shape)) // 8)).astype("<u8")
    return words.view(np.int8)[: int(np.prod(shape))].reshape(shape).astype(np.int32)


def _between(bits: np.random.PCG64, low: int, high: int, count: int) -> np.ndarray:
    return (bits.random_raw(count) % np.uint64(high - low + 1)).astype(np.int64) + low


def _column(values: np.ndarray, part: slice) -> np.ndarray:
    return values[part].astype(np.int32)[:, None]
