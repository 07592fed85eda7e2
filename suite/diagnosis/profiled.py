"""Runs of their own for profiles: a fresh process of the loader, nothing of which is timed."""

from __future__ import annotations

from typing import Any

from loaderproof.suite.judged import Judged, Place

_PATIENCE = 10


def profiled(subject: Judged, experiment: str, **more: object) -> Any:
    """Return what an experiment finds in a new process of the loader, which ends with it.

    Args:
        subject: the loader.
        experiment: gets the timed scenario, the name of the device, and what follows.
        more: its further arguments.

    Raises:
        NotKept: the loader gave no answer.
    """
    scenario, device = subject.timed_scenario(), subject.session.settings.device
    given = {"scenario": scenario, "device": device, **more}
    return subject.ask(experiment, Place(scenario), times=_PATIENCE, afresh=True, **given)
