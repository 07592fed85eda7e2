"""Some steps of training as torch.profiler sees them, in the loader's own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from loaderproof.suite.diagnosis.recordings import UNSEEN, Operation, Trace
from loaderproof.suite.experiments.profiled import training
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario

# What the wait for a batch is called in the trace: who looks there has to know what is not to be seen.
WAITING = "next batch (what worker processes do for it is not seen)"
# Steps that are not looked at; steps in which the profiler runs but keeps nothing, as its first are slow.
_WAIT, _WARMUP = 2, 3
_MOST = 8


def record(bench: Workbench, scenario: Scenario, device: str, file: str, active: int) -> Trace:
    """Train until some steps were traced; write them in Chrome's format.

    Args:
        bench: of the loader.
        scenario: what it is asked for.
        device: accelerator, as `--loader-device` takes it.
        file: where the trace goes.
        active: how many steps are traced.
    """
    with training(bench, scenario, device) as run:
        operations: list[Operation] = []
        steps = _Steps(active)

        def write(prof: profile) -> None:
            prof.export_chrome_trace(file)
            operations.extend(_operations(prof))

        with profile(activities=_activities(), schedule=steps.schedule, on_trace_ready=write) as prof:
            run.until(lambda: steps.over, lambda batches: steps.watching(batches, prof))
        return Trace(steps.traced, operations, run.device.name)


def _activities() -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]


class _Steps:
    """Counts steps, and tells the profiler of each."""

    def __init__(self, active: int) -> None:
        self.schedule = schedule(wait=_WAIT, warmup=_WARMUP, active=active, repeat=1)
        self._active, self._done = active, 0

    @property
    def traced(self) -> int:
        return min(max(self._done - _WAIT - _WARMUP, 0), self._active)

    @property
    def over(self) -> bool:
        return self._done >= _WAIT + _WARMUP + self._active

    def watching(self, batches: Iterator[Any], prof: profile) -> Iterator[Any]:
        end = object()
        while True:
            with record_function(WAITING):
                batch = next(batches, end)
            if batch is end:
                return
            yield batch
            if self._done == _WAIT + _WARMUP:  # the profiler keeps it only while it records
                prof.add_metadata("loader_workers", UNSEEN)
            self._done += 1
            prof.step()


def _operations(prof: profile) -> list[Operation]:
    made = [
        Operation(one.key, one.count, one.self_cpu_time_total, one.self_device_time_total)
        for one in prof.key_averages()
        # The whole steps, which hold all others.
        if not one.key.startswith("ProfilerStep")
    ]
    return sorted(made, key=lambda one: -max(one.self_cpu_us, one.self_device_us))[:_MOST]
