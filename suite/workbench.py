"""One adapter on the bench: its sources, what it prepared, and the loaders it opens.

This side runs in the process of the loader.
"""

from __future__ import annotations

import copy
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from loaderproof.loaders import registry, sources
from loaderproof.loaders.contract import Adapter, Loader, Request, Source
from loaderproof.loaders.function import untried
from loaderproof.loaders.sources.portion import first
from loaderproof.loaders.store import cache_root, make_once
from loaderproof.suite.catalogue import Catalogue
from loaderproof.suite.observation import Scenario

_RECORD = "prepared.json"


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
        self.timed: Any = None  # what `rounds` keeps from one round to the next
        self._sources = cache(_source)
        self._catalogues = cache(lambda *place: Catalogue(self._sources(*place)))
        # What an adapter under development wrote yesterday says nothing about its code of today.
        self._own = None if spec in registry.BUILTIN else tempfile.TemporaryDirectory(prefix="loaderproof-")

    def source(self, scenario: Scenario) -> Source:
        """Return the source of a scenario; not to be handed to loaders, which may damage it."""
        return self._sources(*_place(scenario))

    def fresh_source(self, scenario: Scenario) -> Source:
        """Return a copy of the source, so that a loader that damages it damages no later test."""
        return copy.deepcopy(self.source(scenario))

    def catalogue(self, scenario: Scenario) -> Catalogue:
        """Return the catalogue of the source of a scenario."""
        return self._catalogues(*_place(scenario))

    def prepare(self, source: Source) -> Prepared:
        """Return what the adapter has on disk for this source, written now if it was not there."""
        root = Path(self._own.name) if self._own else cache_root() / "prepared"
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
        """Open a loader over any source."""
        loader = self.adapter.open(source, self.prepare(source).directory, request)
        if not hasattr(loader, "__iter__"):
            msg = f"opening it returned {loader!r}; expected something to iterate that gives (images, labels)"
            raise NotALoader(msg)
        return loader

    @contextmanager
    def opened(self, scenario: Scenario) -> Iterator[Loader]:
        """Open the loader of a scenario over a source of its own, and close it at the end."""
        loader = self.open(self.fresh_source(scenario), scenario.request)
        try:
            yield loader
        finally:
            close(loader)

    def close(self) -> None:
        """Remove what an adapter under development wrote."""
        if self._own:
            self._own.cleanup()


def _place(scenario: Scenario) -> tuple[str, str, int | None]:
    return scenario.data, scenario.request.split, scenario.first


def _source(data: str, split: str, count: int | None) -> Source:
    source = sources.load(data)[split]
    return source if count is None or count >= len(source) else first(source, count)


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
        hook()
