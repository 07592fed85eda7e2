"""The same training with one thing changed: where the batches come from."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loaderproof.loaders.contract import Loader
from loaderproof.loaders.function import untried
from loaderproof.model.accelerator import Accelerator, accelerator
from loaderproof.suite.diagnosis import evidence
from loaderproof.suite.diagnosis.evidence import Activity, Role
from loaderproof.suite.experiments.activity import PROC, Watching, settle
from loaderproof.suite.experiments.heartbeat import Heartbeat
from loaderproof.suite.experiments.rounds import alone, ceiling, timed_pass
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.observation import Scenario
from loaderproof.suite.timeline import Timing

# A pass is cut off after so long, if it has made so many steps by then.
_PASS_S, _LEAST_STEPS = 0.5, 24
# Own batches that are kept for the replay.
_KEPT = 16
_LOOK_S, _LOOK_PASSES = 1.0, 200
_SETTLE_S = 1.0
# Of the life of the worker that was seen longest.
_LIFE = 0.25


class Arms:
    """A loader, the same loader without workers, its batches in memory, and batches on the device.

    Args:
        bench: opens the loaders.
        scenario: what they are asked for.
        device: name of the accelerator.
    """

    def __init__(self, bench: Workbench, scenario: Scenario, device: str) -> None:
        source = bench.fresh_source(scenario)
        self.device: Accelerator = accelerator(device)
        own = ceiling(bench, scenario, self.device)
        self.trainer = own.trainer(source, scenario.request, self.device)
        self.batches = self.steps = len(own)
        self.loader = bench.open(source, scenario.request)
        self.without: Loader | None = None
        self.directory = bench.prepare(source).directory if untried(bench.adapter).on_disk else Path()
        self.files: list[str] = []
        self.epoch = 0
        self._bystanders = _sleepers()
        self._calibrate()
        self._sources: dict[str, Iterable[Any]] = {
            evidence.CEILING: own,
            evidence.REPLAY: Replay(self._kept, self.batches),
            evidence.WARM: self.loader,
            evidence.COLD: self.loader,
            evidence.ALONE: self.loader,
        }
        self._bench, self._scenario = bench, scenario

    def names(self) -> list[str]:
        """Return which arms there are, once it has been looked at the loader alone: twins would be in the picture."""
        self.without = _without_workers(self._bench, self._scenario)
        if self.without is not None:
            self._sources[evidence.PLAIN] = self.without
        if self.device.device.type == "cuda" and not any(
            part.is_cuda or part.is_pinned() for part in self._kept[0]
        ):
            pinned = [tuple(part.pin_memory() for part in batch) for batch in self._kept]
            self._sources[evidence.PINNED] = Replay(pinned, self.batches)
        cold = hasattr(os, "posix_fadvise") and (self.files or _below(self.directory))
        return [arm for arm in self._sources if arm != evidence.COLD or cold]

    def _calibrate(self) -> None:
        """Keep the first batches, and find out how many steps fit into a pass."""
        start_epoch(self.loader, self._next())
        self._kept = []
        began = time.perf_counter()
        for number, batch in enumerate(self.loader):
            if number < _KEPT:
                self._kept.append(tuple(_copy(part) for part in batch[:2]))
            if time.perf_counter() - began > 2 * _PASS_S and number >= _LEAST_STEPS:
                each = (time.perf_counter() - began) / (number + 1)
                self.steps = min(self.batches, max(_LEAST_STEPS, int(_PASS_S / each)))
                break
        self._settle()

    def _next(self) -> int:
        self.epoch += 1
        return self.epoch - 1

    def run(self, arm: str) -> Timing:
        """Make one pass."""
        if arm == evidence.COLD:
            drop_caches([*self.files, *_below(self.directory)])
        batches = self._sources[arm]
        if batches is self.loader or batches is self.without:
            start_epoch(batches, self._next())
        part = Part(batches, self.steps)
        made = alone(part) if arm == evidence.ALONE else timed_pass(part, self.device, self.trainer.step)
        if batches is self.loader or batches is self.without:
            self._settle()
        return made

    def _settle(self) -> None:
        """Let what was loaded ahead for a pass that was cut off be no part of the next one."""
        if self.steps < self.batches:
            settle(set(self._bystanders), _SETTLE_S)

    def look(self) -> Activity | None:
        """Go through the loader alone, while another process looks at it."""
        if not (PROC / "self/schedstat").exists():
            return None
        beat = Heartbeat()
        with beat.beating():
            watching = Watching([*self._bystanders, beat.tid])
            deadline, passes = time.perf_counter() + _LOOK_S, 0
            while time.perf_counter() < deadline and passes < _LOOK_PASSES:
                self._pass_alone(watching, deadline)
                passes += 1
            found = watching.end()
        self.files = found["files"]
        return activity(found, beat.late_s)

    def _pass_alone(self, watching: Watching, deadline: float) -> None:
        start_epoch(self.loader, self._next())
        iterator = iter(self.loader)
        if next(iterator, None) is None:
            return
        with watching.looking():
            for number, _ in enumerate(iterator, 2):
                if number == self.batches or (time.perf_counter() > deadline and number >= _LEAST_STEPS):
                    break
        self._settle()

    def close(self) -> None:
        """Close the loaders."""
        close(self.loader)
        if self.without is not None:
            close(self.without)


@dataclass
class Part:
    """The first batches of each pass over a loader."""

    batches: Iterable[Any]
    steps: int

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.batches), self.steps)


@dataclass
class Replay:
    """Batches in memory, again and again."""

    kept: list[tuple[Tensor, ...]]
    batches: int

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        return itertools.islice(itertools.cycle(self.kept), self.batches)


def _copy(part: Tensor) -> Tensor:
    """Return a copy that is as slow to move: with the same strides, pinned if the tensor is."""
    gapless = part.storage_offset() == 0 and part.untyped_storage().nbytes() == part.nbytes
    if gapless or part.is_cuda or 0 in part.stride():  # a repeated axis has no memory of its own
        copy = part.clone()
    else:
        copy = torch.empty_strided(part.size(), part.stride(), dtype=part.dtype).copy_(part)
    return copy.pin_memory() if part.is_pinned() else copy


def _without_workers(bench: Workbench, scenario: Scenario) -> Loader | None:
    if not scenario.request.num_workers:
        return None
    request = replace(scenario.request, num_workers=0)
    try:
        return bench.open(bench.fresh_source(scenario), request)
    except Exception:  # noqa: BLE001  # options that make sense with workers only; then nothing is compared
        return None


def start(bench: Workbench, scenario: Scenario, device: str) -> tuple[str, int]:
    """Open a loader to be compared; return the name of the device, and the number of batches in an epoch."""
    finish(bench)
    bench.timed = arms = Arms(bench, scenario, device)
    return arms.device.name, arms.batches


def look(bench: Workbench) -> tuple[Activity | None, list[str]]:
    """Look at the loader running alone; return that, and which arms there are to compare."""
    return bench.timed.look(), bench.timed.names()


def run(bench: Workbench, arm: str) -> Timing:
    """Make one pass of an arm."""
    made: Timing = bench.timed.run(arm)
    return made


def finish(bench: Workbench) -> None:
    """Close what was compared last."""
    if isinstance(bench.timed, Arms):
        bench.timed.close()
        bench.timed = None


def drop_caches(files: Iterable[str]) -> None:
    """Have the kernel forget the pages of files that it can read again."""
    for name in files:
        try:
            descriptor = os.open(name, os.O_RDONLY)
        except OSError:
            continue
        try:
            os.fdatasync(descriptor)  # what is not written yet cannot be forgotten
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def activity(found: dict[str, Any], late_s: list[float]) -> Activity:
    """Sum up what the process beside this one saw."""
    main, beside = str(found["root"]), 0.0
    for thread in found["threads"]:
        beside += thread["cpu_s"] if str(thread["pid"]) == main and not thread["main"] else 0.0
    seconds = max(found["seconds"], 1e-9)
    lives = {pid: seen["looks"] for pid, seen in found["processes"].items() if pid != main}
    # Those that were there for a short while, such as the last ones of a pass, tell little of the others.
    workers = [pid for pid, looks in lives.items() if looks >= _LIFE * max(lives.values())]
    return Activity(
        seconds=seconds,
        main=_role(main, found),
        workers=[_role(pid, found) for pid in workers],
        threads_cpu=beside / seconds,
        late_ms=1e3 * float(np.mean(late_s or [0.0])),
        files=found["files"],
    )


def _role(pid: str, found: dict[str, Any]) -> Role:
    """Return what a process did, as shares of the time in which it was there."""
    looks = found["processes"][pid]
    seconds = max(found["seconds"] * looks["looks"] / found["looks"], 1e-9)
    threads = [thread for thread in found["threads"] if str(thread["pid"]) == pid]
    cpu = sum(thread["cpu_s"] for thread in threads)
    return Role(
        running=looks["running"] / looks["looks"],
        device=looks["device"] / looks["looks"],
        cpu=cpu / seconds,
        demand=(cpu + sum(thread["queued_s"] for thread in threads)) / seconds,
    )


def _sleepers() -> list[int]:
    """Return the threads that are there before a loader is asked for anything, but for the main one."""
    main, threads = threading.main_thread().native_id, PROC / "self/task"
    # Only Linux has such a folder.
    return [int(one.name) for one in threads.iterdir() if int(one.name) != main] if threads.is_dir() else []


def _below(directory: Path) -> list[str]:
    return [str(path) for path in directory.rglob("*") if path.is_file()] if directory != Path() else []
