"""How well an emulated step keeps its time, and what it burns: `python tests/benchmarks/emulation.py`.

Steps are queued back to back, as a loader that is never late would, between two waits for the
device. Reported is measured / nominal time of a step, the median over the repeats and their range,
and the CPU time of the process as a share of the run.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import Tensor

from loaderproof.model.accelerator import Accelerator, Emulated

STEPS_US = (300, 1_000, 2_000, 5_000, 20_000)
REPEATS = 11
RUN_US = 400_000
BATCH = torch.zeros(64, 1, 28, 28), torch.zeros(64, dtype=torch.int64)


def no_step(images: Tensor, labels: Tensor) -> Tensor:
    """Stand in for the step, which an emulated device does not call."""
    return labels


def run(device: Accelerator, steps: int) -> tuple[float, float]:
    """Queue a number of steps.

    Returns:
        Seconds for each step, and CPU seconds for each second.
    """
    device.synchronize()
    start, burnt = time.perf_counter(), time.process_time()
    for _ in range(steps):
        device.run(no_step, *BATCH)
    device.synchronize()
    wall, cpu = time.perf_counter() - start, time.process_time() - burnt
    return wall / steps, cpu / wall


def main() -> None:
    """Print one line for each step time."""
    print(f"measured / nominal step, {REPEATS} runs of {RUN_US / 1e6:g} s each")
    print(f"{'nominal ms':>10}{'steps':>7}{'median':>10}{'least':>10}{'most':>10}{'CPU':>8}")
    for step_us in STEPS_US:
        device, steps = Emulated(step_us * 1_000), RUN_US // step_us
        run(device, steps)  # warm-up
        seconds, cpu = zip(*(run(device, steps) for _ in range(REPEATS)), strict=True)
        ratios = [one * 1e6 / step_us for one in seconds]
        print(
            f"{step_us / 1e3:10g}{steps:7}{statistics.median(ratios):10.4f}{min(ratios):10.4f}"
            f"{max(ratios):10.4f}{statistics.median(cpu):8.2%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
