"""Loaders that hide errors."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

from honest import Honest, fails
from torch import Tensor

from loaderproof.loaders.contract import OnError

Batch = tuple[Tensor, Tensor]

ERRORS = "test_errors_surface"
STOP = "test_stop_iteration_surfaces"
BAD = "test_bad_samples_are_left_out_and_counted"


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


@fails(ERRORS, STOP)
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


@fails(ERRORS, STOP, rows=["C20"])
class TakesTheNext(Tolerant):
    """Takes the next sample for one that cannot be read."""

    def batch(self, places: list[int]) -> Batch:
        return Honest.batch(self, [place if self.readable(place) else place + 1 for place in places])


@fails(ERRORS, STOP)
class HidesTheMessage(Honest):
    """Raises an error of its own that does not say what was wrong."""

    def __iter__(self) -> Iterator[Batch]:
        try:
            yield from super().__iter__()
        except Exception:  # noqa: BLE001  # that is the fault
            raise RuntimeError("a worker failed") from None


@fails(ERRORS, STOP)
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


@fails(STOP, rows=["C21"])
class EndsAtStopIteration(Honest):
    """Hands out an iterator that takes a StopIteration of a sample for its own."""

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        return map(self.batch, self.batches(self.order()))


class Counting(Honest):
    """Leaves out the samples that cannot be read, and counts them."""

    skipped = 0

    def batch(self, places: list[int]) -> Batch:
        return super().batch([place for place in places if self.readable(place)])

    def readable(self, place: int) -> bool:
        """Tell whether a sample can be read."""
        with contextlib.suppress(Exception):
            self.source[place]
            return True
        self.skipped += 1
        return False


@fails(on_error=OnError.SKIP)
class Counts(Counting):
    """Does what it declares."""


@fails(BAD, on_error=OnError.SKIP)
class CountsNothing(Tolerant):
    """Leaves out the samples that cannot be read, and says nothing."""


@fails(BAD, on_error=OnError.SKIP, rows=["C20"])
class CountsAndTakesTheNext(Counting):
    """Counts the samples that cannot be read, and takes the next for each."""

    def batch(self, places: list[int]) -> Batch:
        return Honest.batch(self, [place if self.readable(place) else place + 1 for place in places])


@fails(BAD, on_error=OnError.SKIP)
class ThrowsTheBatchAway(Counting):
    """Counts the samples that cannot be read, and leaves out whole batches for them."""

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        for places in self.batches(self.order()):
            readable = [self.readable(place) for place in places]
            if all(readable):
                yield Honest.batch(self, places)
