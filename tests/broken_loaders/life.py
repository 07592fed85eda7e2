"""Loaders that do not stand what life does to them; each lives in a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from honest import WITH_WORKERS, Honest, fails
from torch import Tensor

from loaderproof.loaders import Request, Source

Batch = tuple[Tensor, Tensor]

PASSES = "test_passes_do_not_disturb_each_other"
LOADERS = "test_loaders_do_not_disturb_each_other"
AHEAD = "test_reading_ahead_is_bounded"
STORAGE = "test_batches_hold_no_more_than_they_show"
MEMORY = "test_memory_is_given_back"
KILLED = "test_killed_worker_is_noticed"
BUSY = "test_workers_start_beside_a_busy_thread"
SPAWNED = "test_workers_can_be_spawned"
END = "test_interpreter_can_end_in_mid_epoch"
CLOSING = "test_closing_raises_nothing"
FORK = multiprocessing.get_context("fork")
POLL_S = 0.02


@fails(PASSES, rows=["H13"])
class OneCursor(Honest):
    """Keeps the position of an epoch in the loader, and sets it back for each."""

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        self.left = self.batches(self.order())
        while self.left:
            yield self.batch(self.left.pop(0))


@fails(PASSES, rows=["H13"])
class LockedWhileRead(Honest):
    """Holds a lock for as long as an epoch is read, so that a second one waits for ever."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.lock = threading.Lock()

    def __iter__(self) -> Iterator[Batch]:
        with self.lock:
            yield from super().__iter__()


@fails()
class OnePassAtATime(Honest):
    """Refuses a second pass with an exception."""

    busy = False

    def __iter__(self) -> Iterator[Batch]:
        if self.busy:
            raise RuntimeError("end the epoch that is being read before another")
        self.busy = True
        try:
            yield from super().__iter__()
        finally:
            self.busy = False


class OrderInAFile(Honest):
    """Writes the order of an epoch to a file and reads it from there."""

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        path = self.path()
        path.write_text(json.dumps(self.batches(self.order())))
        number = 0
        try:
            while number < len(places := json.loads(path.read_text())):
                yield self.batch(places[number])
                number += 1
        finally:
            path.unlink()

    def path(self) -> Path:
        """Return where to write it."""
        raise NotImplementedError


@fails(LOADERS)
class OneFileForAll(OrderInAFile):
    """Takes the same file for every loader, and therefore does not remove it."""

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        path = Path(tempfile.gettempdir()) / "broken-loader-order"
        path.write_text(json.dumps(self.batches(self.order())))
        for number in range(len(self.batches(list(range(len(self.source)))))):
            yield self.batch(json.loads(path.read_text())[number])


@fails()
class FileForEachEpoch(OrderInAFile):
    """Takes a new file for each epoch, and removes it."""

    def path(self) -> Path:
        handle, name = tempfile.mkstemp()
        os.close(handle)
        return Path(name)


class Ahead(Honest):
    """Reads ahead in a thread, as much as a queue takes."""

    size = 0
    daemon = True

    def __iter__(self) -> Iterator[Batch]:
        ready: queue.Queue[Any] = queue.Queue(self.size)
        left = threading.Event()
        thread = threading.Thread(target=self.load, args=(ready, left), daemon=self.daemon)
        thread.start()
        try:
            while (came := ready.get()) is not None:
                if isinstance(came, Exception):
                    raise came
                yield came
        finally:
            left.set()
            thread.join()

    def load(self, ready: queue.Queue[Any], left: threading.Event) -> None:
        """Load an epoch."""
        try:
            for batch in super().__iter__():
                self.put(batch, ready, left)
                if left.is_set():
                    return
        except Exception as error:  # noqa: BLE001  # it is raised again where the batches are taken
            self.put(error, ready, left)
        self.put(None, ready, left)

    def put(self, item: Any, ready: queue.Queue[Any], left: threading.Event) -> None:
        """Put something into the queue as soon as there is room, unless the epoch is left."""
        while not left.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=POLL_S)
                return


@fails(AHEAD, read_ahead=2)
class AheadWithoutBound(Ahead):
    """Reads ahead without bound, and says two batches."""


@fails(read_ahead=2)
class TwoAhead(Ahead):
    """Reads two batches ahead, as it says."""

    size = 2


@fails(END, rows=["H8"])
class ThreadWaitsAtTheEnd(Ahead):
    """Reads ahead in a thread that the interpreter waits for, while it waits for its consumer."""

    size = 2
    daemon = False


class SlicesOf(Honest):
    """Collates several batches at once, and hands out slices."""

    at_once = 1_000

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        batches = self.batches(self.order())
        for first in range(0, len(batches), self.at_once):
            some = batches[first : first + self.at_once]
            sizes = [len(places) for places in some]
            images, labels = self.batch(list(itertools.chain(*some)))
            yield from zip(images.split(sizes), labels.split(sizes), strict=True)


@fails(STORAGE, rows=["G7"])
class SlicesOfAnEpoch(SlicesOf):
    """Collates a whole epoch at once."""


@fails()
class SlicesOfThree(SlicesOf):
    """Collates three batches at once."""

    at_once = 3


@fails(MEMORY, rows=["H12"])
class KeepsEveryBatch(Honest):
    """Puts every batch into a list that lives as long as the program."""

    kept: ClassVar[list[Tensor]] = []

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        self.kept.append(images.clone())
        return images, labels


@fails()
class KeepsEverySampleOnce(Honest):
    """Puts every sample into a cache when it is first read, and hands out copies."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.cache: dict[int, tuple[Tensor, int]] = {}

    def sample(self, place: int) -> tuple[Tensor, int]:
        if place not in self.cache:
            self.cache[place] = super().sample(place)
        return self.cache[place]


@fails()
class MapsAFile(Honest):
    """Reads samples out of a file that is mapped into memory, which looks like memory of its own."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.images: np.ndarray | None = None

    def sample(self, place: int) -> tuple[Tensor, int]:
        pixels, label = self.source[place]
        return self.image(np.array(self.mapped()[place]).reshape(pixels.shape)), label

    def mapped(self) -> np.ndarray:
        """Return the samples in a file; it is written when it is first needed."""
        if self.images is None:
            with tempfile.NamedTemporaryFile() as file:
                np.save(file, self.source.arrays()[0])
                file.flush()
                self.images = np.load(file.name, mmap_mode="r")
        return self.images


class Forked(Honest):
    """Reads in processes that it forks, each every n-th batch."""

    def __iter__(self) -> Iterator[Batch]:
        if not self.request.num_workers:
            yield from super().__iter__()
            return
        self.epoch += 1
        batches = self.batches(self.order())
        workers = [
            self.start(batches[k :: self.request.num_workers]) for k in range(self.request.num_workers)
        ]
        try:
            for number in range(len(batches)):
                came = self.receive(*workers[number % len(workers)])
                if came is None:
                    return
                if isinstance(came, Exception):
                    raise came
                yield tuple(map(torch.from_numpy, came))  # type: ignore[misc]
        finally:
            for process, ours, theirs in workers:
                process.kill()
                process.join()
                ours.close()
                theirs.close()

    def start(self, batches: list[list[int]]) -> tuple[Any, Connection, Connection]:
        """Start a worker for some batches."""
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = FORK.Process(target=self.serve, args=(batches, ours, theirs), daemon=True)
        process.start()
        return process, ours, theirs

    def serve(self, batches: list[list[int]], ours: Connection, theirs: Connection) -> None:
        """Send some batches, for as long as there is anybody who takes them."""
        ours.close()  # else this process could take what it sends, and would not notice that its parent died
        with contextlib.suppress(BrokenPipeError):
            self.work(batches, theirs)

    def work(self, batches: list[list[int]], connection: Connection) -> None:
        """Send some batches."""
        try:
            for places in batches:
                connection.send(tuple(part.numpy() for part in self.batch(places)))
        except Exception as error:  # noqa: BLE001  # it is raised again where the batches are taken
            connection.send(error)

    def receive(self, process: Any, connection: Connection, _theirs: Connection) -> Any:
        """Return what comes from a worker."""
        while not connection.poll(POLL_S):
            if not process.is_alive() and not connection.poll():
                return self.mourn(process.exitcode)
        return connection.recv()

    def mourn(self, code: int) -> Any:
        """Return what to do about a worker that ended with an exit code, before it sent everything."""
        raise RuntimeError(f"a worker ended with exit code {code}")


@fails(promises=WITH_WORKERS)
class NoticesDeaths(Forked):
    """Looks whether its workers live."""


@fails(KILLED, promises=WITH_WORKERS, rows=["H6"])
class WaitsForTheDead(Forked):
    """Waits for what a worker sends, whether it lives or not."""

    def receive(self, _process: Any, connection: Connection, _theirs: Connection) -> Any:
        return connection.recv()


@fails(KILLED, promises=WITH_WORKERS, rows=["H6"])
class DeathIsTheEnd(Forked):
    """Takes the end of a worker for the end of the data."""

    def mourn(self, _code: int) -> Any:
        return None


class SlowLog(logging.Handler):
    """Writes to a slow disk, under a lock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.own = threading.Lock()
        self.parent = os.getpid()

    def emit(self, _record: logging.LogRecord) -> None:
        with self.own:
            # Where workers are started, so that hardly any moment is left at which nobody holds it.
            time.sleep(1 if os.getpid() == self.parent else 10 * POLL_S)


class Logging(Forked):
    """Logs in the workers, too."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.log = SlowLog()
        logging.getLogger().addHandler(self.log)

    def work(self, batches: list[list[int]], connection: Connection) -> None:
        logging.getLogger().warning("a worker begins")
        super().work(batches, connection)

    def close(self) -> None:
        """Stop logging."""
        logging.getLogger().removeHandler(self.log)


@fails(BUSY, promises=WITH_WORKERS, rows=["H7"])
class LogsUnderAnInheritedLock(Logging):
    """Inherits the lock of the log as it is, held by a thread that workers do not have."""


@fails(promises=WITH_WORKERS)
class LogsUnderALockOfItsOwn(Logging):
    """Makes the lock of the log anew in each worker."""

    def work(self, batches: list[list[int]], connection: Connection) -> None:
        self.log.own = threading.Lock()
        super().work(batches, connection)


OPENED: dict[int, Forked] = {}


def work_of(key: int, batches: list[list[int]], connection: Connection) -> None:
    """Send some batches of a loader that is found in the memory of this process."""
    if key in OPENED:
        Forked.work(OPENED[key], batches, connection)


@fails(SPAWNED, promises=WITH_WORKERS)
class FoundInInheritedMemory(Forked):
    """Has workers that find the loader in a variable of the module, which only forked ones inherit."""

    def start(self, batches: list[list[int]]) -> tuple[Any, Connection, Connection]:
        OPENED[id(self)] = self
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=work_of, args=(id(self), batches, theirs), daemon=True)
        process.start()
        return process, ours, theirs

    def mourn(self, code: int) -> Any:
        return super().mourn(code) if code else None

    def close(self) -> None:
        """Let go of the loader."""
        OPENED.pop(id(self), None)


@fails(promises=WITH_WORKERS)
class CannotBePickled(Forked):
    """Hands itself to its workers, which only forked ones can take."""

    def start(self, batches: list[list[int]]) -> tuple[Any, Connection, Connection]:
        self.lock = threading.Lock()
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=self.work, args=(batches, theirs), daemon=True)
        process.start()
        return process, ours, theirs


@fails(END)
class FailsAtTheEnd(Honest):
    """Has a library that ends the program in a way of its own."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        atexit.register(os._exit, 3)


class Served(Honest):
    """Has a process at its side that it ends when it is closed."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.server = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL
        )

    def close(self) -> None:
        """End the process."""
        self.server.kill()
        self.server.wait()


@fails(END, rows=["H8"])
class ServerOutlivesIt(Served):
    """Forgets the process if nobody closes it."""


@fails()
class ServerEndsWithIt(Served):
    """Ends the process at the end of the program, too."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        weakref.finalize(self, self.server.kill)


@fails(CLOSING)
class CannotBeClosedInMidEpoch(Honest):
    """Counts the batches that it owes, and refuses to be closed before all came."""

    owed = 0

    def __iter__(self) -> Iterator[Batch]:
        self.owed = len(self)
        for batch in super().__iter__():
            self.owed -= 1
            yield batch

    def close(self) -> None:
        """Look whether all came."""
        if self.owed:
            raise RuntimeError(f"{self.owed} batches were not taken")


@fails(END, rows=["H5"])
class SharedMemoryOutlivesIt(Honest):
    """Has room in shared memory, which is given back when the loader is closed, and only then."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.room = Path(f"/dev/shm/broken-loader-{uuid.uuid4().hex}")  # noqa: S108  # that is the fault
        self.room.write_bytes(b"room")

    def close(self) -> None:
        """Give it back."""
        self.room.unlink()
