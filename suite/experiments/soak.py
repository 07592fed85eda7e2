"""Long experiments of life and death: many epochs, no room in shared memory, data that vanish, kills."""

from __future__ import annotations

import contextlib
import gc
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from loaderproof.loaders.contract import Loader
from loaderproof.suite.answers import Ended, Held, Inherited, Pass, Restarted
from loaderproof.suite.experiments import interpreter
from loaderproof.suite.experiments.life import passed, recorder_of
from loaderproof.suite.experiments.memory import anonymous_bytes
from loaderproof.suite.experiments.workbench import Workbench, close, ending, start_epoch
from loaderproof.suite.observation import Scenario

# A new /dev/shm that is full after one page, in a namespace that is gone with its last process.
_NARROW = (
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
    'mount -t tmpfs -o size=4k loaderproof /dev/shm && exec "$@"',
    "sh",
)
_IDLE_S = 0.3
# Workers look for their parent from time to time, those of a DataLoader every five seconds.
_ORPHANED_S = 15.0


def many_epochs(bench: Workbench, scenario: Scenario) -> Held:
    """Read epochs from one loader, and look after each at what its processes hold."""
    held = Held([], [], [], [])
    with bench.opened(scenario) as loader:
        for number in range(scenario.epochs):
            start_epoch(loader, number)
            for _ in ending(loader, len(bench.source(scenario))):
                pass
            held.memory.append(anonymous_bytes() or 0)
            held.descriptors.append(psutil.Process().num_fds())
            held.threads.append(psutil.Process().num_threads())
            held.shared_memory.append(_shared_bytes())
    return held


def _shared_bytes() -> int:
    """Return the bytes of shared memory that this process has mapped or open."""
    return sum(one.rss for one in psutil.Process().memory_maps() if one.path.startswith(_SHARED))


_SHARED = "/dev/shm/"  # noqa: S108 - the kernel's own place for it


def kept_batches(bench: Workbench, scenario: Scenario) -> tuple[int, int]:
    """Keep all batches of an epoch; return how many there are, and how many descriptors they hold."""
    gc.collect()
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        batches = ending(loader, len(bench.source(scenario)))
        first = [next(batches)]
        before = psutil.Process().num_fds()
        kept = list(batches)
        after = psutil.Process().num_fds()
        return len(first) + len(kept) - 1, after - before


def inherited(bench: Workbench, scenario: Scenario) -> Inherited:
    """Measure what the loader holds when it is open, and by how much its processes grow in an epoch."""
    bench.prepare(source := bench.source(scenario))
    before = anonymous_bytes()
    with bench.opened(scenario) as loader:
        opened = anonymous_bytes()
        start_epoch(loader, 0)
        batches = ending(loader, len(source))
        next(batches)
        time.sleep(_IDLE_S)
        early = late = anonymous_bytes()
        # The workers are gone with the last batch.
        for number, _ in enumerate(batches):
            if number % 20 == 0:
                late = max(late or 0, anonymous_bytes() or 0)
        workers = scenario.request.num_workers
    if before is None or opened is None or early is None or late is None:
        return Inherited(0, 0, workers)
    return Inherited(opened - before, late - early, workers)


def vanished(bench: Workbench, scenario: Scenario, how: str) -> Pass:
    """Take two batches, take the prepared data away, and read on."""
    with tempfile.TemporaryDirectory(prefix="loaderproof-") as name:
        directory = Path(name) / "data"
        directory.mkdir()
        bench.adapter.prepare(bench.source(scenario), directory)
        loader = bench.adapter.open(bench.fresh_source(scenario), directory, scenario.request)
        try:
            return passed(lambda: recorder_of(bench, scenario).epoch(0, _robbed(loader, directory, how)))
        finally:
            close(loader)
            _WAYS["back"](directory)


def _robbed(loader: Loader, directory: Path, how: str) -> Iterator[Any]:
    for number, batch in enumerate(loader):
        yield batch
        if number == 1:
            _WAYS[how](directory)


def _remove(directory: Path) -> None:
    shutil.rmtree(directory)


def _protect(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def _give_back(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        with contextlib.suppress(OSError):
            path.chmod(0o755 if path.is_dir() else 0o644)


_WAYS = {"removed": _remove, "read-only": _protect, "back": _give_back}


def narrow_shared_memory(bench: Workbench, scenario: Scenario, spec: str, limit_s: float) -> Ended | None:
    """Read an epoch where /dev/shm has no room; None if such a place cannot be had here."""
    del bench
    if (
        not shutil.which("unshare")
        or subprocess.run([*_NARROW, "true"], capture_output=True, check=False).returncode
    ):
        return None
    return interpreter.run("finish", scenario, spec, limit_s, _NARROW)


def killed_run(bench: Workbench, scenario: Scenario, spec: str, limit_s: float) -> Restarted:
    """Kill a whole run in the middle of an epoch, and start another."""
    del bench
    with interpreter.started("wait", scenario, spec, limit_s) as script:
        began = script.is_ready(limit_s)
        script.popen.send_signal(signal.SIGKILL)
        script.popen.wait()
        left = script.left(_ORPHANED_S)
    return Restarted(began, left, interpreter.run("finish", scenario, spec, limit_s))
