"""A loader that does, in the first batch, what the option `act` says; right in all else."""

from __future__ import annotations

import ctypes
import multiprocessing.shared_memory
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.multiprocessing
from torch import Tensor
from torch.utils.data import DataLoader

from loaderproof.loaders import Adapter, Description, Loader, Request, Source, Variant
from loaderproof.loaders.function import adapter

FOREVER_S = 600


@adapter(promises=[])
def loader(source: Source, request: Request) -> Loader:
    """Return a loader of one batch."""
    return Misbehaving(source, request)


class Misbehaving:
    """Acts, then delivers everything at once."""

    def __init__(self, source: Source, request: Request) -> None:
        self.source, self.options = source, request.options

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        ACTS[str(self.options.get("act", "nothing"))](Path(str(self.options.get("note"))))
        images = torch.stack([torch.from_numpy(image).permute(2, 0, 1) for image, _ in self.source])
        yield images / 255, torch.tensor([label for _, label in self.source])


@adapter(promises=[])
def stuck(source: Source, request: Request) -> Loader:
    """Return a loader that acts as the environment says."""
    return Misbehaving(source, replace(request, options={name: os.environ[name] for name in ("act", "note")}))


class Unsendable(Adapter):
    """Is described by something that cannot be pickled."""

    description = Description(name="unsendable", variants={"": Variant(options={"key": lambda: None})})

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Open nothing."""
        raise NotImplementedError


class DiskGone(OSError):
    """The error behind another."""


class Nowhere:
    """A data set that nobody ever reads from."""

    def __init__(self, note: Path) -> None:
        self.note = note

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> NoReturn:
        self.wait_in_worker()

    def wait_in_worker(self) -> NoReturn:
        """Say where, and stay."""
        write_pid(self.note)
        time.sleep(FOREVER_S)
        raise AssertionError


def nothing(note: Path) -> None:
    """Behave."""


def read_nowhere(note: Path) -> None:
    """Read memory that is not there."""
    ctypes.string_at(0)


def be_killed(note: Path) -> None:
    """Do what the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def exit_at_once(note: Path) -> None:
    """Say so, and end without a word to Python."""
    os.write(2, b"giving up\n")
    os._exit(3)


def exit_and_leave_a_child(note: Path) -> None:
    """End, while a forked child holds all files open."""
    if os.fork() == 0:
        time.sleep(FOREVER_S)
    os._exit(3)


def close_all_files(note: Path) -> None:
    """Close what belongs to others, too."""
    os.closerange(3, 256)
    time.sleep(FOREVER_S)


def wait_in_python(note: Path) -> None:
    """Wait for a batch that nobody makes, and so does another thread."""
    threading.Thread(target=wait_in_thread, daemon=True).start()
    queue.Queue[None]().get()


def wait_in_thread() -> None:
    """Wait for nobody."""
    threading.Event().wait()


def wait_with_the_lock(note: Path) -> None:
    """Wait in C, with the interpreter's lock in hand."""
    mutex, held = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    write_pid(note)
    held.pthread_mutex_lock(mutex)
    held.pthread_mutex_lock(mutex)


def wait_for_workers(note: Path) -> None:
    """Wait for workers that wait themselves."""
    waiting: Any = Nowhere(note)
    next(iter(DataLoader(waiting, num_workers=2)))


def wait_with_shared_memory(note: Path) -> None:
    """Have shared memory of Python's and of torch's, and never give it back."""
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=64)
    torch.multiprocessing.set_sharing_strategy("file_system")
    torch.zeros(64).share_memory_()
    note.write_text(f"{block.name} torch_{os.getpid()}_")
    wait_for_workers(note.with_name("workers"))


def flood(note: Path) -> None:
    """Print a gigabyte, and write down how many MiB of it."""
    for number in range(1024):
        os.write(1, b"what a flood\n" * 80_660)
        write(note, number)


def leave_a_daemon(note: Path) -> None:
    """Start a process that leaves the session and loses its parent."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            write_pid(note)
            time.sleep(FOREVER_S)
        os._exit(0)
    os.wait()
    while not note.exists():
        time.sleep(0.01)


def raise_with_a_cause(note: Path) -> None:
    """Raise what has a cause."""
    raise LookupError("no sample 3") from DiskGone("the disk is gone")


def exit_politely(note: Path) -> None:
    """Ask Python to end."""
    sys.exit("no more memory")


def interrupt(note: Path) -> None:
    """Do as if a person had interrupted."""
    raise KeyboardInterrupt


def write_pid(note: Path) -> None:
    """Write down which process this is."""
    write(note, os.getpid())


def write(note: Path, number: int) -> None:
    """Write a number at once and whole, whoever kills this process."""
    draft = note.with_name(f"{note.name}.{os.getpid()}")
    draft.write_text(str(number))
    draft.rename(note)


ACTS: dict[str, Callable[[Path], None]] = {
    act.__name__: act
    for act in (
        be_killed,
        close_all_files,
        exit_and_leave_a_child,
        exit_at_once,
        exit_politely,
        flood,
        interrupt,
        leave_a_daemon,
        nothing,
        raise_with_a_cause,
        read_nowhere,
        wait_for_workers,
        wait_in_python,
        wait_with_shared_memory,
        wait_with_the_lock,
        write_pid,
    )
}
