"""A small source made to bring faults out.

Every sample carries its id three times: as a number, as its file name (`key`), and in its
pixels; its label is a hash of its id and goes past 255. Samples lie sorted by class. Every pixel
tells where it lies, and each image holds both ends of the range of values, which are 0 and 255
where nothing else is asked for. Height and width differ unless they are asked to be equal.
"""

from __future__ import annotations

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import ArraySource
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.spec import whole_number

COUNT = 23
SHAPE = (12, 20, 3)
CLASSES = 1000
VALUES = (0, 255)
LEAST_RANGE = 128  # with fewer values two samples would come close to each other
ID_BITS = 24
MOST = 1_000_000  # samples; ids of one split must not reach those of the next
_FIRST_ID = {"train": 1_000, "test": 8_000_000}


def load(rest: str) -> dict[str, Source]:
    """Return the probe of each split for `[N[:HxWxC[:CLASSES[:LOW-HIGH]]]]`."""
    parts = rest.split(":") if rest else []
    if len(parts) > 4:
        msg = f"{rest!r} has {len(parts)} parts; the form is probe:N:HxWxC:CLASSES:LOW-HIGH"
        raise SourceError(msg)
    count = whole_number(parts[0], "the number of samples", MOST) if parts else COUNT
    shape = _shape(parts[1]) if len(parts) > 1 else SHAPE
    classes = whole_number(parts[2], "the number of classes", CLASSES) if len(parts) > 2 else CLASSES
    values = _range(parts[3]) if len(parts) > 3 else VALUES
    return {split: probe(count, split, shape, classes, values) for split in _FIRST_ID}


def _shape(text: str) -> tuple[int, int, int]:
    sides = [whole_number(side, "a side of the shape") for side in text.split("x")]
    if len(sides) != 3:
        msg = f"the shape is {text!r}; give height, width and channels, as in 12x20x3"
        raise SourceError(msg)
    height, width, channels = sides
    return height, width, channels


def _range(text: str) -> tuple[int, int]:
    low, _, high = (int(end) if end.isascii() and end.isdigit() else -1 for end in text.partition("-"))
    if low < 0 or not low + LEAST_RANGE <= high <= VALUES[1]:
        msg = f"the range of values is {text!r}; give two of 0 to 255, {LEAST_RANGE} apart at least, as in 40-215"
        raise SourceError(msg)
    return low, high


class Probe(ArraySource):
    """A probe with its ids.

    Attributes:
        ids: int64, N; no two splits share one.
    """

    ids: np.ndarray

    def key(self, index: int) -> str:
        """Return the file name of one sample, without its ending: one as people give them."""
        return f"class {self.labels[index] % 3}/v1.5 größe.{self.ids[index]:08d}"


def label_of(ids: np.ndarray, classes: int) -> np.ndarray:
    """Return the label that belongs to each id: one of `classes` values in `range(CLASSES)`."""
    step = CLASSES // classes
    mixed = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return (mixed % np.uint64(classes)).astype(np.int64) * step + (step - 1)


def probe(
    count: int,
    split: str = "train",
    shape: tuple[int, int, int] = SHAPE,
    classes: int = CLASSES,
    values: tuple[int, int] = VALUES,
) -> Probe:
    """Make a probe.

    Args:
        count: number of samples, at least 1.
        split: `train` or `test`.
        shape: height, width, channels; at least 26 values.
        classes: how many of the 1,000 labels occur.
        values: lowest and highest value; every image holds both.

    Raises:
        SourceError: the shape cannot carry an id, or there is no sample.
    """
    height, width, channels = shape
    if count < 1 or height * width * channels < ID_BITS + 2 or not 1 <= classes <= CLASSES:
        msg = (
            f"probe of {count} samples, shape {shape}, {classes} classes: need at least one sample,"
            f" {ID_BITS + 2} values in an image, and 1 to {CLASSES} classes"
        )
        raise SourceError(msg)
    ids = np.arange(count, dtype=np.int64) + _FIRST_ID[split]
    labels = label_of(ids, classes)
    order = np.argsort(labels, kind="stable")
    ids, labels = ids[order], labels[order]
    span = "" if values == VALUES else f":{values[0]}-{values[1]}"
    name = f"probe:{count}:{height}x{width}x{channels}:{classes}{span}/{split}"
    made = Probe(name, _squeezed(_draw(ids, shape), values), labels, CLASSES)
    made.ids = ids
    return made


def _draw(ids: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Draw coordinates and noise of the id's own, then the id's bits, then a 0 and a 255."""
    size = int(np.prod(shape))
    noise = np.stack([np.random.default_rng(int(one)).integers(0, 64, size, np.uint8) for one in ids])
    place = (np.arange(size) * 37 % 151 + 20).astype(np.uint8)
    flat: np.ndarray = place + noise
    flat[:, :ID_BITS] = ((ids[:, None] >> np.arange(ID_BITS)) & 1) * 200 + 20
    flat[:, -2:] = (0, 255)
    return flat.reshape(len(ids), *shape)


def _squeezed(images: np.ndarray, values: tuple[int, int]) -> np.ndarray:
    low, high = values
    return (low + images.astype(np.int64) * (high - low) // 255).astype(np.uint8)
