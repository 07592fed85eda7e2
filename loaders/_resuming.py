"""How far a loader has come, as plain data from which another goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from loaderproof.loaders.contract import Request

VERSION = 1  # of the order that a seed gives: what an older one began, a newer one must not continue
# What decides which samples a batch of an epoch holds. Workers do not, and a rank's position is every rank's.
DECIDING = ("batch_size", "shuffle", "seed", "drop_last", "world_size")


@dataclass
class Position:
    """A place between two batches.

    Attributes:
        epoch: counts from 0.
        batch: batches of that epoch that were handed out.
    """

    epoch: int = 0
    batch: int = 0


class Progress:
    """The pass that was begun last, and where the next one begins.

    Args:
        samples: in the whole source.
        length: batches in an epoch.
        request: what the loader was asked for.
    """

    def __init__(self, samples: int, length: int, request: Request) -> None:
        deciding = {name: getattr(request, name) for name in DECIDING}
        self._terms = {"version": VERSION, "samples": samples, **deciding}
        self._length = length
        self._reached, self._next = Position(), Position()

    def begin(self) -> Position:
        """Return where the pass starts that begins now; it moves the position on as it hands out."""
        self._reached = replace(self._next)
        self._next = Position(self._next.epoch + 1)
        return self._reached

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be this epoch: from its start, unless a state was loaded from amid it."""
        if epoch != self._next.epoch:
            self._next = Position(epoch)
            self._reached = replace(self._next)

    def state_dict(self) -> dict[str, Any]:
        """Return how many batches of which epoch were handed out, and of what kind they were."""
        return {**asdict(self._reached), **self._terms}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass go on where the state was taken; behind the end of an epoch, with the next one.

        Raises:
            ValueError: the state is none, or was taken of a loader that was asked for other batches.
        """
        self._check(state)
        self._reached = Position(state["epoch"], state["batch"])
        ended = self._reached.batch >= self._length
        self._next = Position(self._reached.epoch + 1) if ended else replace(self._reached)

    def _check(self, state: Mapping[str, Any]) -> None:
        lacking = [name for name in self.state_dict() if name not in state]
        if lacking:
            msg = f"this is no state of such a loader: it lacks {', '.join(map(repr, lacking))}"
            raise ValueError(msg)
        for name, value in self._terms.items():
            if state[name] != value:
                msg = (
                    f"the state was taken with {name}={state[name]!r}, but this loader has {name}={value!r}:"
                    " open it as the one that the state was taken of, or start the epoch anew"
                )
                raise ValueError(msg)
        if state["epoch"] < 0 or not 0 <= state["batch"] <= self._length:
            msg = (
                f"the state is at epoch {state['epoch']!r}, batch {state['batch']!r};"
                f" there are epochs from 0 on, and {self._length} batches in each"
            )
            raise ValueError(msg)
