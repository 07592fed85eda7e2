"""Few numbers of each image, by which it is found among many when its hash differs."""

from __future__ import annotations

import numpy as np

# Numbers kept of each image.
SKETCHED = 16
_AT_ONCE = 4_000_000  # distances


class Sketch:
    """Makes few numbers of an image, whose distances estimate those of the images.

    A count sketch (Charikar, Chen and Farach-Colton, "Finding frequent items in data streams",
    ICALP 2002): values with random signs, summed in a few groups.
    """

    def __init__(self, values: int) -> None:
        self._width = -(-values // SKETCHED)
        self._values = values
        self._signs = np.random.default_rng(20261201).choice(np.array([-1.0, 1.0]), self._width * SKETCHED)

    def __call__(self, flat: np.ndarray) -> np.ndarray:
        """Return float64, N x 16; the root of the sum of squares estimates the root mean square."""
        padded = np.zeros((len(flat), self._width * SKETCHED))
        padded[:, : self._values] = np.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0)
        padded *= self._signs
        summed = padded.reshape(len(flat), SKETCHED, self._width).sum(axis=2)
        scaled: np.ndarray = summed / np.sqrt(self._values)
        return scaled


def nearest(sketches: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of the nearest sketch to each wanted one, and its distance."""
    places, distances = np.empty(len(wanted), np.int64), np.empty(len(wanted))
    lengths = (sketches**2).sum(axis=1)
    step = max(1, _AT_ONCE // max(1, len(sketches)))
    for start in range(0, len(wanted), step):
        part = slice(start, start + step)
        squares = lengths - 2 * wanted[part] @ sketches.T
        places[part] = squares.argmin(axis=1)
        distances[part] = np.sqrt(((sketches[places[part]] - wanted[part]) ** 2).sum(axis=1))
    return places, distances
