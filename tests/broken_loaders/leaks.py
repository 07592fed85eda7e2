"""Loaders that leave something behind; each lives in a process of its own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import torch
from honest import Honest, fails
from torch import Tensor

Batch = tuple[Tensor, Tensor]

LEFT = "test_nothing_is_left_behind"
AFTER_ERRORS = "test_nothing_is_left_after_an_error"


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


@fails(LEFT)
class TemporaryFile(Honest):
    """Writes the order of each epoch to a temporary file that nobody removes."""

    def order(self) -> list[int]:
        order = super().order()
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(str(order))
        return order


@fails(LEFT)
class FileWhereItWasStarted(Honest):
    """Writes a log for each epoch where the program was started."""

    def order(self) -> list[int]:
        Path(f"broken-loader-{uuid.uuid4().hex}.log").touch()
        return super().order()


class Written(Honest):
    """Writes each batch to a temporary file and reads it from there."""

    def batch(self, places: list[int]) -> Batch:
        handle, name = tempfile.mkstemp()
        with os.fdopen(handle, "wb") as file:
            torch.save(super().batch(places), file)
        batch = torch.load(name)
        Path(name).unlink()
        return batch


@fails(AFTER_ERRORS, rows=["H15"])
class TemporaryFileAfterAnError(Written):
    """Removes the file unless something is wrong."""


@fails()
class TemporaryFileRemoved(Honest):
    """Removes the file even if something is wrong."""

    def batch(self, places: list[int]) -> Batch:
        with tempfile.NamedTemporaryFile() as file:
            torch.save(super().batch(places), file)
            file.flush()
            return torch.load(file.name)


@fails(AFTER_ERRORS)
class ThreadAfterAnError(Honest):
    """Each pass has a thread that is ended with it or when it is left, but not if something is wrong."""

    def __iter__(self) -> Iterator[Batch]:
        over = threading.Event()
        threading.Thread(target=over.wait, daemon=True).start()
        try:
            yield from super().__iter__()
        except GeneratorExit:
            over.set()
            raise
        over.set()
