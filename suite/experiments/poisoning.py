"""Has a sample of the source raise, and sees what a loader makes of it."""

from __future__ import annotations

import contextlib
import gc
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from loaderproof.loaders.contract import Loader, Source
from loaderproof.suite import leftovers
from loaderproof.suite.answers import Outcome, Skipped
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.workbench import Workbench, close, ending
from loaderproof.suite.experiments.wrapped import Wrapped
from loaderproof.suite.observation import Observation, Scenario


class Poisoned(Wrapped):
    """A source whose sample at one place raises."""

    def __init__(self, source: Source, place: int, error: Exception) -> None:
        super().__init__(source)
        self.name = f"{source.name}, poisoned at {place}"
        self._place, self._error = place, error

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if index == self._place:
            raise self._error
        return super().__getitem__(index)

    @property
    def fingerprint(self) -> str:
        return f"poisoned-{super().fingerprint}"


ERRORS: dict[str, Callable[[str], Exception]] = {
    "ValueError": ValueError,
    "KeyError": KeyError,
    "OSError": OSError,
    "StopIteration": StopIteration,
}


def told(error: BaseException) -> str:
    """Return the whole text of an exception with its causes, and let go of what its frames hold.

    The exception may be part of a cycle: without this the loader would live on until some later
    collection, which is a bad moment for a DataLoader to end its workers.
    """
    text = "".join(traceback.format_exception(error))
    traceback.clear_frames(error.__traceback__)
    return text


def poison(bench: Workbench, scenario: Scenario, place: int, error: str, message: str) -> Outcome:
    """Have one sample of the source raise, and see what becomes of the exception."""
    outcome = _poison(bench, scenario, place, error, message)
    _release_swallowed(ERRORS[error])
    return outcome


def _release_swallowed(kind: Callable[[str], Exception]) -> None:
    """Let go of what the frames of exceptions hold that never came here, for the same reason as above."""
    for one in gc.get_objects():
        if type(one) is kind and one.__traceback__:
            traceback.clear_frames(one.__traceback__)
            one.__traceback__ = None


def _poison(bench: Workbench, scenario: Scenario, place: int, error: str, message: str) -> Outcome:
    came = 0
    try:
        with _poisoned(bench, scenario, place, error, message) as loader:
            for images, _ in recorder.pairs(ending(loader, len(bench.source(scenario)))):
                came += len(images)
    except Exception as raised:  # noqa: BLE001 - any exception will do that carries the message
        return Outcome(told(raised), came)
    return Outcome(None, came)


def skipped(bench: Workbench, scenario: Scenario, place: int, error: str, message: str) -> Skipped:
    """Have one sample of the source raise, and see whether it is left out and counted."""
    catalogue = bench.catalogue(scenario)
    seen = Observation(scenario, catalogue.labels, bench.source(scenario).image_shape, None)
    with _poisoned(bench, scenario, place, error, message) as loader:
        record = recorder.Recorder(catalogue, scenario)
        seen.epochs.append(record.epoch(0, loader))
        return Skipped(seen, getattr(loader, "skipped", None))


def left_after_errors(
    bench: Workbench, scenario: Scenario, place: int, error: str, message: str
) -> list[str]:
    """Have a sample raise several times; return what the loader leaves each time."""
    return leftovers.of(lambda: poison(bench, scenario, place, error, message))


@contextlib.contextmanager
def _poisoned(bench: Workbench, scenario: Scenario, place: int, error: str, message: str) -> Iterator[Loader]:
    """Prepare and open the loader over a poisoned source."""
    source = Poisoned(bench.source(scenario), place, ERRORS[error](message))
    with tempfile.TemporaryDirectory(prefix="loaderproof-") as directory:
        bench.adapter.prepare(source, Path(directory))
        loader = bench.adapter.open(source, Path(directory), scenario.request)
        try:
            yield loader
        finally:
            close(loader)
