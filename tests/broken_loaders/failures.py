"""Loaders that hide errors."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

from honest import Honest, fails
from torch import Tensor

Batch = tuple[Tensor, Tensor]

ERRORS = "test_errors_surface"


class Tolerant(Honest):
    """Leaves out the samples that cannot be read for a reason that it hides."""

    hidden: tuple[type[Exception], ...] = (Exception,)

    def batch(self, places: list[int]) -> Batch:
        return super().batch([place for place in places if self.readable(place)])

    def readable(self, place: int) -> bool:
        """Tell whether a sample can be read."""
        with contextlib.suppress(*self.hidden):
            super().sample(place)
            return True
        return False


@fails(ERRORS)
class Skips(Tolerant):
    """Leaves out the samples that cannot be read."""


@fails(ERRORS)
class SkipsLostFiles(Tolerant):
    """Takes any OSError for a file that is not there, and leaves the sample out."""

    hidden = (OSError,)


@fails(ERRORS, rows=["C21"])
class EndsAtKeyError(Honest):
    """Takes a KeyError for the end of the data."""

    def __iter__(self) -> Iterator[Batch]:
        with contextlib.suppress(KeyError):
            yield from super().__iter__()


@fails(ERRORS, rows=["C20"])
class TakesTheNext(Tolerant):
    """Takes the next sample for one that cannot be read."""

    def batch(self, places: list[int]) -> Batch:
        return Honest.batch(self, [place if self.readable(place) else place + 1 for place in places])


@fails(ERRORS)
class HidesTheMessage(Honest):
    """Raises an error of its own that does not say what was wrong."""

    def __iter__(self) -> Iterator[Batch]:
        try:
            yield from super().__iter__()
        except Exception:  # noqa: BLE001  # that is the fault
            raise RuntimeError("a worker failed") from None


@fails(ERRORS)
class ThreadEndsQuietly(Honest):
    """Loads ahead in a thread; if it dies, the epoch seems to be over."""

    def __iter__(self) -> Iterator[Batch]:
        ready: queue.Queue[Any] = queue.Queue()
        thread = threading.Thread(target=self.load, args=(ready,))
        thread.start()
        yield from iter(ready.get, None)
        thread.join()

    def load(self, ready: queue.Queue[Any]) -> None:
        """Load an epoch."""
        with contextlib.suppress(Exception):
            for batch in super().__iter__():
                ready.put(batch)
        ready.put(None)
