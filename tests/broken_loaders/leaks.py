"""Loaders that leave something behind; each lives in a process of its own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from honest import Honest, fails
from torch import Tensor

Batch = tuple[Tensor, Tensor]

LEFT = "test_nothing_is_left_behind"


@fails(LEFT, rows=["H4"])
class ThreadAfterBreak(Honest):
    """Each pass has a thread that waits for its end, which does not come if it is left early."""

    def __iter__(self) -> Iterator[Batch]:
        over = threading.Event()
        threading.Thread(target=over.wait, daemon=True).start()
        yield from super().__iter__()
        over.set()


@fails(LEFT, rows=["H4"])
class NativeThread(Honest):
    """A library that is written in C starts a thread for each pass and ends none."""

    def order(self) -> list[int]:
        library = ctypes.CDLL(None)
        library.pthread_create(ctypes.byref(ctypes.c_ulong()), None, library.pause, None)
        return super().order()


@fails(LEFT, rows=["H8"])
class ProcessAfterBreak(Honest):
    """Each pass has a process that is ended with it, but not if it is left early."""

    def __iter__(self) -> Iterator[Batch]:
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
        process.start()
        yield from super().__iter__()
        process.terminate()
        process.join()


@fails(LEFT, rows=["H3"])
class DescriptorForEachBatch(Honest):
    """Opens a file for each batch and closes none."""

    def batch(self, places: list[int]) -> Batch:
        os.open(__file__, os.O_RDONLY)
        return super().batch(places)


@fails(LEFT, rows=["H5"])
class SharedMemory(Honest):
    """Puts each epoch into shared memory, and leaves it there."""

    def order(self) -> list[int]:
        Path(f"/dev/shm/broken-loader-{uuid.uuid4().hex}").write_bytes(b"epoch")  # noqa: S108  # that is the fault
        return super().order()
