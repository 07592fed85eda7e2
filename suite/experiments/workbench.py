"""One adapter on the bench: its sources, what it prepared, and the loaders it opens.

This side runs in the process of the loader.
"""

from __future__ import annotations

import copy
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from loaderproof.loaders import registry, sources
from loaderproof.loaders.contract import Adapter, Loader, Request, Source
from loaderproof.loaders.function import untried
from loaderproof.loaders.sources.portion import first
from loaderproof.loaders.store import cache_root, make_once
from loaderproof.suite import home
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.records import FirstPass, Truth, Unread
from loaderproof.suite.observation import Scenario
from loaderproof.suite.own_data import RECORDED, plainest

_RECORD = "prepared.json"
# Of the second look at data without a truth.
_LOOKED_AT_AGAIN = 10


@dataclass(frozen=True)
class Prepared:
    """What an adapter wrote for a source, and the seconds that it took when it was written."""

    directory: Path
    seconds: float


class Workbench:
    """Opens the loaders of one adapter.

    Args:
        spec: built-in name, `module:attr` or `path.py:attr`.
        adapter: the adapter itself, where it is at hand already.
    """

    def __init__(self, spec: str, adapter: Adapter | None = None) -> None:
        self.adapter = adapter or registry.load(spec)
        home.check(spec)
        self.spec = spec
        self.timed: Any = None  # what `rounds` keeps from one round to the next
        self.own_data = untried(self.adapter).own_data
        self._sources = cache(self._source)
        self._catalogues = cache(
            lambda *place: (Truth if self.own_data else Catalogue)(self._sources(*place))
        )
        self.first_passes: dict[tuple[str, str], FirstPass] = {}
        # What an adapter under development wrote yesterday says nothing about its code of today.
        kept = home.here().prepared or spec in registry.BUILTIN
        self._own = None if kept else tempfile.TemporaryDirectory(prefix="loaderproof-")

    def source(self, scenario: Scenario) -> Source:
        """Return the source of a scenario; not to be handed to loaders, which may damage it."""
        if scenario.data == RECORDED:
            return Unread(self._first_pass(scenario))
        return self._sources(*_place(scenario))

    def fresh_source(self, scenario: Scenario) -> Source:
        """Return a copy of the source, so that a loader that damages it damages no later test."""
        return copy.deepcopy(self.source(scenario))

    def catalogue(self, scenario: Scenario) -> Any:
        """Return the catalogue of the source of a scenario, or what stands for it where there is none."""
        return (
            self._first_pass(scenario) if scenario.data == RECORDED else self._catalogues(*_place(scenario))
        )

    def _first_pass(self, scenario: Scenario) -> FirstPass:
        """Return what the plainest pass over the loader's own data gave, gone through now if it was not."""
        split, options = scenario.request.split, repr(scenario.request.options)
        if (split, options) not in self.first_passes:
            with self.opened(replace(scenario, request=plainest(scenario.request))) as loader:
                start_epoch(loader, 0)
                made = FirstPass(recorder.arrays(loader))
                start_epoch(loader, 1)
                made.look_again(itertools.islice(recorder.arrays(loader), _LOOKED_AT_AGAIN))
            self.first_passes[split, options] = made
        return self.first_passes[split, options]

    def prepare(self, source: Source) -> Prepared:
        """Return what the adapter has on disk for this source, written now if it was not there."""
        root = Path(self._own.name if self._own else home.here().prepared or cache_root() / "prepared")
        form = untried(self.adapter).on_disk
        if form is None:
            return Prepared(root, 0.0)
        place = make_once(root / form / source.fingerprint, lambda target: self._write(source, target))
        return Prepared(place / "data", json.loads((place / _RECORD).read_text())["seconds"])

    def _write(self, source: Source, target: Path) -> None:
        directory = target / "data"
        directory.mkdir()
        started = time.perf_counter()
        self.adapter.prepare(source, directory)
        record = {"seconds": time.perf_counter() - started, "source": source.name}
        (target / _RECORD).write_text(json.dumps(record))

    def open(self, source: Source, request: Request) -> Loader:
        """Open a loader over any source; one that has data of its own gets none."""
        given: Any = None if self.own_data else source
        directory = Path() if self.own_data else self.prepare(source).directory
        loader = self.adapter.open(given, directory, request)
        if not hasattr(loader, "__iter__"):
            msg = f"opening it returned {loader!r}; expected something to iterate that gives (images, labels)"
            raise NotALoader(msg)
        return loader

    @contextmanager
    def opened(self, scenario: Scenario) -> Iterator[Loader]:
        """Open the loader of a scenario over a source of its own, and close it at the end."""
        source: Any = None if self.own_data else self.fresh_source(scenario)
        loader = self.open(source, scenario.request)
        try:
            yield loader
        finally:
            close(loader)

    def _source(self, data: str, split: str, count: int | None) -> Source:
        source = sources.load(data)[split]
        if self.own_data:  # nobody held samples out from it
            source = getattr(source, "whole", source)
        return source if count is None or count >= len(source) else first(source, count)

    def close(self) -> None:
        """Remove what an adapter under development wrote."""
        if self._own:
            self._own.cleanup()


def _place(scenario: Scenario) -> tuple[str, str, int | None]:
    return scenario.data, scenario.request.split, scenario.first


class NotALoader(TypeError):
    """What an adapter opened cannot be iterated."""


class Endless(RuntimeError):
    """An epoch goes on and on."""


def ending(loader: Loader, batches: int) -> Iterator[Any]:
    """Yield the batches of an epoch.

    Args:
        loader: what to iterate.
        batches: how many an epoch owes.

    Raises:
        Endless: more than twice as many came.
    """
    limit = 2 * batches + 4
    for number, batch in enumerate(loader):
        if number == limit:
            msg = f"an epoch of {batches} batches did not end after {limit}"
            raise Endless(msg)
        yield batch


def start_epoch(loader: Loader, epoch: int) -> None:
    """Tell a loader which epoch comes, if it wants to know."""
    hook = getattr(loader, "set_epoch", None)
    if hook is not None:
        hook(epoch)


def close(loader: Loader) -> None:
    """Close a loader, if it can be closed."""
    hook = getattr(loader, "close", None)
    if hook is not None:
        # What it raises is reported by the test of that, and by no other.
        with suppress(Exception):
            hook()
