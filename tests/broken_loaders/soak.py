"""Loaders whose faults show only in long tests; each lives in a process of its own."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from honest import NO_WORKERS, WITH_WORKERS, Honest, fails
from life import Forked
from torch import Tensor

from loaderproof.loaders import Adapter, Description, Loader, Request, Source

Batch = tuple[Tensor, Tensor]

GROWS = "test_nothing_grows_over_many_epochs"
KEPT = "test_kept_batches_hold_no_descriptors"
INHERITED = "test_workers_do_not_copy_what_they_inherit"
FULL = "test_full_shared_memory_is_reported"
VANISHED = "test_vanished_data_is_noticed"
KILLED_RUN = "test_killed_run_leaves_the_next_alone"
NAMES_PER_SAMPLE = 4


class EveryEighth(Honest):
    """Does something that it should not in every eighth epoch of a loader."""

    def order(self) -> list[int]:
        if self.epoch % 8 == 7:
            self.slip()
        return super().order()

    def slip(self) -> None:
        """Do it."""
        raise NotImplementedError


@fails(GROWS, rows=["H12"])
class KeepsALittle(EveryEighth):
    """Keeps some memory, far less than an epoch has."""

    kept: ClassVar[list[bytes]] = []

    def slip(self) -> None:
        self.kept.append(bytearray(os.urandom(2**20)))


@fails(GROWS, rows=["H3"])
class OpensALog(EveryEighth):
    """Opens a log and does not close it."""

    def slip(self) -> None:
        os.open(__file__, os.O_RDONLY)


@fails(GROWS, rows=["H4"])
class StartsAThread(EveryEighth):
    """Starts a thread that does not end."""

    def slip(self) -> None:
        threading.Thread(target=time.sleep, args=(3_600,), daemon=True).start()


@fails()
class MovesUpAndDown(EveryEighth):
    """Holds more memory in some epochs than in others."""

    held = b""

    def order(self) -> list[int]:
        self.held = bytes(int(np.random.default_rng(self.epoch).integers(2**22)))
        return Honest.order(self)


@fails(KEPT, rows=["H3"])
class DescriptorInEachBatch(Honest):
    """Holds a file open for as long as a batch lives."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        weakref.finalize(images, os.close, os.open(__file__, os.O_RDONLY))
        return images, labels


class Named(Forked):
    """Has names for each sample, and reads them in the workers."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        for number in range(NAMES_PER_SAMPLE):
            self.name(place * NAMES_PER_SAMPLE + number)
        return super().sample(place)

    def name(self, number: int) -> Any:
        """Return a name."""
        raise NotImplementedError


@fails(INHERITED, promises=WITH_WORKERS, rows=["H1"])
class NamesInAList(Named):
    """Keeps the names in a list of str."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.names = [f"a folder/a file {number:08d}.png" for number in range(NAMES_PER_SAMPLE * len(source))]

    def name(self, number: int) -> str:
        return self.names[number]


@fails(promises=WITH_WORKERS)
class NamesInAnArray(Named):
    """Keeps the names in an array."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        numbers = range(NAMES_PER_SAMPLE * len(source))
        self.names = np.array([f"a folder/a file {number:08d}.png" for number in numbers], "S28")

    def name(self, number: int) -> bytes:
        return bytes(self.names[number])


@fails(FULL, promises=WITH_WORKERS)
class CollatesInSharedMemory(Honest):
    """Collates each batch in shared memory, in the process of the consumer."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        room = shared_memory.SharedMemory(create=True, size=images.nbytes)
        try:
            lying = torch.frombuffer(room.buf, dtype=torch.float32, count=images.numel())
            copied = lying.copy_(images.reshape(-1)).clone().reshape(images.shape)
            del lying
        finally:
            room.close()
            room.unlink()
        return copied, labels


class Stored(Honest):
    """Reads each sample from a file of its own."""

    def __init__(self, directory: Path, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.directory = directory

    def sample(self, place: int) -> tuple[Tensor, int]:
        with np.load(self.directory / f"{place}.npz") as file:
            return self.image(file["image"]), int(file["label"])


class EndsWithItsData(Stored):
    """Takes a missing file for the end."""

    def __iter__(self) -> Iterator[Batch]:
        try:
            yield from super().__iter__()
        except FileNotFoundError:
            return


class Files(Adapter):
    """Writes each sample into a file of its own."""

    fails: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[tuple[str, ...]] = ()
    description = Description(name="soak:Files", promises=NO_WORKERS, on_disk="broken-soak-1")
    kind: ClassVar[type[Stored]] = Stored

    def prepare(self, source: Source, directory: Path) -> None:
        """Write them."""
        for place, (image, label) in enumerate(source):
            np.savez(directory / f"{place}.npz", image=image, label=label)

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return what reads them."""
        return self.kind(directory, source, request)


class VanishingFiles(Files):
    """Takes a missing file for the end of the data."""

    fails = (VANISHED,)
    description = Description(name="soak:VanishingFiles", promises=NO_WORKERS, on_disk="broken-soak-1")
    kind = EndsWithItsData


class OnlyOne(Honest):
    """Marks in shared memory that it is there, until it is closed or the program ends."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.mark = Path(f"/dev/shm/broken-loader-{self.name()}")  # noqa: S108  # that is the fault
        self.mark.touch(exist_ok=False)
        self.close = weakref.finalize(self, self.mark.unlink)

    def name(self) -> str:
        """Return a name for a loader that is asked for something."""
        return "-".join(map(str, (self.request.batch_size, self.request.seed, len(self.source))))


@fails(KILLED_RUN, rows=["H5"])
class MarkedByName(OnlyOne):
    """Takes the same name in every run."""
