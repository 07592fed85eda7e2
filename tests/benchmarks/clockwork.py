"""What the training loop's own clockwork costs: `python tests/benchmarks/clockwork.py`.

Passes of `run_pass` and of the same loop without its clock are made in pairs, in random balanced
order, on batches that are gathered from a training set of the article's size in memory. Reported
are the medians over the pairs: of the difference for each step, and of clocked / bare - 1 with the
interval that holds the true median in 99 of 100 runs. No step is computed, so on `cpu` the cost is
a share of the loader's own work alone; a network or a slower loader makes the share smaller, and
only batches that are handed out ready made, at no cost, make it larger.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from loaderproof.model.accelerator import Accelerator, Step, accelerator
from loaderproof.model.training import Batches, run_pass

SAMPLES, BATCH_SIZE, STEPS = 60_000, 64, 40
PAIRS = {"cpu": 4000, "emulated:0.3ms": 400, "emulated:2ms": 80}
Loop = Callable[[], object]
NO_LOSS = torch.zeros(())


class Resident:
    """Random samples gathered batch by batch from a whole training set in memory."""

    def __init__(self) -> None:
        """Draw the set."""
        self.images = torch.rand(SAMPLES, 1, 28, 28)
        self.labels = torch.randint(10, (SAMPLES,))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `STEPS` batches."""
        for chosen in torch.randint(SAMPLES, (STEPS, BATCH_SIZE)):
            yield self.images[chosen], self.labels[chosen]


def no_step(images: Tensor, labels: Tensor) -> Tensor:
    """Compute nothing."""
    return NO_LOSS


def bare_pass(batches: Batches, device: Accelerator, step: Step) -> tuple[int, int, float | None]:
    """Make the pass that `run_pass` makes, and count as it does, without a clock."""
    samples, count, loss = 0, 0, None
    device.synchronize()
    for images, labels in batches:
        images, labels = device.put(images), device.put(labels)  # noqa: PLW2901 - as `run_pass` does
        loss = device.run(step, images, labels)
        samples += labels.shape[0]
        count += 1
    device.synchronize()
    return samples, count, None if loss is None else loss.item()


def seconds(work: Loop) -> float:
    """Return how long a call takes."""
    gc.collect(0)
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e9


def paired(bare: Loop, clocked: Loop, pairs: int) -> list[tuple[float, float]]:
    """Return the seconds of both, pair by pair; each goes first in half of the pairs."""
    clocked_first = [False, True] * (pairs // 2)
    random.shuffle(clocked_first)
    times = []
    for swap in clocked_first:
        pair = [seconds(work) for work in ((clocked, bare) if swap else (bare, clocked))]
        times.append((pair[1], pair[0]) if swap else (pair[0], pair[1]))
    return times


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median and its 99 % interval, by order statistics."""
    ordered = sorted(values)
    reach = math.ceil(2.576 * math.sqrt(len(ordered)) / 2)
    middle = len(ordered) // 2
    low, high = ordered[max(middle - reach, 0)], ordered[min(middle + reach, len(ordered) - 1)]
    return low, statistics.median(ordered), high


def main() -> None:
    """Print one line for each kind of run."""
    torch.set_num_threads(1)
    batches = Resident()
    print(f"run_pass / bare loop, passes of {STEPS} steps, resident batches of {BATCH_SIZE}x1x28x28")
    print(f"{'device':22}{'pairs':>6}{'bare us/step':>14}{'clock ns':>10}{'cost':>9}   99 % interval")
    for spec, pairs in PAIRS.items():
        device = accelerator(spec)
        loops = partial(bare_pass, batches, device, no_step), partial(run_pass, batches, device, no_step)
        paired(*loops, pairs=2)  # warm-up
        times = paired(*loops, pairs=pairs)
        low, cost, high = median_interval([clocked / bare - 1 for bare, clocked in times])
        bare_us = statistics.median(bare for bare, _ in times) / STEPS * 1e6
        clock_ns = statistics.median(clocked - bare for bare, clocked in times) / STEPS * 1e9
        print(
            f"{device.name:22}{pairs:6}{bare_us:14.1f}{clock_ns:10.0f}{cost:+9.2%}{low:+9.2%} to {high:+.2%}"
        )


if __name__ == "__main__":
    main()
