"""What one rank does in a step."""

from __future__ import annotations

import contextlib
import faulthandler
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np

from loaderproof.suite.experiments import recorder, watching
from loaderproof.suite.experiments.workbench import Workbench, start_epoch
from loaderproof.suite.fingerprint import Coverage, Fingerprint
from loaderproof.suite.sharding import Step


def attempt(kind: str, bench: Workbench, step: Step, rank: int, *, deadly: bool) -> Any:
    """Take a step as one of the ranks; return the text of an exception if there is one.

    Args:
        kind: as of a step, or `identify` for the hashes and labels of all samples that come.
        bench: the adapter.
        step: what to do.
        rank: of this process.
        deadly: whether a rank that takes too long prints its stacks and ends.
    """
    try:
        with _limited(step.limit_s) if deadly else contextlib.nullcontext():
            return _KINDS[kind](bench, step, rank)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a loader raises is a finding
        told = "".join(traceback.format_exception(error))
        # Else the exception could keep a loader alive into the next step.
        traceback.clear_frames(error.__traceback__)
        return told


def _watch(bench: Workbench, step: Step, rank: int) -> Any:
    if step.leaves == rank:
        return watching.watch_after_break(bench, step.of(rank), taken=1)
    return watching.watch(bench, step.of(rank))


def _cover(bench: Workbench, step: Step, rank: int) -> Coverage:
    source = bench.source(step.scenario)
    with bench.opened(step.of(rank)) as loader:
        start_epoch(loader, 0)
        return recorder.covered(loader, _fingerprint(bench, step), 2 * len(source))


def _identify(bench: Workbench, step: Step, rank: int) -> Any:
    source = bench.source(step.scenario)
    with bench.opened(step.of(rank)) as loader:
        start_epoch(loader, 0)
        return recorder.identities(loader, _fingerprint(bench, step), 2 * len(source))


_KINDS = {"watch": _watch, "cover": _cover, "identify": _identify}


def _fingerprint(bench: Workbench, step: Step) -> Fingerprint:
    if bench.own_data:
        own: Fingerprint = bench.catalogue(step.scenario).fingerprint
        return own
    source = bench.source(step.scenario)
    return Fingerprint(int(np.prod(source.image_shape)))


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Have this process print its stacks and end, if what is done takes too long."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
