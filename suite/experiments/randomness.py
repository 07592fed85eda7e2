"""Experiments with random augmentation, and with orders while reading is slow now and then."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import xxhash

from loaderproof.loaders.contract import Loader, Source
from loaderproof.suite.draws import PIXELS, Drawn, Pass, Untouched
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.jitter import Jittery
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.fingerprint import channels_first, quantised
from loaderproof.suite.observation import Epoch, Observation, Scenario

_ID = "id"
_PROJECTIONS = 2


class Alike(Source):
    """Samples that all have the pixels of the first, so that whatever differs was drawn.

    Args:
        source: the samples.
        one_label: whether they have its label, too.
    """

    def __init__(self, source: Source, *, one_label: bool = False) -> None:
        self.name = f"{source.name}, all alike"
        self.image_shape, self.num_classes = source.image_shape, source.num_classes
        self._pixels, self._labels = source[0][0], source.arrays()[1]
        if one_label:
            self._labels[:] = self._labels[0]
        self._origin = source

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._pixels.copy(), int(self._labels[index])

    def key(self, index: int) -> str:
        return self._origin.key(index)

    @property
    def fingerprint(self) -> str:
        labels = xxhash.xxh3_64_hexdigest(np.ascontiguousarray(self._labels).data)
        return f"alike-{self._origin.fingerprint}-{labels}"


def drawn(bench: Workbench, scenario: Scenario, *, jitter: bool = False, one_label: bool = False) -> Drawn:
    """Watch what a loader draws for samples that are all alike."""
    source: Source = Alike(bench.source(scenario), one_label=one_label)
    return _drawn(bench, Jittery(source) if jitter else source, scenario, range(scenario.epochs))


def drawn_again(bench: Workbench, scenario: Scenario) -> Drawn:
    """Watch what another loader of the same scenario draws."""
    return drawn(bench, scenario)


def drawn_at(bench: Workbench, scenario: Scenario, epoch: int) -> Drawn:
    """Watch what a fresh loader draws that is told to begin with a later epoch."""
    return _drawn(bench, Alike(bench.source(scenario)), scenario, [epoch])


def _drawn(bench: Workbench, source: Source, scenario: Scenario, epochs: Iterable[int]) -> Drawn:
    watcher = _Watcher(source)
    loader = bench.open(source, scenario.request)
    try:
        told = hasattr(loader, "set_epoch")
        passes = []
        for number in epochs:
            start_epoch(loader, number)
            passes.append(watcher.epoch(number, loader))
    finally:
        close(loader)
    return Drawn(scenario, watcher.labels, passes, told)


def untouched(bench: Workbench, scenario: Scenario) -> Untouched:
    """Read an epoch as it is, then some that are augmented, then one as it is again; all of one source."""
    source = bench.fresh_source(scenario)
    plain = replace(scenario, request=replace(scenario.request, augment=False))
    before = _plain_epoch(bench, source, plain)
    loader = bench.open(source, scenario.request)
    try:
        for number in range(scenario.epochs):
            start_epoch(loader, number)
            for _ in itertools.islice(loader, 2 * len(source) + 4):
                pass
    finally:
        close(loader)
    changed = np.flatnonzero(Catalogue(source).hashes != bench.catalogue(scenario).hashes).tolist()
    after = _plain_epoch(bench, source, plain)
    names = sorted(set(before.extras) - {_ID})
    return Untouched(changed, names, before.error, after.error)


def watch(bench: Workbench, scenario: Scenario, *, jitter: bool) -> Observation:
    """Watch a loader, with a source that is slow now and then if there is to be jitter."""
    source = bench.fresh_source(scenario)
    with warnings.catch_warnings():
        # torch finds more workers than cores remarkable.
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        return _watch(bench, Jittery(source) if jitter else source, scenario, range(scenario.epochs))


def watch_told(bench: Workbench, scenario: Scenario, told: tuple[int, ...], *, left: bool) -> Observation:
    """Watch the epochs that a loader is told to give; none if it cannot be told.

    Args:
        bench: opens the loader.
        scenario: what it is asked for.
        told: the numbers of the epochs.
        left: whether epoch 0 is left after two batches before that.
    """
    with bench.opened(scenario) as loader:
        can_be_told = hasattr(loader, "set_epoch")
    return _watch(bench, bench.fresh_source(scenario), scenario, told if can_be_told else (), left=left)


def _plain_epoch(bench: Workbench, source: Source, scenario: Scenario) -> Epoch:
    return _watch(bench, source, scenario, [0]).epochs[0]


def _watch(
    bench: Workbench, source: Source, scenario: Scenario, numbers: Iterable[int], *, left: bool = False
) -> Observation:
    catalogue = bench.catalogue(scenario)
    seen = Observation(scenario, catalogue.labels, source.image_shape, None)
    record = recorder.Recorder(catalogue, scenario)
    loader = bench.open(source, scenario.request)
    try:
        if left:
            start_epoch(loader, 0)
            for _ in itertools.islice(loader, 2):
                pass
        for number in numbers:
            start_epoch(loader, number)
            seen.epochs.append(record.epoch(number, loader))
    finally:
        close(loader)
    return seen


class _Watcher:
    """Watches epochs over samples that are all alike."""

    def __init__(self, source: Source) -> None:
        self.labels = np.array([source[place][1] for place in range(len(source))])
        self._true = channels_first(source[0][0][None]).reshape(-1) / 255
        weights = np.random.default_rng(20261130).random((_PROJECTIONS, len(self._true)))
        self._weights = np.concatenate([np.ones_like(weights[:1]), weights]).T / len(self._true)
        self._limit = 2 * len(source) + 4

    def epoch(self, number: int, loader: Loader) -> Pass:
        """Watch one epoch, or as much of it as an endless one is worth."""
        parts = []
        for images, labels, extras in itertools.islice(recorder.batches(loader), self._limit):
            flat = recorder.as_array(labels).reshape(-1).astype(np.int64)
            values = recorder.as_array(images)
            pixels = quantised(values).reshape(len(flat), -1)
            unit = values.reshape(len(flat), -1) / (255 if values.dtype == np.uint8 else 1)
            carried = {name: _comparable(recorder.as_array(value)) for name, value in extras.items()}
            parts.append((flat.copy(), carried, _hashes(pixels), self._away(unit)))
        return _as_pass(number, parts)

    def _away(self, unit: np.ndarray) -> np.ndarray:
        if unit.shape[1:] != self._true.shape:  # reported by the test of shapes
            return np.zeros((len(unit), 2 + _PROJECTIONS))
        moved = unit - self._true
        return np.column_stack([np.abs(moved).mean(axis=1), moved @ self._weights])


def _comparable(values: np.ndarray) -> np.ndarray:
    """Return a copy in which equal draws are equal: NaN, which may stand for no draw, is not equal to itself."""
    return np.where(np.isnan(values), np.inf, values) if values.dtype.kind == "f" else values.copy()


def _hashes(pixels: np.ndarray) -> np.ndarray:
    return np.fromiter((xxhash.xxh3_64_intdigest(one.tobytes()) for one in pixels), np.uint64, len(pixels))


def _as_pass(
    number: int, parts: list[tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, np.ndarray]]
) -> Pass:
    names = set.intersection(*(set(part[1]) for part in parts)) if parts else set()
    carried = {name: np.concatenate([part[1][name] for part in parts]) for name in sorted(names)}
    ids = carried.pop(_ID, None)
    nothing = np.empty(0, np.int64), np.empty(0, np.uint64), np.empty((0, 2 + _PROJECTIONS))
    columns = zip(nothing, *((part[0], part[2], part[3]) for part in parts), strict=True)
    labels, hashes, away = (np.concatenate(column) for column in columns)
    batch = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    return Pass(number, ids, labels, batch, {**carried, PIXELS: hashes}, away)
