"""Has the state of a loader asked for, kept and edited, in the loader's own process."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.suite import leftovers
from loaderproof.suite.continuation import Continued, Cut, Handled, Places, Saved
from loaderproof.suite.experiments import states
from loaderproof.suite.experiments.resumption import failed, resumed_after
from loaderproof.suite.experiments.runs import limited, places_of, rest_of
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.experiments.wrapped import Wrapped
from loaderproof.suite.observation import Scenario

_POLL_S = 0.03
_CALM_S = 0.1
_PATIENCE_S = 2.0


def handled(bench: Workbench, scenario: Scenario, batches: int) -> Handled:
    """See whether a state stays as it was taken, and whether its loader minds what becomes of it."""
    cut = Cut(0, batches)
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        passing = iter(loader)
        for _ in range(batches):
            next(passing)
        state = loader.state_dict()  # type: ignore[attr-defined]
        before = states.pack(state)
        for _ in limited(bench, scenario, rest_of(passing)):
            pass
        start_epoch(loader, 1)
        for _ in itertools.islice(loader, batches):
            pass
        by_iterating = states.pack(state) != before
    edited, again = _edited(bench, scenario, cut)
    return Handled(cut, by_iterating, _changed_by_loading(bench, scenario, Saved(cut, before)), edited, again)


def _edited(bench: Workbench, scenario: Scenario, cut: Cut) -> tuple[Continued, Continued]:
    """Empty a state that was taken, and watch the pass that it was taken from, and one from the next state."""
    whole, again = Continued(cut), Saved(cut)
    handed: Places = []
    with bench.opened(scenario) as loader:
        try:
            start_epoch(loader, cut.epoch)
            passing = rest_of(iter(loader))
            handed, _ = places_of(bench, scenario, itertools.islice(passing, cut.batches))
            states.empty(loader.state_dict())  # type: ignore[attr-defined]
            again = states.taken(loader, cut)
            rest, _ = places_of(bench, scenario, passing)
            whole.passes.append(handed + rest)
        except Exception as error:  # noqa: BLE001 - whatever it raises is a finding
            failed(whole, error)
    return whole, resumed_after(bench, scenario, handed, again)


def _changed_by_loading(bench: Workbench, scenario: Scenario, saved: Saved) -> bool | None:
    if not saved.state.portable:
        return None
    state = states.unpack(saved.state)
    before = states.pack(state)
    try:
        with bench.opened(scenario) as loader:
            start_epoch(loader, saved.cut.epoch)
            loader.load_state_dict(state)  # type: ignore[attr-defined]
            places_of(bench, scenario, loader)
    except Exception:  # noqa: BLE001 - how it goes on is judged elsewhere
        return None
    return states.pack(state) != before


class Counting(Wrapped):
    """A source that counts how often a sample is read, in this process."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.reads = 0

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        self.reads += 1
        return super().__getitem__(index)


@dataclass(frozen=True)
class Activity:
    """What goes on at one moment: numbers of processes and of threads, and how often samples were read."""

    processes: dict[int, str]
    threads: dict[int, str]
    reads: int

    def since(self, before: Activity) -> list[str]:
        """Return what was started since then, as words."""
        processes = [self.processes[pid] for pid in self.processes.keys() - before.processes.keys()]
        threads = [self.threads[ident] for ident in self.threads.keys() - before.threads.keys()]
        found = [f"{len(processes)} processes: {', '.join(processes[:2])}"] if processes else []
        found += [f"{len(threads)} threads: {', '.join(threads[:3])}"] if threads else []
        more = self.reads - before.reads
        return [*found, *([f"{more} samples read"] if more else [])]


def started_by_asking(bench: Workbench, scenario: Scenario) -> list[str]:
    """Return what a fresh loader starts when its state is asked for; nothing if it is never calm before."""
    bench.prepare(bench.source(scenario))
    source = Counting(bench.fresh_source(scenario))
    loader: Any = bench.open(source, scenario.request)
    try:
        before = _calm(lambda: _activity(source))
        if before is None or states.taken(loader, Cut(0, 0, moment="before")).error:
            return []
        time.sleep(_CALM_S)
        return _activity(source).since(before)
    finally:
        close(loader)


def _activity(source: Counting) -> Activity:
    threads = {thread.ident or 0: thread.name for thread in threading.enumerate()}
    return Activity(leftovers.workers(), threads, source.reads)


def _calm(look: Callable[[], Activity]) -> Activity | None:
    """Wait until nothing has been started for a while; None if that never comes."""
    last, since, deadline = look(), time.monotonic(), time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        now = look()
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= _CALM_S:
            return now
    return None
