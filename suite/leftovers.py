"""What a piece of work leaves behind: processes, threads, file descriptors, files, shared memory."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from loaderproof.suite import family

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own place for it
_GRACE_S = 3.0
_POLL_S = 0.05
# Seconds that things have to go away while it is found out whose they are.
_PAUSE_S = 0.3
# If others leave something in a share p of all such times, they do so in all of 12 with work and in at
# most 2 of 12 without with a probability that is largest for p = 0.58, 6e-6; and that only where they
# had done so before.
_WINDOWS, _BY_OTHERS = 12, 2
# Python keeps one helper process for its shared memory and semaphores until the interpreter ends.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "torch_shm_manager")


@dataclass
class Holdings:
    """What this process holds at one moment; files and shared memory may be other programs'."""

    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    native_threads: int = 0
    descriptors: int = 0
    shared_memory: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    @classmethod
    def now(cls) -> Holdings:
        """Look at this process and at those that it started, and they."""
        gc.collect()
        me = psutil.Process()
        return cls(
            workers(),
            {thread.ident or 0: thread.name for thread in threading.enumerate()},
            me.num_threads(),
            me.num_fds(),
            shared_memory(),
            _files(),
        )


def of(work: Callable[[], object], cycles: int = 3) -> list[str]:
    """Return what `work` leaves behind, each time that it is done, as sentences.

    The first time warms up: pools that a library starts once and keeps are its own affair. What
    grows with every further time is left behind. Processes and shared memory must be gone even
    after the first. Things are given a few seconds to go away.
    """
    before = Holdings.now()
    work()
    warm = _settled(before)
    for _ in range(cycles):
        work()
    after = _settled(warm)
    shared = _memory(before, after) + _new_files(warm, after, cycles)
    return _processes(before, after) + _each_time(warm, after, cycles) + (shared if _by(work, shared) else [])


def workers() -> dict[int, str]:
    """Return the commands of the processes that this one started, and they, but for helpers, by pid."""
    return {one.pid: command(one) for one in family.relatives() if not is_helper(one)}


def _settled(target: Holdings) -> Holdings:
    """Wait until no more is held than at an earlier moment, or until patience ends."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        now = Holdings.now()
        if not (_processes(target, now) + _memory(target, now) + _each_time(target, now, 1)):
            return now
        if time.monotonic() > deadline:
            return now
        time.sleep(_POLL_S)


def _processes(before: Holdings, after: Holdings) -> list[str]:
    more = [f"{pid} ({after.processes[pid]})" for pid in after.processes.keys() - before.processes.keys()]
    return [f"{len(more)} processes that still run: {', '.join(more[:3])}"] if more else []


def _memory(before: Holdings, after: Holdings) -> list[str]:
    more = ownerless(after.shared_memory - before.shared_memory)
    return [f"{len(more)} entries in {_SHARED_MEMORY}: {', '.join(more[:3])}"] if more else []


def _new_files(warm: Holdings, after: Holdings, cycles: int) -> list[str]:
    more = sorted(after.files - warm.files)
    if len(more) < cycles:
        return []
    return [f"{len(more)} files that {cycles} further rounds left: {', '.join(more[:3])}"]


def _by(work: Callable[[], object], suspected: list[str]) -> bool:
    """Tell whether files or shared memory are left whenever the work is done, and hardly ever when it is not.

    They do not tell who made them, and other programs leave theirs in the same places.
    """
    if not suspected:
        return False
    seen, left, by_others = _in_common_places(), [], 0
    for _ in range(_WINDOWS):
        start = time.monotonic()
        work()
        time.sleep(_PAUSE_S)
        left.append(_in_common_places() - seen)
        time.sleep(time.monotonic() - start)
        seen |= left[-1]
        more = _in_common_places() - seen
        by_others += bool(more & _unused())
        seen |= more
        if not left[-1] or by_others > _BY_OTHERS:
            return False
    # What is gone by now, or in use by others, is nobody's leftover.
    unused = _unused()
    return all(some & unused for some in left)


def _unused() -> frozenset[str]:
    return _files() | frozenset(ownerless(shared_memory()))


def _in_common_places() -> frozenset[str]:
    gc.collect()
    return shared_memory() | _files()


def _each_time(warm: Holdings, after: Holdings, cycles: int) -> list[str]:
    names = [after.threads[ident] for ident in after.threads.keys() - warm.threads.keys()]
    growth = {
        f"threads ({', '.join(names[:3])})": len(after.threads) - len(warm.threads),
        "threads outside of Python": (after.native_threads - len(after.threads))
        - (warm.native_threads - len(warm.threads)),
        "file descriptors": after.descriptors - warm.descriptors,
    }
    return [
        f"{count} more {what} at the end of {cycles} further rounds than before them"
        for what, count in growth.items()
        if count >= cycles
    ]


def shared_memory() -> frozenset[str]:
    """Return the entries in shared memory that belong to this user."""
    return (
        frozenset(entry.name for entry in _SHARED_MEMORY.iterdir() if _is_mine(entry))
        if _SHARED_MEMORY.is_dir()
        else frozenset()
    )


def _is_mine(entry: Path) -> bool:
    with contextlib.suppress(OSError):
        return entry.stat().st_uid == os.getuid()
    return False


def _files() -> frozenset[str]:
    """Return the files in the working directory, and in the temporary one if that is this loader's alone."""
    here = [entry.name for entry in Path.cwd().iterdir()]
    own = os.walk(tempfile.gettempdir()) if family.MARK in os.environ else ()
    return frozenset(here + [f"{folder}/{name}" for folder, _, names in own for name in names])


def ownerless(names: frozenset[str]) -> list[str]:
    """Return those entries in shared memory that no process outside of this family uses."""
    if not names:
        return []
    ours = {os.getpid(), *(one.pid for one in family.relatives())}
    elsewhere = "\n".join(_opened(pid) for pid in psutil.pids() if pid not in ours)
    return sorted(name for name in names if f"{_SHARED_MEMORY}/{name}" not in elsewhere)


def _opened(pid: int) -> str:
    """Return the names of all files that a process has mapped or open, as far as we may see them."""
    process = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        opened = [str(link.readlink()) for link in (process / "fd").iterdir()]
        return "\n".join([(process / "maps").read_text(), *opened])
    return ""


def command(process: psutil.Process) -> str:
    """Return the beginning of the command line of a process."""
    return _command_line(process)[:80]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return "ended"


def is_helper(process: psutil.Process) -> bool:
    """Tell whether a process is one that libraries start once, or one that has ended already."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or any(
            one in _command_line(process) for one in _HELPERS
        )
    except psutil.Error:
        return True
