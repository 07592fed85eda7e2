"""What the benchmarks have done to a loader, in its own process; times are taken here."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from loaderproof.loaders.contract import Loader, Request, Source
from loaderproof.model.accelerator import Accelerator, Step, accelerator
from loaderproof.model.training import Batches, Trainer, run_pass
from loaderproof.suite.answers import Setup
from loaderproof.suite.experiments.workbench import Workbench, close, ending, start_epoch
from loaderproof.suite.observation import Scenario
from loaderproof.suite.timeline import Readings, Timing, timing

# Distinct batches of the ceiling; more would only measure how much memory there is.
_CEILING_BATCHES = 16


class Timed:
    """An open loader, the device it feeds, and the ceiling beside it."""

    def __init__(self, bench: Workbench, scenario: Scenario, loader: Loader, device: str) -> None:
        self.loader, self.device = loader, accelerator(device)
        self.ceiling = ceiling(bench, scenario, self.device)
        self.trainer = self.ceiling.trainer(bench.source(scenario), scenario.request, self.device)
        self.epoch = 0


class Ceiling:
    """As many batches as an epoch has, of the same sizes, that lie on the device already.

    Args:
        batches: the first ones, of full size; they come again and again.
        count: samples in an epoch.
        request: says how they are batched.
    """

    def __init__(self, batches: list[tuple[Tensor, Tensor]], count: int, request: Request) -> None:
        size, self._batches = request.batch_size, batches
        self._sizes = [size] * (count // size) + (
            [count % size] if count % size and not request.drop_last else []
        )

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for (images, labels), size in zip(itertools.cycle(self._batches), self._sizes):
            yield (images, labels) if len(labels) == size else (images[:size], labels[:size])

    def trainer(self, source: Source, request: Request, device: Accelerator) -> Trainer:
        """Return a network for such batches; a loader over its own data need not keep the shape of their truth."""
        *_, channels, height, width = (*source.image_shape[2:], *source.image_shape[:2])
        if self._batches and self._batches[0][0].ndim == 4:
            channels, height, width = self._batches[0][0].shape[1:]
        return Trainer((height, width, channels), source.num_classes, device, seed=request.seed)


def ceiling(bench: Workbench, scenario: Scenario, device: Accelerator) -> Ceiling:
    """Return the ceiling of a scenario: batches of its source, or of a loader's own data."""
    source, request = bench.source(scenario), scenario.request
    if bench.own_data:
        with bench.opened(scenario) as loader:
            first = [(batch[0], batch[1]) for batch in itertools.islice(loader, _CEILING_BATCHES)]
        full = [batch for batch in first if len(batch[1]) == request.batch_size] or first
        batches = [(device.put(images), device.put(labels)) for images, labels in full]
    else:
        starts = range(0, min(len(source), _CEILING_BATCHES * request.batch_size), request.batch_size)
        batches = [_batch(source, start, request.batch_size, device) for start in starts]
    return Ceiling(batches, len(source), request)


def start(bench: Workbench, scenario: Scenario, device: str) -> Setup:
    """Open the loader of a scenario for the rounds that follow."""
    finish(bench)
    source = bench.fresh_source(scenario)
    prepared = bench.prepare(source)
    began = time.perf_counter()
    loader = bench.open(source, scenario.request)
    opened = time.perf_counter() - began
    bench.timed = timed = Timed(bench, scenario, loader, device)
    # What a library brought with it need not be looked through before every round.
    gc.collect()
    gc.freeze()
    return Setup(prepared.seconds, opened, len(source), len(timed.ceiling), timed.device.name)


def settle(bench: Workbench) -> None:
    """Collect garbage now, so that no round pays for the one before it."""
    del bench
    gc.collect()


def train(bench: Workbench) -> Timing:
    """Train on the loader's next epoch."""
    return timed_pass(_next_epoch(bench.timed), bench.timed.device, bench.timed.trainer.step)


def train_on_ceiling(bench: Workbench) -> Timing:
    """Train on the ceiling's batches."""
    return timed_pass(bench.timed.ceiling, bench.timed.device, bench.timed.trainer.step)


def load(bench: Workbench) -> Timing:
    """Go through the loader's next epoch and do nothing with it."""
    return alone(_next_epoch(bench.timed))


def finish(bench: Workbench) -> None:
    """Close the loader that was timed last."""
    if bench.timed:
        close(bench.timed.loader)
    bench.timed = None
    gc.unfreeze()


def _next_epoch(timed: Timed) -> Batches:
    start_epoch(timed.loader, timed.epoch)
    timed.epoch += 1
    return ending(timed.loader, len(timed.ceiling))


def alone(loader: Batches) -> Timing:
    """Go through batches and do nothing with them."""
    laps: list[int] = []
    sizes: list[int] = []
    stamp = time.perf_counter_ns
    began = asked = stamp()
    for _, labels in loader:
        received = stamp()
        laps += (asked, received, received, received)
        sizes.append(len(labels))
        asked = stamp()
    ended = stamp()
    return timing(Readings(laps, began, ended, ended), sizes)


def timed_pass(batches: Batches, device: Accelerator, step: Step) -> Timing:
    """Take a step on each batch, and return where the time went."""
    made = run_pass(batches, device, step)
    readings = Readings(made.laps, made.started_ns, made.exhausted_ns, made.ended_ns)
    done = device.steps(made.laps[2::4], made.laps[3::4])
    return timing(readings, made.sizes, done.idle_ns, done.computing_ns)


def _batch(source: Source, start: int, size: int, device: Accelerator) -> tuple[Tensor, Tensor]:
    samples = [source[index % len(source)] for index in range(start, start + size)]
    images = torch.stack([torch.from_numpy(image).permute(2, 0, 1) for image, _ in samples]).float() / 255
    return device.put(images.contiguous()), device.put(torch.tensor([label for _, label in samples]))
