"""Collapsed stacks as py-spy writes them, read: which process and thread, and its functions."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path


class Role(StrEnum):
    """What a thread is in a loader."""

    MAIN = "main thread"
    PIN = "pin thread"
    THREAD = "other threads"
    WORKER = "workers"
    WORKER_THREAD = "threads of workers"


@dataclass(frozen=True)
class Frame:
    """A function that was running, and where in it.

    Attributes:
        function: its name, with the class if py-spy knows it.
        file: whole path.
        line: the line that was running; 0 if it is not known.
    """

    function: str
    file: str
    line: int

    @property
    def library(self) -> bool:
        """Whether it is of Python's own library."""
        return self.file.startswith("<") or (
            self.file.startswith(_STANDARD) and "site-packages" not in self.file
        )

    @property
    def place(self) -> str:
        """File and line for a person."""
        return f"{short(self.file)}:{self.line}"


@dataclass(frozen=True)
class Stack:
    """What one thread was doing, and in how many samples.

    Attributes:
        role: of the thread.
        process: number of its process.
        frames: the outermost first, without those that only start a thread or a process.
        count: samples.
    """

    role: Role
    process: int
    frames: tuple[Frame, ...]
    count: int


_STANDARD = sysconfig.get_path("stdlib")
_LINE = re.compile(
    # A command line may hold anything.
    r'(?P<processes>(?:process \d+:".*?";)+)thread \((?P<thread>[^)]*)\)(?:: (?P<name>[^;]*))?'
    r";(?P<frames>.+) (?P<count>\d+)"
)
_PROCESS = re.compile(r'process (\d+):".*?";')
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)")
# What a thread or a process was started with; what matters comes after the last of them.
_BEGINNINGS = (
    ("multiprocessing/process.py", "BaseProcess._bootstrap"),
    ("threading.py", "Thread._bootstrap_inner"),
    ("model/training.py", "Trainer.train_epoch"),
)
_PINNING = "_pin_memory_loop"
# They hand on requests, and load nothing.
_HELPERS = ("multiprocessing/resource_tracker.py", "multiprocessing/forkserver.py")


def stacks(raw: str, pid: int) -> list[Stack]:
    """Return what was recorded; lines that are no stacks are left out, and so are Python's own helper processes.

    Args:
        raw: collapsed stacks of `py-spy record --format raw --threads --subprocesses --full-filenames`.
        pid: number of the loader's own process.
    """
    return list(_stacks(raw, pid))


def _stacks(raw: str, pid: int) -> Iterator[Stack]:
    for line in raw.splitlines():
        found = _LINE.fullmatch(line)
        # py-spy names processes even where it recorded only one.
        if not found:
            continue
        frames = tuple(_frame(text) for text in found["frames"].split(";"))
        process = int(_PROCESS.findall(found["processes"])[-1])
        rest = _after_beginning(frames)
        if rest is frames and process != pid and any(one.file.endswith(_HELPERS) for one in frames):
            continue
        main = found["thread"] == str(process) or found["name"] == "MainThread"
        yield Stack(_role(rest, main=main, own=process == pid), process, rest, int(found["count"]))


@cache
def _frame(text: str) -> Frame:
    found = _FRAME.fullmatch(text)
    return Frame(found["function"], found["file"], int(found["line"] or 0)) if found else Frame(text, "", 0)


def _after_beginning(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    for place in range(len(frames) - 2, -1, -1):
        one = frames[place]
        if any(one.file.endswith(file) and one.function.endswith(name) for file, name in _BEGINNINGS):
            return frames[place + 1 :]
    return frames


def _role(frames: tuple[Frame, ...], *, main: bool, own: bool) -> Role:
    if not own:
        return Role.WORKER if main else Role.WORKER_THREAD
    if any(frame.function == _PINNING for frame in frames):
        return Role.PIN
    return Role.MAIN if main else Role.THREAD


@cache
def short(file: str) -> str:
    """Return a path as a person reads it: from here, from its package's folder on, or whole."""
    here = Path.cwd()
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(here) and "site-packages" not in file:
        return str(path.relative_to(here))
    return re.sub(rf"^.*?/(?:site|dist)-packages/|^{re.escape(_STANDARD)}/", "", file)
