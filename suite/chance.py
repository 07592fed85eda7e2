"""How likely it is that a right loader shows something by chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

# Of so many equally likely outcomes a right loader never comes to a certain one.
UNLIKELY = 10**9
# The same where up to 15 pairs of epochs are compared, and some hundred observations.
RARE = 10**12


def orders(samples: int, buffer: int | None) -> int:
    """Return how many equally likely orders a shuffle buffer gives; None is one that holds everything."""
    held = samples if buffer is None else min(buffer, samples)
    return int(held ** (samples - held)) * math.factorial(held)


def groupings(sizes: Iterable[int]) -> int:
    """Return in how many equally likely ways a full shuffle fills batches, whatever their own order."""
    of_size = Counter(sizes)
    total = sum(size * times for size, times in of_size.items())
    same: int = math.prod(
        math.factorial(size) ** times * math.factorial(times) for size, times in of_size.items()
    )
    return math.factorial(total) // same


def remainders(samples: int, left: int, epochs: int) -> int:
    """Return in how many equally likely ways further epochs of a full shuffle leave out some samples."""
    return int(math.comb(samples, left) ** (epochs - 1))
