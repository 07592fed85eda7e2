"""All processes of one loader: its own, its workers, and those that left its session or lost their parent."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from loaderproof.suite.diagnosis import pyspy

# Marks every process that a loader starts, and is found in its environment.
MARK = "LOADERPROOF_SUBJECT"
# They remove the semaphores and the shared memory of processes that are gone, if they outlive them.
_CLEANERS = ("multiprocessing.resource_tracker", "torch_shm_manager")
_GRACE_S = 1.0
_POLL_S = 0.01
_STACKS_S = 0.3


class Family:
    """Processes that have one mark, and the temporary files that they write.

    Attributes:
        environment: for the first of them; those that it starts inherit it.
    """

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        # A process that is killed removes nothing itself.
        self._scratch = tempfile.TemporaryDirectory(prefix="loaderproof-", ignore_cleanup_errors=True)
        # Strings hash otherwise in each process, whatever is set here: no order may depend on them.
        changed = {MARK: self._mark, "TMPDIR": self._scratch.name, "PYTHONHASHSEED": "random"}
        self.environment = {**os.environ, **changed}

    def members(self) -> list[psutil.Process]:
        """Return every process that is alive."""
        return marked(MARK, self._mark)

    def kill(self) -> None:
        """End every process, and those last that clean up after the others."""
        deadline = time.monotonic() + _GRACE_S
        # One may be started while the others are being killed.
        while (members := self.members()) and time.monotonic() < deadline:
            for process in members:
                if not _cleans_up(process):
                    _quietly(process.kill)
            time.sleep(_POLL_S)
        for process in self.members():
            _quietly(process.kill)

    def end(self) -> None:
        """End every process and remove what they wrote."""
        self.kill()
        self._scratch.cleanup()

    def print_stacks(self, announce: Callable[[str], None]) -> None:
        """Announce the stacks of every process, or have it print them itself where it prints its errors.

        py-spy sees processes, too, that handle no signal; a signal needs neither py-spy nor its rights.
        """
        for process in self.members():
            stacks = pyspy.stacks_of(process.pid)
            if stacks:
                announce(f"\nprocess {process.pid}:\n{stacks}\n")
            elif _catches_usr1(process.pid):
                announce(f"\nprocess {process.pid}:\n")
                _quietly(lambda: process.send_signal(signal.SIGUSR1))  # noqa: B023 - called at once
                time.sleep(_STACKS_S)


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
        action()


def relatives() -> list[psutil.Process]:
    """Return the other processes of the loader that this one serves, orphans too; else its children."""
    mark, me = os.environ.get(MARK), psutil.Process()
    if mark is None:
        return me.children(recursive=True)
    return [process for process in marked(MARK, mark) if process != me]


def marked(name: str, mark: str) -> list[psutil.Process]:
    """Return the living processes that inherited a mark in a variable of their environment."""
    return [process for process in psutil.process_iter() if _variable(process, name) == mark]


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except (psutil.Error, OSError):
        return None


def _cleans_up(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
    except (psutil.Error, OSError):
        return False
    return any(name in command for name in _CLEANERS)


def _catches_usr1(pid: int) -> bool:
    """Tell whether a process handles SIGUSR1, which kills it otherwise."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        mask = next(line for line in status if line.startswith("SigCgt"))
    except (OSError, StopIteration):
        return False
    return bool(int(mask.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
