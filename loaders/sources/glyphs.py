"""The embedded data set: ten classes of drawn figures, 28x28 pixels, grey.

Every figure is stretched, sheared, turned and moved at random, drawn in a random brightness
under random noise. All arithmetic is on integers, and all randomness comes straight from the bit
generator, whose stream NumPy keeps fixed: the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
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
FINGERPRINTS = {"train": "", "test": ""}

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
                f"the {split} figures drawn here have the fingerprint {source.fingerprint}, but version {VERSION}"
                f" of glyphs has {FINGERPRINTS[split]}: NumPy {np.__version__} computes with integers in another"
                " way on this machine; please report it, and use `--loader-data probe:1000` until then"
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
