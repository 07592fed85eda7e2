"""Right loaders of the most various makes, which no test may refuse."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from honest import NO_WORKERS, WITH_WORKERS, Honest, Samples, fails
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from loaderproof.loaders import Adapter, Description, Loader, Promise, Request, Source

Batch = tuple[Tensor, Tensor]
DRAWS_A_SEED = {Promise.PRIVATE_RANDOMNESS}  # a DataLoader without a generator takes one from torch's


class Planned(Honest):
    """Plans an epoch as a list of batches, and reads them in a way of its own."""

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        return self.read(self.batches(self.order()))

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        """Yield the batches of a plan."""
        raise NotImplementedError


class Shares(IterableDataset):
    """Yields whole batches; each worker has its share of them, in turn."""

    def __init__(self, loader: Honest, plan: list[list[int]]) -> None:
        self.loader, self.plan = loader, plan

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        mine = self.plan[worker.id :: worker.num_workers] if worker else self.plan
        for places in mine:
            yield self.loader.batch(places)


@fails(promises=WITH_WORKERS)
class IterableShards(Planned):
    """Is an iterable data set whose workers ask which they are."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        workers = self.request.num_workers
        shares = Shares(self, plan)
        return iter(DataLoader(shares, batch_size=None, num_workers=workers, generator=torch.Generator()))


@fails(promises=WITH_WORKERS - DRAWS_A_SEED)
class BatchSampled(Planned):
    """Gives a DataLoader the places of each batch."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        workers = self.request.num_workers
        return iter(DataLoader(Samples(self), batch_sampler=plan, num_workers=workers))  # type: ignore[arg-type]


@fails()
class BoundedQueue(Planned):
    """Prefetches in a thread through a queue of two, which is told when nobody takes from it any more."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        ready: queue.Queue[Any] = queue.Queue(2)
        left = threading.Event()
        thread = threading.Thread(target=self.fill, args=(ready, left, plan), daemon=True)
        thread.start()
        try:
            while (came := ready.get()) is not None:
                if isinstance(came, BaseException):
                    raise came
                yield came
        finally:
            left.set()
            with suppress(queue.Empty):
                while True:
                    ready.get_nowait()
            thread.join()

    def fill(self, ready: queue.Queue[Any], left: threading.Event, plan: list[list[int]]) -> None:
        """Put every batch into the queue, then the end or the error."""
        end: BaseException | None = None
        try:
            for places in plan:
                if not self.put(self.batch(places), ready, left):
                    return
        except BaseException as error:  # noqa: BLE001  # it is raised again where the batches are taken
            end = RuntimeError(str(error)) if isinstance(error, StopIteration) else error
        self.put(end, ready, left)

    def put(self, one: Any, ready: queue.Queue[Any], left: threading.Event) -> bool:
        """Wait for room; return whether anybody still wants it."""
        while not left.is_set():
            with suppress(queue.Full):
                ready.put(one, timeout=0.05)
                return True
        return False


class Cursor:
    """One pass, as a class with a method for each step, without a generator."""

    def __init__(self, loader: Planned, plan: list[list[int]]) -> None:
        self.loader, self.plan, self.place = loader, plan, 0

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Batch:
        if self.place == len(self.plan):
            raise StopIteration
        self.place += 1
        try:
            return self.loader.batch(self.plan[self.place - 1])
        except StopIteration as error:  # else it would be this iterator's end
            raise RuntimeError(str(error)) from error


@fails()
class ClassIterator(Planned):
    """Hands out an iterator that is a class."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        return Cursor(self, plan)


@fails()
class AsyncReads(Planned):
    """Reads the samples of a batch side by side in an event loop."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        with asyncio.Runner() as runner:
            for places in plan:
                images, labels = zip(*runner.run(self.gather(places)), strict=True)
                yield torch.stack(images), torch.tensor(labels)

    async def gather(self, places: list[int]) -> list[tuple[Tensor, int]]:
        """Read some samples."""
        return await asyncio.gather(*map(self.one, places))

    async def one(self, place: int) -> tuple[Tensor, int]:
        """Read one sample when it is its turn."""
        await asyncio.sleep(0)
        try:
            return self.sample(place)
        except StopIteration as error:  # no coroutine may raise one
            raise RuntimeError(str(error)) from error


class Pooled(Planned):
    """Has a pool read batches, twice as many at a time as it has workers."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        if self.request.num_workers == 0:
            yield from map(self.arranged, plan)
            return
        with self.pool(self.request.num_workers) as pool:
            coming = iter(plan)
            ahead = deque(pool.submit(self.arranged, one) for one in itertools.islice(coming, 4))
            try:
                while ahead:
                    yield ahead.popleft().result()
                    ahead += [pool.submit(self.arranged, one) for one in itertools.islice(coming, 1)]
            finally:
                pool.shutdown(cancel_futures=True)

    def pool(self, workers: int) -> Executor:
        """Return a pool of so many workers."""
        raise NotImplementedError

    def arranged(self, places: list[int]) -> Batch:
        """Read one batch, in a worker."""
        try:
            return self.batch(places)
        except StopIteration as error:
            raise RuntimeError(str(error)) from error


@fails(promises=WITH_WORKERS)
class ThreadPool(Pooled):
    """Has threads of a pool read batches."""

    def pool(self, workers: int) -> Executor:
        return ThreadPoolExecutor(workers)


_READING: dict[str, Pooled] = {}  # in a worker: whose batches it reads


def _begin(loader: Pooled) -> None:
    _READING["loader"] = loader


def _arrange(places: list[int]) -> tuple[np.ndarray, np.ndarray]:
    images, labels = _READING["loader"].arranged(places)
    return images.numpy(), labels.numpy()


@fails(promises=WITH_WORKERS)
class ProcessPool(Pooled):
    """Has processes of a pool read batches, which come back as arrays."""

    def read(self, plan: list[list[int]]) -> Iterator[Batch]:
        if self.request.num_workers == 0:
            yield from map(self.arranged, plan)
            return
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(self.request.num_workers, context, _begin, (self,)) as pool:
            try:
                for images, labels in pool.map(_arrange, plan):
                    yield torch.from_numpy(images), torch.from_numpy(labels)
            finally:
                pool.shutdown(cancel_futures=True)


class Views(Honest):
    """Hands out tensors whose values do not lie in order."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        lying = images.permute(3, 2, 0, 1).contiguous().permute(2, 3, 1, 0)
        return lying, torch.stack([labels, labels]).T.contiguous()[:, 0]


@fails()
class OutOfOrderInMemory(Views):
    """Hands out images whose columns lie together, and labels with a gap between them."""


class Picture(Tensor):
    """A tensor with a name of its own."""


@fails()
class Subclassed(Honest):
    """Hands out images and labels as a subclass of Tensor."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        return images.as_subclass(Picture), labels.as_subclass(Picture)


class Pinnable(tuple):
    """A batch that knows how to move itself into memory of another kind."""

    __slots__ = ()

    def pin_memory(self) -> Pinnable:
        """Return a copy of each part."""
        return Pinnable(part.clone() for part in self)


def _collate(samples: list[tuple[Tensor, int]]) -> Pinnable:
    images, labels = zip(*samples, strict=True)
    return Pinnable((torch.stack(images), torch.tensor(labels)))


@fails(promises=WITH_WORKERS)
def custom_collate(source: Source, request: Request) -> Loader:
    """Collates into a batch of a class of its own, which a tuple is the base of."""
    return DataLoader(
        Samples(Honest(source, request)),  # type: ignore[arg-type]
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        drop_last=request.drop_last,
        num_workers=request.num_workers,
        collate_fn=_collate,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator().manual_seed(request.seed),
    )


@fails(promises=NO_WORKERS - {Promise.LENGTH})
class ListsOfViews(Honest):
    """Hands out lists, cut out of larger reads that nobody else sees."""

    __len__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        for images, labels in super().__iter__():
            yield [images[:], labels[:]]


def right(make: type[Adapter]) -> Adapter:
    """Make an adapter of a format on disk that fails no test."""
    made = make()
    made.fails, made.rows = (), ()  # type: ignore[attr-defined]
    return made


@right
class RawFile(Adapter):
    """Maps one file of bytes, and copies each batch out of it."""

    description = Description(name="honest_more:RawFile", promises=NO_WORKERS, on_disk="raw-file-1")

    def prepare(self, source: Source, directory: Path) -> None:
        images, labels = source.arrays()
        images.tofile(directory / "images.bin")
        labels.tofile(directory / "labels.bin")

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        return Mapped(source, request, directory)


class Mapped(Honest):
    """Reads from files that are mapped for one epoch at a time."""

    def __init__(self, source: Source, request: Request, directory: Path) -> None:
        super().__init__(source, request)
        self.directory, self.shape = directory, (len(source), *source.image_shape)

    def __iter__(self) -> Iterator[Batch]:
        images = np.memmap(self.directory / "images.bin", np.uint8, "r", shape=self.shape)
        labels = np.memmap(self.directory / "labels.bin", np.int64, "r")
        self.epoch += 1
        for places in self.batches(self.order()):
            chosen = torch.from_numpy(images[places]).permute(0, 3, 1, 2) / 255
            yield chosen, torch.from_numpy(labels[places])


@right
class Database(Adapter):
    """Keeps samples in a data base, and asks it for each batch."""

    description = Description(name="honest_more:Database", promises=NO_WORKERS, on_disk="database-1")

    def prepare(self, source: Source, directory: Path) -> None:
        rows = ((place, image.tobytes(), label) for place, (image, label) in enumerate(source))
        with closing(sqlite3.connect(directory / "samples.db")) as base, base:
            base.execute("create table samples (place integer primary key, image blob, label integer)")
            base.executemany("insert into samples values (?, ?, ?)", rows)

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        return Queried(source, request, directory)


class Queried(Honest):
    """Has a connection to a data base for as long as an epoch lasts."""

    def __init__(self, source: Source, request: Request, directory: Path) -> None:
        super().__init__(source, request)
        self.path = directory / "samples.db"

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as base:
            for places in self.batches(self.order()):
                yield self.asked(base, places)

    def asked(self, base: sqlite3.Connection, places: list[int]) -> Batch:
        """Ask for the samples of a batch."""
        rows = [
            base.execute("select image, label from samples where place = ?", (one,)).fetchone()
            for one in places
        ]
        images = np.stack(
            [np.frombuffer(image, np.uint8).reshape(self.source.image_shape) for image, _ in rows]
        )
        labels = torch.tensor([label for _, label in rows])
        return torch.from_numpy(images).permute(0, 3, 1, 2) / 255, labels
