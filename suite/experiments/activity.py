"""What the processes and threads of a loader do, looked at from a process beside them (Linux).

    python -P -m loaderproof.suite.experiments.activity PID PERIOD_S [TID ...]

It looks at the process PID and all that it started, whenever `on` was the last line on its standard
input, and prints what it saw as JSON when that ends. Sleeps of the threads TID do not count.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROC = Path("/proc")
PERIOD_S = 0.005
# Kernel functions in which a thread waits for others of its own kind: pipes, locks, local sockets.
_PEERS = ("futex", "pipe", "poll", "select", "unix", "skb_wait", "accept", "do_wait", "sigtimedwait")
_HELPERS = (
    b"multiprocessing.resource_tracker",
    b"multiprocessing.forkserver",
    b"torch_shm_manager",
    b"py-spy",
)
_FILES_EVERY = 20
# Between two pieces of work a thread may seem to rest.
_RESTS = 3


class Watcher:
    """Looks at a process and its descendants.

    Args:
        root: the process.
        bystanders: threads whose sleeps say nothing, as they slept before.
    """

    def __init__(self, root: int, bystanders: set[int]) -> None:
        self._root, self._bystanders = root, {*bystanders, 0}
        self._skipped = {os.getpid()}
        self._threads: dict[int, dict[str, Any]] = {}
        self._processes: dict[int, dict[str, int]] = {}
        self._files: set[str] = set()
        self._looks, self.seconds = 0, 0.0

    def look(self) -> None:
        """Look once at every thread."""
        for pid in self._tree(self._root):
            states = [self._thread(pid, int(tid)) for tid in _entries(PROC / f"{pid}/task")]
            kept = self._processes.setdefault(pid, {"looks": 0, "running": 0, "device": 0})
            kept["looks"] += 1
            kept["running"] += "running" in states
            kept["device"] += "running" not in states and "device" in states
            if self._looks % _FILES_EVERY == 0:
                self._files |= set(_files(pid))
        self._looks += 1

    def _thread(self, pid: int, tid: int) -> str:
        place = PROC / f"{pid}/task/{tid}"
        try:
            state = _read(place / "stat").rpartition(")")[2].split()[0]
            cpu, queued, _ = map(int, _read(place / "schedstat").split())
            waits_in = "" if state == "R" else _read(place / "wchan")
        except (OSError, ValueError, IndexError):
            return ""
        kept = self._threads.setdefault(
            tid, {"pid": pid, "cpu": (cpu, cpu), "queued": (queued, queued), "looks": {}}
        )
        kept["cpu"], kept["queued"] = (kept["cpu"][0], cpu), (kept["queued"][0], queued)
        what = "running" if state == "R" else self._waiting(tid, state, waits_in)
        kept["looks"][what] = kept["looks"].get(what, 0) + 1
        return what

    def _waiting(self, tid: int, state: str, waits_in: str) -> str:
        if tid in self._bystanders or not waits_in or waits_in == "0":
            return "peers"
        return "peers" if state != "D" and any(word in waits_in for word in _PEERS) else "device"

    def _tree(self, pid: int) -> Iterator[int]:
        yield pid
        for tid in _entries(PROC / f"{pid}/task"):
            with contextlib.suppress(OSError):
                for child in map(int, _read(PROC / f"{pid}/task/{tid}/children").split()):
                    if not self._is_helper(child):
                        yield from self._tree(child)

    def _is_helper(self, pid: int) -> bool:
        if pid not in self._skipped and pid not in self._processes:
            with contextlib.suppress(OSError):
                command = (PROC / f"{pid}/cmdline").read_bytes()
                if any(name in command for name in _HELPERS):
                    self._skipped.add(pid)
        return pid in self._skipped

    def found(self) -> dict[str, Any]:
        """Return what was seen, as plain data; times in seconds."""
        threads = [
            {
                "pid": one["pid"],
                "main": one["pid"] == tid,
                "cpu_s": (one["cpu"][1] - one["cpu"][0]) / 1e9,
                "queued_s": (one["queued"][1] - one["queued"][0]) / 1e9,
                "looks": one["looks"],
            }
            for tid, one in self._threads.items()
            if tid not in self._bystanders or one["cpu"][1] > one["cpu"][0]
        ]
        return {
            "seconds": self.seconds,
            "root": self._root,
            "looks": self._looks,
            "processes": self._processes,
            "threads": threads,
            "files": sorted(self._files),
        }


def _read(path: Path) -> str:
    with path.open(encoding="ascii", errors="replace") as file:
        return file.read()


def _entries(folder: Path) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in entries]
    return []


def _files(pid: int) -> Iterator[str]:
    """Yield the data files that a process has open or mapped."""
    for link in _entries(PROC / f"{pid}/fd"):
        with contextlib.suppress(OSError):
            yield from _data(str((PROC / f"{pid}/fd/{link}").readlink()))
    with contextlib.suppress(OSError):
        for line in _read(PROC / f"{pid}/maps").splitlines():
            yield from _data(line[73:].strip())


def _data(path: str) -> list[str]:
    code = (".so", ".py", ".pyc", ".zip", ".cache")
    hidden = ("/dev/", "/proc/", "/sys/", "/usr/lib", "/usr/share/locale", sys.prefix, sys.base_prefix)
    plain = path.startswith("/") and not path.startswith(hidden) and ".so." not in path
    return [path] if plain and not path.endswith((*code, " (deleted)")) else []


def settle(bystanders: set[int], at_most_s: float) -> None:
    """Wait until this process and all that it started rest, as after a pass that was left before its end.

    Args:
        bystanders: threads whose sleeps say nothing.
        at_most_s: some never rest.
    """
    deadline, rests = time.monotonic() + at_most_s, 0
    while rests < _RESTS and time.monotonic() < deadline:
        time.sleep(PERIOD_S)
        rests = rests + 1 if _at_rest(bystanders) else 0


def _at_rest(bystanders: set[int]) -> bool:
    watcher = Watcher(os.getpid(), bystanders)
    watcher.look()
    seen = watcher.found()
    others = [one for one in seen["threads"] if not (one["main"] and one["pid"] == seen["root"])]
    return not any({"running", "device"} & one["looks"].keys() for one in others)


def main() -> None:
    """Look until standard input ends."""
    root, period = int(sys.argv[1]), float(sys.argv[2])
    watcher = Watcher(root, set(map(int, sys.argv[3:])))
    on, last = False, time.monotonic()
    _say("ready")
    while True:
        ready = select.select([0], [], [], period if on else None)[0]
        now = time.monotonic()
        watcher.seconds += (now - last) * on
        last = now
        if on:
            watcher.look()
        if ready:
            lines = os.read(0, 4096).decode().split()
            if not lines:
                break
            on = lines[-1] == "on"
            if on:
                watcher.look()
            _say("done")
    _say(json.dumps(watcher.found()))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Watching:
    """Another process that looks at this one and all that it started.

    Args:
        bystanders: threads of this process whose sleeps say nothing.
    """

    def __init__(self, bystanders: list[int]) -> None:
        words = [str(os.getpid()), str(PERIOD_S), *map(str, bystanders)]
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Have it look meanwhile."""
        self._tell("on")
        try:
            yield
        finally:
            self._tell("off")

    def _tell(self, word: str) -> None:
        assert self._popen.stdin is not None  # noqa: S101 - for the type checker
        self._popen.stdin.write(f"{word}\n")
        self._popen.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._popen.stdout is not None  # noqa: S101 - for the type checker
        self._popen.stdout.readline()

    def end(self) -> dict[str, Any]:
        """Stop it, and return what it saw."""
        out, _ = self._popen.communicate()
        found: dict[str, Any] = json.loads(out)
        return found


if __name__ == "__main__":
    main()
