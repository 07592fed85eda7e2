"""Differential runs: the same training with one thing changed, side by side, in blocks."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loaderproof.loaders.contract import Promise
from loaderproof.suite.blocks import orders
from loaderproof.suite.diagnosis import pyspy, stacks
from loaderproof.suite.diagnosis.causes import LOADING, Cause
from loaderproof.suite.diagnosis.cores import cores
from loaderproof.suite.diagnosis.evidence import Evidence
from loaderproof.suite.diagnosis.frames import stacks as stacks_of
from loaderproof.suite.diagnosis.profiled import profiled
from loaderproof.suite.diagnosis.sweep import sweep
from loaderproof.suite.diagnosis.tuning import worker_counts
from loaderproof.suite.diagnosis.verdict import judge
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Scenario

# Blocks are measured until there are enough and so many seconds are over; if they do not decide, until
# the later limit. Causes are estimated, not tested, so looking at them early costs no level.
_LEAST, _MOST = 6, 40
_ENOUGH_S, _AT_MOST_S = 5.0, 20.0
_PATIENCE = 10
# A look at the stacks that is long enough for shares within a few points.
_STACKS_S, _STACKS_RATE = 2, 100


Ask = Callable[..., Any]


def investigate(subject: Judged) -> Evidence:
    """Run the arms in blocks, look at the loader running alone, and follow up what that shows.

    Args:
        subject: the loader.

    Raises:
        NotKept: it gave no answer.
    """
    scenario, device = subject.timed_scenario(), subject.session.settings.device

    def ask(what: str, **arguments: Any) -> Any:
        return subject.ask(what, Place(scenario), times=_PATIENCE, **arguments)

    found = compare(ask, scenario, device, subject.case.label, subject.progress)
    if judge(found).cause in LOADING:
        _sweep_workers(subject, found)
        _look_at_stacks(subject, found)
    return found


def compare(
    ask: Ask, scenario: Scenario, device: str, label: str, say: Callable[[str], object] = lambda _: None
) -> Evidence:
    """Measure all arms of a loader side by side.

    Args:
        ask: has an experiment made in the loader's process; takes its name and arguments.
        scenario: what the loader is asked for.
        device: where to train.
        label: of the loader; decides the order of the arms, too.
        say: shows how far it is.
    """
    name, batches = ask("differential:start", scenario=scenario, device=device)
    say("looks at the loader alone")
    seen, arms = ask("differential:look")
    found = Evidence(label, name, scenario.request.num_workers, batches, cores(), activity=seen)
    began = time.monotonic()
    for order in orders(len(arms), _MOST, zlib.crc32(label.encode())):
        say(f"block {found.blocks + 1}")
        for arm in (arms[turn] for turn in order):
            found.passes.setdefault(arm, []).append(ask("differential:run", arm=arm))
        if _decided(found, time.monotonic() - began):
            break
    ask("differential:finish")
    return found


def _decided(found: Evidence, seconds: float) -> bool:
    if found.blocks < _LEAST or seconds < _ENOUGH_S:
        return False
    return seconds > _AT_MOST_S or judge(found).cause is not Cause.UNKNOWN


def _sweep_workers(subject: Judged, found: Evidence) -> None:
    """Measure other numbers of workers beside this one."""
    if Promise.WORKERS not in subject.case.description.promises:
        return
    request = subject.timed_scenario().request
    counts = worker_counts(cores(), subject.session.settings.workers)
    others = [count for count in counts if count != found.workers and count >= subject.case.setup.min_workers]
    made = sweep(
        subject,
        [request, *(replace(request, num_workers=count) for count in others)],
        what="number of workers",
    )
    for number, count in enumerate(others, start=1):
        if number in made.seconds:
            found.speeds[count] = made.speed(number, comparisons=len(others))


def _look_at_stacks(subject: Judged, found: Evidence) -> None:
    """Find the functions in which loading spends its time, where py-spy is installed and allowed."""
    if not pyspy.tool():
        return
    subject.progress("looks at the stacks")
    recording = profiled(subject, "profiled_stacks:record", seconds=_STACKS_S, rate=_STACKS_RATE)
    found.hot = stacks.hottest(stacks_of(recording.raw, recording.pid))
