"""The article's experiment, in the loader's own process: epochs of training, each with a test pass."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

from loaderproof.loaders.contract import Loader
from loaderproof.model.accelerator import accelerator
from loaderproof.model.training import Batches, Trainer
from loaderproof.suite.observation import Scenario
from loaderproof.suite.rounds import Ceiling
from loaderproof.suite.workbench import Workbench, close, start_epoch


@dataclass(frozen=True)
class Run:
    """One run of the experiment.

    Attributes:
        seconds: of all epochs, training and testing; building is not in it, as in the article.
        build_s: seconds that it took to open both loaders.
        trained, tested: samples that came in each epoch.
        accuracy: on the test samples of the last epoch; None if nothing was computed.
        device: name of the accelerator.
    """

    seconds: float
    build_s: float
    trained: list[int]
    tested: list[int]
    accuracy: float | None
    device: str


def run(bench: Workbench, training: Scenario, testing: Scenario, device: str) -> Run:
    """Build both loaders, then train and test on them for all epochs."""
    for scenario in (training, testing):
        bench.prepare(bench.source(scenario))
    began = time.perf_counter()
    loaders = [bench.open(bench.source(scenario), scenario.request) for scenario in (training, testing)]
    build_s = time.perf_counter() - began
    try:
        return _run(bench, training, *loaders, device, build_s)
    finally:
        for loader in loaders:
            close(loader)


def run_ceiling(bench: Workbench, training: Scenario, testing: Scenario, device: str) -> Run:
    """Do the same on batches that lie on the device already."""
    there = accelerator(device)
    ceilings = [Ceiling(bench.source(scenario), scenario.request, there) for scenario in (training, testing)]
    return _run(bench, training, *ceilings, device, 0.0)


def _run(
    bench: Workbench, training: Scenario, train: Loader | Ceiling, test: Loader | Ceiling, device: str, build_s: float
) -> Run:
    source = bench.source(training)
    trainer = Trainer(source.image_shape, source.num_classes, accelerator(device), seed=training.request.seed)
    trained, tested, accuracy = [], [], None
    gc.collect()
    began = time.perf_counter()
    for epoch in range(training.epochs):
        trained.append(trainer.train_epoch(_epoch(train, epoch)).samples)
        result = trainer.evaluate(_epoch(test, epoch))
        tested.append(result.total)
        accuracy = result.accuracy
    seconds = time.perf_counter() - began
    return Run(seconds, build_s, trained, tested, accuracy, trainer.accelerator.name)


def _epoch(loader: Loader | Ceiling, epoch: int) -> Batches:
    start_epoch(loader, epoch)
    return loader
