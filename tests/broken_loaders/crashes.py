"""Loaders that take their process down with them, or never answer, in one situation each."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

from honest import Honest, fails
from torch import Tensor

Batch = tuple[Tensor, Tensor]


class Collapsing(Honest):
    """Does something terrible with batches of 32, which only one test asks for."""

    def __iter__(self) -> Iterator[Batch]:
        if self.request.batch_size == 32:
            self.collapse()
        return super().__iter__()

    def collapse(self) -> None:
        """Do it."""
        raise NotImplementedError


@fails("test_shuffle_is_as_wide_as_promised")
class ReadsNowhere(Collapsing):
    """Reads memory that it does not have."""

    def collapse(self) -> None:
        ctypes.string_at(0)


@fails("test_shuffle_is_as_wide_as_promised")
class KilledForMemory(Collapsing):
    """Is killed by the kernel."""

    def collapse(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@fails("test_shuffle_is_as_wide_as_promised")
class Exits(Collapsing):
    """Ends the process without a word to Python."""

    def collapse(self) -> None:
        sys.stderr.write("giving up\n")
        sys.stderr.flush()
        os._exit(3)


@fails("test_shuffle_is_as_wide_as_promised")
class ExitsPolitely(Collapsing):
    """Asks Python to end."""

    def collapse(self) -> NoReturn:
        sys.exit("no more memory")


@fails("test_shuffle_is_as_wide_as_promised")
class Waits(Collapsing):
    """Waits for a batch that nobody makes."""

    def collapse(self) -> None:
        queue.Queue().get()


@fails("test_shuffle_is_as_wide_as_promised")
class Floods(Collapsing):
    """Prints a gigabyte."""

    def collapse(self) -> None:
        for _ in range(1024):
            os.write(1, b"what a flood\n" * 80_660)


@fails("test_errors_surface", "test_stop_iteration_surfaces", rows=["H9"])
class WaitsForADeadThread(Honest):
    """Loads ahead in a thread that passes ValueErrors on and dies of others; who takes the batches waits."""

    def __iter__(self) -> Iterator[Batch]:
        ready: queue.Queue[Any] = queue.Queue()
        thread = threading.Thread(target=self.load, args=(ready,), daemon=True)
        thread.start()
        while (came := ready.get()) is not None:
            if isinstance(came, OSError | ValueError):
                raise came
            yield came
        thread.join()

    def load(self, ready: queue.Queue[Any]) -> None:
        """Load an epoch."""
        try:
            for batch in super().__iter__():
                ready.put(batch)
            ready.put(None)
        except (OSError, ValueError) as error:
            ready.put(error)
