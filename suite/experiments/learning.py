"""Real training on a loader, in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from loaderproof.loaders.contract import Loader
from loaderproof.model.accelerator import accelerator
from loaderproof.model.training import Batches, Trainer
from loaderproof.suite.experiments.workbench import Workbench, ending, start_epoch
from loaderproof.suite.observation import Scenario


def accuracy(bench: Workbench, scenario: Scenario, testing: Scenario) -> float:
    """Train the network for one epoch and return the share of test samples that it gets right.

    Computed on CUDA where there is such a device, else on one core of the CPU; never emulated.
    """
    device = accelerator("cuda" if torch.cuda.is_available() else "cpu")
    source = bench.source(scenario)
    trainer = Trainer(source.image_shape, source.num_classes, device, seed=scenario.request.seed)
    with _one_thread():
        with bench.opened(scenario) as loader:
            trainer.train_epoch(_epoch(bench, loader, scenario))
        with bench.opened(testing) as loader:
            return trainer.evaluate(_epoch(bench, loader, testing)).accuracy or 0.0


def _epoch(bench: Workbench, loader: Loader, scenario: Scenario) -> Batches:
    start_epoch(loader, 0)
    return ending(loader, -(-len(bench.source(scenario)) // scenario.request.batch_size))


@contextmanager
def _one_thread() -> Iterator[None]:
    """A second thread gains little on batches of this size, and waits long where others use the cores, too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
