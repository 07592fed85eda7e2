"""What life does to a loader: workers that are killed, two passes at once, busy threads, other starts.

Each function takes the workbench and plain data, and returns plain data.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from loaderproof.loaders.contract import Source
from loaderproof.suite import leftovers
from loaderproof.suite.answers import Killed, Pass
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.busy import busy
from loaderproof.suite.experiments.poisoning import told
from loaderproof.suite.experiments.workbench import Workbench, ending, start_epoch
from loaderproof.suite.experiments.wrapped import Wrapped
from loaderproof.suite.observation import Epoch, Scenario

# Long enough for every worker to have loaded what it may load ahead, and to be idle.
_IDLE_S = 0.2
_POLL_S = 0.05
_DEATH_S = 5.0


def left_behind(bench: Workbench, scenario: Scenario) -> list[str]:
    """Open, use, break off and close a loader several times; return what it leaves each time."""

    def cycle() -> None:
        with bench.opened(scenario) as loader:
            start_epoch(loader, 0)
            for _ in itertools.islice(loader, 2):
                pass
            # What comes after a break is another experiment's matter.
            with contextlib.suppress(Exception):
                start_epoch(loader, 1)
                for _ in ending(loader, len(bench.source(scenario))):
                    pass

    bench.prepare(bench.source(scenario))
    return leftovers.of(cycle)


def closing(bench: Workbench, scenario: Scenario) -> str | None:
    """Close a loader after a whole epoch, and another in the middle of one; return what it raises."""
    for taken in (None, 1):
        loader = bench.open(bench.fresh_source(scenario), scenario.request)
        start_epoch(loader, 0)
        batches = ending(loader, len(bench.source(scenario)))
        for _ in itertools.islice(batches, taken):
            pass
        try:
            getattr(loader, "close", lambda: None)()
        except Exception as error:  # noqa: BLE001 - it is reported
            return told(error)
    return None


def killed_worker(bench: Workbench, scenario: Scenario) -> Killed:
    """Kill a worker in the middle of an epoch and read on; then read an epoch of a new loader."""
    before, killed = leftovers.workers(), 0
    loader: Any = ()

    def interrupted() -> Iterator[Any]:
        nonlocal killed
        for number, batch in enumerate(loader):
            yield batch
            if number == 1:
                time.sleep(_IDLE_S)
                workers = sorted(leftovers.workers().keys() - before.keys())
                killed = len(workers)
                _kill(workers[:1])

    def read() -> Epoch:
        nonlocal loader
        with bench.opened(scenario) as loader:
            return recorder_of(bench, scenario).epoch(0, interrupted())

    found = passed(read)
    loader = ()
    return Killed(killed, found, _epoch(bench, scenario) if killed else None)


def _kill(pids: Iterable[int]) -> None:
    """Kill processes and wait until they are dead; their parent is told by then, and may raise here."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            process.kill()
            deadline = time.monotonic() + _DEATH_S
            while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
                time.sleep(_POLL_S / 5)
            time.sleep(_IDLE_S)  # another thread may take the signal first


def overlapping(bench: Workbench, scenario: Scenario) -> list[Pass]:
    """Read two passes over one loader at the same time, a batch of each in turn."""
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        return _in_turn(bench, [scenario] * 2, [loader] * 2)


def side_by_side(bench: Workbench, scenario: Scenario, other: Scenario) -> list[Pass]:
    """Read an epoch of each of two loaders at the same time, a batch of each in turn."""
    with bench.opened(scenario) as one, bench.opened(other) as another:
        start_epoch(one, 0)
        start_epoch(another, 0)
        return _in_turn(bench, [scenario, other], [one, another])


def _in_turn(bench: Workbench, scenarios: list[Scenario], loaders: list[Any]) -> list[Pass]:
    """Take a batch of each pass in turn until each has ended."""
    came: list[list[Any]] = [[] for _ in loaders]
    raised: list[str | None] = [None for _ in loaders]
    passes = [
        _copies(ending(loader, len(bench.source(one))))
        for loader, one in zip(loaders, scenarios, strict=True)
    ]
    going = dict(enumerate(passes))
    while going:
        for number, batches in list(going.items()):
            try:
                came[number].append(next(batches))
            except StopIteration:
                del going[number]
            except Exception as error:  # noqa: BLE001 - it is an answer
                raised[number] = told(error)
                del going[number]
    return [
        Pass(text, None if text else recorder_of(bench, scenario).epoch(0, batches))
        for text, batches, scenario in zip(raised, came, scenarios, strict=True)
    ]


def _copies(loader: Any) -> Iterator[Any]:
    """Yield copies of the batches: that they stay as they came is another test's matter."""
    for images, labels, extras in recorder.batches(loader):
        yield images.clone(), labels.clone(), {name: value.clone() for name, value in extras.items()}


def beside_a_busy_thread(bench: Workbench, scenario: Scenario) -> Epoch:
    """Read an epoch while another thread computes, draws and logs."""
    with busy(), warnings.catch_warnings():
        # Newer versions of Python warn of just this.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _epoch(bench, scenario)


def spawned(bench: Workbench, scenario: Scenario) -> Pass:
    """Read an epoch where processes are spawned instead of forked."""
    usual = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        return passed(lambda: _epoch(bench, scenario))
    finally:
        multiprocessing.set_start_method(usual, force=True)


class Counted(Wrapped):
    """A source that counts, over all processes, how many samples are read from it."""

    def __init__(self, source: Source, tally: Path) -> None:
        super().__init__(source)
        self._tally = tally

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        sample = super().__getitem__(index)
        # One byte a sample: writes at the end of a file do not overwrite each other.
        with self._tally.open("ab", buffering=0) as tally:
            tally.write(b".")
        return sample


def read_ahead(bench: Workbench, scenario: Scenario) -> int:
    """Take one batch, wait, and return how many samples were read from the source by then."""
    with tempfile.TemporaryDirectory(prefix="loaderproof-") as directory:
        tally = Path(directory) / "tally"
        tally.touch()
        loader = bench.open(Counted(bench.source(scenario), tally), scenario.request)
        try:
            start_epoch(loader, 0)
            batches = iter(loader)
            next(batches)
            return _at_rest(tally)
        finally:
            getattr(loader, "close", lambda: None)()


def _at_rest(tally: Path) -> int:
    """Return the size of a file once it has not grown for a while."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < 2 * _IDLE_S:
        if (size := tally.stat().st_size) != seen:
            seen, since = size, time.monotonic()
        time.sleep(_POLL_S)
    return seen


def _epoch(bench: Workbench, scenario: Scenario) -> Epoch:
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        return recorder_of(bench, scenario).epoch(0, loader)


def recorder_of(bench: Workbench, scenario: Scenario) -> recorder.Recorder:
    """Return what watches the passes of a scenario."""
    return recorder.Recorder(bench.catalogue(scenario), scenario)


def passed(read: Callable[[], Epoch]) -> Pass:
    """Return what a pass gave, or the exception that it ended with."""
    try:
        return Pass(None, read())
    except Exception as error:  # noqa: BLE001 - it is an answer
        try:
            return Pass(told(error), None)
        except Exception as late:  # noqa: BLE001 - a handler of signals may raise at any time
            return Pass(told(late), None)
