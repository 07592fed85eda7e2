"""What the conformance tests have done to a loader, in its own process.

Each function takes the workbench and plain data, and returns plain data.
"""

from __future__ import annotations

import gc
import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from loaderproof.loaders import sources
from loaderproof.loaders.contract import Description, Source
from loaderproof.loaders.function import untried
from loaderproof.model.accelerator import accelerator
from loaderproof.model.cnn import ConvNet
from loaderproof.suite.answers import Covered, Written
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.records import FirstPass, Truth
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.identities import Difference
from loaderproof.suite.observation import Observation, Scenario

# What is imported by now lives as long as the process: no collection needs to look at it again,
# which would cost a tenth of a second each time.
gc.freeze()


Pair = tuple[torch.Tensor, torch.Tensor]
# Batches that are written into; each is compared with all others.
_OVERWRITTEN = 32


def describe(bench: Workbench, *, trial: bool) -> Description:
    """Return what is known of the adapter; with a trial, what a function promises by what it reads."""
    return bench.adapter.description if trial else untried(bench.adapter)


class NoAccelerator(Exception):
    """The accelerator that was asked for is not there."""


def check_data(bench: Workbench, data: str, device: str) -> None:
    """Read every sample of the data once, in every split.

    Raises:
        loaders.sources.SourceError: the data is not as it must be.
        NoAccelerator: there is none of that name here.
    """
    del bench
    try:
        accelerator(device)
    except (RuntimeError, ValueError) as error:
        raise NoAccelerator(error) from None
    for source in sources.load(data).values():
        for _ in source:  # one at a time: own data may be large
            pass
        try:
            ConvNet(source.image_shape, source.num_classes)
        except ValueError as error:
            raise sources.SourceError(error) from None


def watch(bench: Workbench, scenario: Scenario) -> Observation:
    """Open a loader and watch as many epochs of it as the scenario says."""
    seen, record = _observation(bench, scenario)
    with bench.opened(scenario) as loader:
        seen.length = length(loader)
        for number in range(scenario.epochs):
            start_epoch(loader, number)
            seen.epochs.append(record.epoch(number, loader))
            if not seen.epochs[-1].ended:
                break
        gc.collect()
        record.look_again()
    return seen


def watch_again(bench: Workbench, scenario: Scenario) -> Observation:
    """Watch another loader of the same scenario."""
    return watch(bench, scenario)


def watch_after_break(bench: Workbench, scenario: Scenario, taken: int) -> Observation:
    """Leave the first epoch after some batches, then watch the following ones."""
    seen, record = _observation(bench, scenario)
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        for _ in itertools.islice(loader, taken):
            pass
        for number in range(1, 1 + scenario.epochs):
            start_epoch(loader, number)
            seen.epochs.append(record.epoch(number, loader))
    return seen


def watch_after_writing(bench: Workbench, scenario: Scenario) -> Written:
    """Overwrite every batch of the first epoch, then watch the following one."""
    seen, record = _observation(bench, scenario)
    source = bench.fresh_source(scenario)
    loader = bench.open(source, scenario.request)
    try:
        start_epoch(loader, 0)
        kept, complaint = _keep(recorder.pairs(_limited(loader, seen.count)))
        by_reading = _changed(bench, scenario, source)
        shared: list[tuple[int, int]] = []
        if complaint is None:
            complaint, shared = _overwrite(kept)
        changed = sorted(set(_changed(bench, scenario, source)) - set(by_reading))
        start_epoch(loader, 1)
        seen.epochs.append(record.epoch(1, loader))
    finally:
        close(loader)
    return Written(seen, complaint, shared, changed)


def source_changes(bench: Workbench, scenario: Scenario) -> list[int]:
    """Read a loader for some epochs, and return the places of the samples of the source that changed."""
    source = bench.fresh_source(scenario)
    loader = bench.open(source, scenario.request)
    try:
        for number in range(scenario.epochs):
            start_epoch(loader, number)
            for _ in _limited(loader, len(source)):
                pass
    finally:
        close(loader)
    return _changed(bench, scenario, source)


def _changed(bench: Workbench, scenario: Scenario, source: Source) -> list[int]:
    if bench.own_data:
        return []  # it got no source
    true = bench.catalogue(scenario).hashes
    return np.flatnonzero(Catalogue(source).hashes != true).tolist()


def random_states(bench: Workbench, scenario: Scenario) -> list[str]:
    """Return the global random generators that an epoch moved."""
    bench.prepare(bench.source(scenario))
    before = _random_states()
    with bench.opened(scenario) as loader:
        for _ in _limited(loader, len(bench.source(scenario))):
            pass
    after = _random_states()
    return [name for name, state in before.items() if state != after[name]]


def _random_states() -> dict[str, object]:
    _, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - the generator that loaders must not move
    return {
        "random": random.getstate(),
        "numpy.random": (np.asarray(keys).tobytes(), *rest),
        "torch": torch.random.get_rng_state().numpy().tobytes(),
    }


def coverage(bench: Workbench, scenario: Scenario) -> Covered:
    """Watch one epoch in constant memory."""
    catalogue = bench.catalogue(scenario)
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        # A sample too many shows already that it is too many; an endless epoch must not go on for ever.
        limit = 2 * len(catalogue.hashes)
        if _is_found(bench):
            parts = recorder.recognised(loader, catalogue, limit)
            return Covered(recorder.summed(parts), catalogue.coverage)
        return Covered(recorder.covered(loader, catalogue.fingerprint, limit), catalogue.coverage)


def carries_ids(bench: Workbench, scenario: Scenario) -> bool:
    """Tell whether batches say which samples they hold; closed after the first."""
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        return all(ids is not None for _, _, ids in itertools.islice(recorder.arrays(loader), 1))


def _is_found(bench: Workbench) -> bool:
    """Tell whether samples must be found each by itself, since their values need not be the source's."""
    return bench.own_data or untried(bench.adapter).tolerance > 0


def difference(bench: Workbench, scenario: Scenario) -> Difference:
    """Make a second pass that names what is missing, repeated, mislabelled or foreign."""
    catalogue: Catalogue | Truth | FirstPass = bench.catalogue(scenario)
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        limit = 3 * len(catalogue.hashes)
        if _is_found(bench):
            return catalogue.compare(*recorder.joined(recorder.recognised(loader, catalogue, limit)))
        return catalogue.compare(*recorder.identities(loader, catalogue.fingerprint, limit))


def length(loader: Any) -> int | None:
    """Return what a loader says of its length, or None if it has none."""
    try:
        return len(loader)
    except TypeError:
        return None


def _observation(bench: Workbench, scenario: Scenario) -> tuple[Observation, recorder.Recorder]:
    source = bench.source(scenario)
    catalogue = bench.catalogue(scenario)
    seen = Observation(scenario, catalogue.labels, source.image_shape, None, owed=catalogue.owed)
    return seen, recorder.Recorder(catalogue, scenario)


def _limited(loader: Any, samples: int) -> Any:
    """Return the batches of a loader, of an endless one only as many as samples could fill."""
    return itertools.islice(loader, 2 * samples + 4)


def _keep(batches: Iterator[Pair]) -> tuple[list[Pair], str | None]:
    """Return the first batches, and what torch says if one of them is made of memory that must not be written to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            kept = list(itertools.islice(batches, _OVERWRITTEN))
            for _ in batches:
                pass
        finally:
            torch.set_warn_always(False)
    read_only = (str(one.message).split(". ")[0] for one in caught if "not writable" in str(one.message))
    return kept, next(read_only, None)


def _overwrite(kept: list[Pair]) -> tuple[str | None, list[tuple[int, int]]]:
    """Write into each batch; return why one could not be written to, and which changed another."""
    shared: list[tuple[int, int]] = []
    for number, (images, labels) in enumerate(kept):
        later = kept[number + 1 :]
        before = [recorder.digest(pair) for pair in later]
        try:
            images.fill_(1 if images.dtype == torch.uint8 else 0.5)
            labels.fill_(7)
        except RuntimeError as error:
            return f"writing into batch {number} failed: {str(error).splitlines()[0]}", shared
        after = [recorder.digest(pair) for pair in later]
        shared += [(number, number + 1 + k) for k in range(len(later)) if before[k] != after[k]]
    return None, shared
