"""Real training on a loader, in its own process."""

from __future__ import annotations

import torch

from loaderproof.model.accelerator import accelerator
from loaderproof.model.training import Trainer, run_pass
from loaderproof.suite.observation import Scenario
from loaderproof.suite.rounds import learning
from loaderproof.suite.workbench import Workbench, start_epoch


def accuracy(bench: Workbench, scenario: Scenario, testing: Scenario) -> float:
    """Train the network for one epoch and return the share of test samples that it gets right.

    Computed on CUDA where there is such a device, else on one core of the CPU; never emulated.
    """
    # A second thread gains little on batches of this size, and waits long where others use the cores, too.
    torch.set_num_threads(1)
    device = accelerator("cuda" if torch.cuda.is_available() else "cpu")
    source = bench.source(scenario)
    trainer = Trainer(source.image_shape, source.num_classes, device, seed=scenario.request.seed)
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        run_pass(loader, device, learning(trainer))
    with bench.opened(testing) as loader:
        start_epoch(loader, 0)
        return trainer.evaluate(loader).accuracy or 0.0
