"""Blocks: a loader and the ceiling measured side by side, in random order, balanced over the blocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Generic, TypeVar

Measured = TypeVar("Measured")


def ceiling_first(blocks: int, seed: int) -> list[bool]:
    """Return for each block whether the ceiling goes first: in half of them, rounded up, at random."""
    order = [number % 2 == 0 for number in range(blocks)]
    random.Random(seed).shuffle(order)  # noqa: S311 - nobody has to be kept from guessing it
    return order


def orders(arms: int, blocks: int, seed: int) -> list[list[int]]:
    """Return for each block in which order to measure so many arms.

    Within as many blocks as there are arms, each arm is once in each place (the rows of a Latin
    square, drawn at random), so that none of them always comes first, or after the same pause.

    Args:
        arms: how many are compared, numbered from 0.
        blocks: how many orders.
        seed: decides them.
    """
    draw = random.Random(seed)  # noqa: S311 - nobody has to be kept from guessing it
    made: list[list[int]] = []
    while len(made) < blocks:
        first, turns = draw.sample(range(arms), arms), draw.sample(range(arms), arms)
        made += [first[turn:] + first[:turn] for turn in turns]
    return made[:blocks]


class Blocks(Generic[Measured]):
    """Runs the ceiling beside each round of another's stopwatch.

    pytest-benchmark calls `before_round` untimed and `round` timed. A block whose ceiling goes
    last gets it before the next round, or in `finish`.

    Args:
        round: measures the loader once.
        ceiling: measures the ceiling once.
        blocks: how many rounds will come.
        seed: decides the order.
        progress: is told before each block how far the run is.
    """

    def __init__(
        self,
        round: Callable[[], Measured],  # noqa: A002 - as pytest-benchmark calls it
        ceiling: Callable[[], Measured],
        blocks: int,
        seed: int,
        progress: Callable[[str], object],
    ) -> None:
        self._round, self._ceiling, self._progress = round, ceiling, progress
        self._first = ceiling_first(blocks, seed)
        self._owing = False
        self.rounds: list[Measured] = []
        self.ceilings: list[Measured] = []

    def before_round(self) -> None:
        """Measure the ceilings that are due before the next round."""
        self.finish()
        self._progress(f"block {len(self.rounds) + 1} of {len(self._first)}")
        if self._first[len(self.rounds) % len(self._first)]:
            self.ceilings.append(self._ceiling())
        else:
            self._owing = True

    def round(self) -> None:
        """Measure the loader."""
        self.rounds.append(self._round())

    def finish(self) -> None:
        """Measure the ceiling of the last block, if it is still due."""
        if self._owing:
            self.ceilings.append(self._ceiling())
            self._owing = False
