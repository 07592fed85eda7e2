"""Seeds of which none depends on another: every random choice is a function of what it is made for."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What is drawn; draws for different purposes know nothing of each other."""

    ORDER = 0
    SAMPLE = 1


def seeds(seed: int, purpose: Purpose, *place: int, count: int = 1) -> list[int]:
    """Return seeds of 64 bits for the generators that serve one purpose at one place.

    A sum, such as seed + epoch, would give the second epoch of one seed to the first of the next.

    Args:
        seed: of the request.
        purpose: what will be drawn.
        place: for example the epoch, and the turn of a sample in it.
        count: how many seeds are wanted.
    """
    sequence = np.random.SeedSequence(seed % 2**64, spawn_key=(purpose, *place))
    found: list[int] = sequence.generate_state(count, np.uint64).tolist()
    return found
