"""`--loader-tune`: which settings of a loader are worth having, measured against its default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from loaderproof.loaders.contract import Promise
from loaderproof.suite.diagnosis import tuning_report
from loaderproof.suite.diagnosis.cores import cores
from loaderproof.suite.diagnosis.sweep import sweep
from loaderproof.suite.diagnosis.tuning import Setting, Sweep, worker_counts
from loaderproof.suite.diagnosis.tuning_search import Plan, search
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.subject import SubjectError

_PATIENCE = 10


@pytest.mark.diagnosis
def test_tune(subject: Judged) -> None:
    """Workers, then each option that the adapter declares as tunable, side by side; the best is told."""
    first = subject.session.first_of(subject.case.spec)
    if subject.case != first:
        pytest.skip(f"the settings of a loader are swept once, with {first.label}")
    device = subject.ask(
        "tuning_rounds:warm_up",
        Place(subject.timed_scenario()),
        times=_PATIENCE,
        scenario=subject.timed_scenario(),
        device=subject.session.settings.device,
    )
    plan = _plan(subject, device)
    if not plan.workers and not plan.options:
        why = f"it takes no workers, and declares no options to be tuned on {device}"
        subject.tell("best settings", f"nothing to try: {why}")
        return

    def measure(what: str, settings: Sequence[Setting]) -> Sweep:
        asked = subject.timed_scenario().request
        return sweep(subject, [setting.request(asked) for setting in settings], what=f"tuning {what}")

    found = search(plan, measure)
    peaks = _peaks(subject, [tried.setting for tried in found.tried if not tried.failed])
    scenario = subject.timed_scenario()
    about = f"epochs of {scenario.first or 'all'} samples of {scenario.data} on {device}; intervals hold together, 95 %"
    subject.tell("best settings", tuning_report.text(found, peaks, about))
    subject.note("tune", tuning_report.as_data(found, peaks))


def _plan(subject: Judged, device: str) -> Plan:
    about, request = subject.case.description, subject.case.request()
    options = {
        name: option for name, option in about.tunable.items() if device.startswith("cuda") or not option.cuda
    }
    workers = Promise.WORKERS in about.promises
    return Plan(
        Setting(request.num_workers if workers else None, tuple(request.options.items())),
        worker_counts(cores(), subject.session.settings.workers) if workers else (),
        options if workers else {name: option for name, option in options.items() if not option.min_workers},
    )


def _peaks(subject: Judged, settings: Sequence[Setting]) -> dict[Setting, int | None]:
    """Return the most memory that each setting holds, in bytes, measured in a process of its own."""
    subject.progress("memory of each setting")
    scenario = subject.timed_scenario()
    scenarios = [replace(scenario, request=setting.request(scenario.request)) for setting in settings]
    try:
        peaks = subject.session.ask(
            subject.case,
            subject.test,
            "tuning_rounds:memory",
            times=_PATIENCE,
            afresh=True,
            scenarios=scenarios,
            device=subject.session.settings.device,
        )
    except SubjectError:  # what was measured before is worth telling all the same
        return {}
    return dict(zip(settings, peaks, strict=True))
