"""How far the reported times can be trusted: `python tests/benchmarks/fidelity.py`.

First, planted waits. A loader gives each batch at a moment fixed beforehand, so that the training
waits for a known share of the time. The truth comes from what loader and step wrote down themselves
by a clock of their own, late wake-ups included, and from nothing of what is under test:

- cpu: the loader's waits, over the time between the ends of the first and the last step;
- emulated: a device that is never told anything but when each batch came (Lindley's recursion: a step
  begins when its batch is there and the step before it is done), and the share of time it is idle.

Second, the emulated device. Steps are queued back to back between two waits for the device, as with
a loader that is never late; measured / nominal time of a step, and the CPU time of the process as a
share of one core.

Each is repeated. Printed are the median and the worst; a median beyond its bound makes the exit code 1.
The worst may be the machine's own: where it is too busy to feed a device in time, the device is idle.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from loaderproof.model.accelerator import Accelerator, Cpu, Emulated
from loaderproof.suite.experiments.rounds import timed_pass
from loaderproof.suite.timeline import Timing

SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
STEP_NS = 2_000_000
SHARE_BOUND = 0.01

STEPS_US = (300, 1_000, 2_000, 5_000, 20_000)
STEP_BOUND, CORE_BOUND = 0.01, 0.05

RUNS, RUN_NS = 11, 400_000_000
# Short, so that a busy machine leaves at least half of them alone.
STEP_RUNS, STEP_RUN_NS = 51, 60_000_000
BATCH = torch.zeros(64, 1, 28, 28), torch.zeros(64, dtype=torch.int64)


def sleep_until(deadline_ns: int) -> int:
    """Sleep to a moment of the monotonic clock, and return when it really was."""
    while (now := time.monotonic_ns()) < deadline_ns:
        time.sleep((deadline_ns - now) / 1e9)
    return now


@dataclass
class Planted:
    """A loader that gives its batches at fixed moments, and the step that computes for a fixed time.

    Attributes:
        steps: how many.
        period_ns: from one batch to the next; None for a fixed wait instead.
        wait_ns: from being asked to giving.
        asked, gave, ended: what it wrote down in the last pass.
    """

    steps: int
    period_ns: int | None = None
    wait_ns: int = 0
    asked: list[int] = field(default_factory=list)
    gave: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches."""
        self.asked, self.gave, self.ended = [], [], []
        start = time.monotonic_ns()
        for step in range(self.steps):
            asked = time.monotonic_ns()
            deadline = asked + self.wait_ns if self.period_ns is None else start + step * self.period_ns
            self.asked.append(asked)
            self.gave.append(sleep_until(deadline))
            yield BATCH

    def step(self, images: Tensor, labels: Tensor) -> Tensor:  # noqa: ARG002 - a step takes both
        """Take the time of a step."""
        self.ended.append(sleep_until(time.monotonic_ns() + STEP_NS))
        return labels[0]


def on_cpu(share: float) -> tuple[float, list[float]]:
    """Return the true share of waiting, and what is reported as stall and as wait."""
    wait_ns = round(STEP_NS * share / (1 - share))
    loader = Planted(RUN_NS // (STEP_NS + wait_ns), wait_ns=wait_ns)
    found = timed_pass(loader, Cpu(), loader.step)
    waits = [gave - asked for asked, gave in zip(loader.asked[1:], loader.gave[1:], strict=True)]
    truth = sum(waits) / (loader.ended[-1] - loader.ended[0])
    return truth, [stall(found), float(found.waits[1:].sum()) / found.measured_s]


def on_emulated(share: float) -> tuple[float, list[float]]:
    """Return the true share of time in which a device with a queue is idle, and what is reported."""
    period_ns = round(STEP_NS / (1 - share)) if share else 0
    loader = Planted(RUN_NS // max(period_ns, STEP_NS), period_ns=period_ns)
    found = timed_pass(loader, Emulated(STEP_NS), loader.step)
    first = end = loader.gave[0] + STEP_NS
    for gave in loader.gave[1:]:
        end = max(gave, end) + STEP_NS
    return 1 - (loader.steps - 1) * STEP_NS / (end - first), [stall(found)]


def stall(found: Timing) -> float:
    """Return the reported share of time in which the device did nothing."""
    assert found.utilisation is not None
    return 1 - found.utilisation


def planted(run: Callable[[float], tuple[float, list[float]]], names: list[str]) -> bool:
    """Print a line for each planted share and each reported figure; tell whether all are within the bound."""
    good = True
    for share in SHARES:
        runs = [run(share) for _ in range(RUNS)]
        for place, name in enumerate(names):
            pairs = [(truth, reported[place]) for truth, reported in runs]
            differences = [reported - truth for truth, reported in pairs]
            middle, worst = statistics.median(differences), max(differences, key=abs)
            good &= abs(middle) <= SHARE_BOUND
            true, told = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(
                f"{name:16}{share:9.0%}{true:9.2%}{told:11.2%}{100 * middle:+12.2f}{100 * worst:+9.2f}",
                flush=True,
            )
    return good


def no_step(images: Tensor, labels: Tensor) -> Tensor:
    """Stand in for the step, which an emulated device does not call."""
    return labels


def queued(device: Accelerator, steps: int) -> tuple[float, float]:
    """Queue a number of steps; return seconds for each step, and CPU seconds for each second."""
    device.synchronize()
    start, burnt = time.perf_counter(), time.process_time()
    for _ in range(steps):
        device.run(no_step, *BATCH)
    device.synchronize()
    wall, cpu = time.perf_counter() - start, time.process_time() - burnt
    return wall / steps, cpu / wall


def emulated(step_us: int) -> bool:
    """Print a line for one nominal step; tell whether it is kept, and no core burnt."""
    device, steps = Emulated(step_us * 1_000), STEP_RUN_NS // (step_us * 1_000)
    queued(device, steps)  # warm-up
    seconds, cpu = zip(*(queued(device, steps) for _ in range(STEP_RUNS)), strict=True)
    errors = [one * 1e6 / step_us - 1 for one in seconds]
    middle, worst, core = statistics.median(errors), max(errors, key=abs), statistics.median(cpu)
    print(f"{step_us / 1e3:10g}{steps:7}{middle:+10.2%}{worst:+10.2%}{core:8.1%}{max(cpu):8.1%}", flush=True)
    return abs(middle) <= STEP_BOUND and core <= CORE_BOUND


def main() -> int:
    """Print both tables; return the exit code."""
    print(f"share of time without a batch, steps of {STEP_NS / 1e6:g} ms, {RUNS} runs each")
    print(
        f"{'device, figure':16}{'planted':>9}{'true':>9}{'reported':>11}{'difference':>12}{'worst':>9}  points"
    )
    good = planted(on_cpu, ["cpu, stall", "cpu, wait"])
    good &= planted(on_emulated, ["emulated, stall"])
    print(f"\nemulated step against its nominal time, {STEP_RUNS} runs of {STEP_RUN_NS / 1e6:g} ms each")
    print(f"{'nominal ms':>10}{'steps':>7}{'median':>10}{'worst':>10}{'core':>8}{'most':>8}")
    for step_us in STEPS_US:
        good &= emulated(step_us)
    bounds = f"{100 * SHARE_BOUND:g} point, {STEP_BOUND:.0%} of a step, {CORE_BOUND:.0%} of a core"
    print(f"\nmedians {'within' if good else 'NOT within'} {bounds}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
