"""What a piece of work leaves behind: processes, threads, file descriptors, shared memory."""

from __future__ import annotations

import contextlib
import gc
import os
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
_CONTROL_S = 1.0
# Python keeps one helper process for its shared memory and semaphores until the interpreter ends.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass
class Holdings:
    """What this process holds at one moment."""

    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    native_threads: int = 0
    descriptors: int = 0
    shared_memory: frozenset[str] = frozenset()

    @classmethod
    def now(cls) -> Holdings:
        """Look at this process and at those that it started, and they."""
        gc.collect()
        me = psutil.Process()
        return cls(
            {one.pid: _command(one) for one in family.relatives() if not _is_helper(one)},
            {thread.ident or 0: thread.name for thread in threading.enumerate()},
            me.num_threads(),
            me.num_fds(),
            _shared_memory(),
        )


def of(work: Callable[[], None], cycles: int) -> list[str]:
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
    return _processes(before, after) + _confirmed_memory(before, after) + _each_time(warm, after, cycles)


def _settled(target: Holdings) -> Holdings:
    """Wait until no more is held than at an earlier moment, or until patience ends."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        now = Holdings.now()
        if not _once(target, now) and not _each_time(target, now, 1):
            return now
        if time.monotonic() > deadline:
            return now
        time.sleep(_POLL_S)


def _once(before: Holdings, after: Holdings) -> list[str]:
    return _processes(before, after) + _memory(before, after)


def _processes(before: Holdings, after: Holdings) -> list[str]:
    more = [f"{pid} ({after.processes[pid]})" for pid in after.processes.keys() - before.processes.keys()]
    return [f"{len(more)} processes: {', '.join(more[:3])}"] if more else []


def _memory(before: Holdings, after: Holdings) -> list[str]:
    more = _ownerless(after.shared_memory - before.shared_memory)
    return [f"{len(more)} entries in {_SHARED_MEMORY}: {', '.join(more[:3])}"] if more else []


def _confirmed_memory(before: Holdings, after: Holdings) -> list[str]:
    """Return what is left in shared memory, unless more comes while the loader does nothing.

    An entry does not tell who made it. Where other programs leave theirs, nobody is to blame.
    """
    found = _memory(before, after)
    if found:
        time.sleep(_CONTROL_S)
        found = [] if _memory(after, Holdings.now()) else found
    return found


def _each_time(warm: Holdings, after: Holdings, cycles: int) -> list[str]:
    names = [after.threads[ident] for ident in after.threads.keys() - warm.threads.keys()]
    growth = {
        f"threads ({', '.join(names[:3])})": len(after.threads) - len(warm.threads),
        "threads outside of Python": (after.native_threads - len(after.threads))
        - (warm.native_threads - len(warm.threads)),
        "file descriptors": after.descriptors - warm.descriptors,
    }
    return [f"{count} {what} after {cycles} more times" for what, count in growth.items() if count >= cycles]


def _shared_memory() -> frozenset[str]:
    return (
        frozenset(entry.name for entry in _SHARED_MEMORY.iterdir() if _is_mine(entry))
        if _SHARED_MEMORY.is_dir()
        else frozenset()
    )


def _is_mine(entry: Path) -> bool:
    with contextlib.suppress(OSError):
        return entry.stat().st_uid == os.getuid()
    return False


def _ownerless(names: frozenset[str]) -> list[str]:
    """Return those entries that no process outside of this family uses: the rest are theirs."""
    if not names:
        return []
    ours = {os.getpid(), *(one.pid for one in family.relatives())}
    elsewhere = "\n".join(_files(pid) for pid in psutil.pids() if pid not in ours)
    return sorted(name for name in names if f"{_SHARED_MEMORY}/{name}" not in elsewhere)


def _files(pid: int) -> str:
    """Return the names of all files that a process has mapped or open, as far as we may see them."""
    process = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        opened = [str(link.readlink()) for link in (process / "fd").iterdir()]
        return "\n".join([(process / "maps").read_text(), *opened])
    return ""


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:80] or process.name()
    except psutil.Error:
        return "ended"


def _is_helper(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE or any(one in _command(process) for one in _HELPERS)
    except psutil.Error:
        return True
