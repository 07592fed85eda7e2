"""What becomes of a loader beyond its edges: after the end, without sense, beside another split."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from loaderproof.loaders.contract import Loader
from loaderproof.suite.continuation import Continued, Cut
from loaderproof.suite.experiments import recorder, resumption, runs, states
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.observation import Scenario

_TURNS = 2


def past_the_end(bench: Workbench, scenario: Scenario) -> list[str]:
    """Return what came each time that an iterator was asked again after its end.

    That is `StopIteration`, another exception, or what kind of thing came; nothing if there is no end.
    """
    limit = 2 * len(bench.source(scenario)) + 4
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        iterator = iter(loader)
        for _ in itertools.islice(iterator, limit):
            limit -= 1
        return [_next_of(iterator) for _ in range(_TURNS)] if limit else []


def _next_of(iterator: Any) -> str:
    try:
        came = next(iterator)
    except StopIteration:
        return "StopIteration"
    except Exception as error:  # noqa: BLE001 - which one is what is asked
        return f"{type(error).__name__}: {error}"
    return f"a batch of {len(came[0])} samples" if isinstance(came, (tuple, list)) else repr(type(came))


def first_batch(bench: Workbench, scenario: Scenario) -> int:
    """Return how many samples the first batch holds; 0 if none comes, or an exception."""
    try:
        loader = bench.open(bench.fresh_source(scenario), scenario.request)
    except Exception:  # noqa: BLE001 - it is what a senseless request deserves
        return 0
    try:
        start_epoch(loader, 0)
        return next((len(labels) for _, labels in recorder.pairs(loader)), 0)
    except Exception:  # noqa: BLE001 - as above
        return 0
    finally:
        close(loader)


def strangers(bench: Workbench, scenario: Scenario, other: Scenario) -> list[tuple[int, str, int]]:
    """Read two splits in turn, as a training does, and count what came in one that belongs to the other.

    Args:
        bench: the adapter.
        scenario: epochs over one split.
        other: as many over another.

    Returns:
        epoch, split and number of samples, for each epoch in which there are any.
    """
    found = []
    with bench.opened(scenario) as first, bench.opened(other) as second:
        for number in range(scenario.epochs):
            for loader, mine, theirs in ((first, scenario, other), (second, other, scenario)):
                start_epoch(loader, number)
                count = _foreign(
                    loader, *(bench.catalogue(replace(one, first=None)) for one in (mine, theirs))
                )
                found += [(number, mine.request.split, count)] if count else []
    return found


def _foreign(loader: Loader, mine: Catalogue, theirs: Catalogue) -> int:
    """Return how many samples of an epoch are those of another split, and not of this one as well."""
    came = recorder.identities(loader, mine.fingerprint, 2 * len(mine.labels))[0]
    return int((theirs.has(came) & ~mine.has(came)).sum())


def resumed(bench: Workbench, scenario: Scenario, taken: int) -> tuple[list[int], Continued | None]:
    """Take a state in the last epoch of a scenario, and watch a fresh loader go on from it.

    Returns:
        places of the samples that came before, and what came after; None if the epoch was over by then.
    """
    last = scenario.epochs - 1
    with bench.opened(scenario) as loader:
        for number in range(last):
            start_epoch(loader, number)
            for _ in runs.limited(bench, scenario, loader):
                pass
        start_epoch(loader, last)
        passing = runs.limited(bench, scenario, loader)
        handed, _ = runs.places_of(bench, scenario, itertools.islice(passing, taken))
        saved = states.taken(loader, Cut(last, taken))
        over = next(passing, None) is None
        del passing
    return handed, None if over else resumption.resumed_after(bench, scenario, [], saved)
