"""The article's experiment, in the loader's own process: epochs of training, each with a test pass."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loaderproof.loaders.contract import Source
from loaderproof.model.accelerator import Accelerator, accelerator
from loaderproof.model.training import Batches, Trainer
from loaderproof.suite.answers import Run
from loaderproof.suite.experiments.rounds import ceiling
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.observation import Scenario


def run(bench: Workbench, training: Scenario, testing: Scenario, device: str) -> Run:
    """Build both loaders, then train and test on them for all epochs."""
    asked = (training, testing)
    sources = [bench.fresh_source(scenario) for scenario in asked]
    for source in sources:
        bench.prepare(source)
    began = time.perf_counter()
    loaders: list[Any] = [
        bench.open(source, scenario.request) for source, scenario in zip(sources, asked, strict=True)
    ]
    build_s = time.perf_counter() - began
    try:
        return replace(_run(bench.source(training), training, loaders, accelerator(device)), build_s=build_s)
    finally:
        for loader in loaders:
            close(loader)


def run_ceiling(bench: Workbench, training: Scenario, testing: Scenario, device: str) -> Run:
    """Do the same on batches that lie on the device already."""
    there = accelerator(device)
    ceilings = [ceiling(bench, scenario, there) for scenario in (training, testing)]
    return _run(bench.source(training), training, ceilings, there)


def _run(source: Source, training: Scenario, loaders: Sequence[Batches], device: Accelerator) -> Run:
    trainer = Trainer(source.image_shape, source.num_classes, device, seed=training.request.seed)
    trained, tested, accuracy = [], [], None
    gc.collect()
    began = time.perf_counter()
    for epoch in range(training.epochs):
        for loader in loaders:
            start_epoch(loader, epoch)
        trained.append(trainer.train_epoch(loaders[0]).samples)
        result = trainer.evaluate(loaders[1])
        tested.append(result.total)
        accuracy = result.accuracy
    seconds = time.perf_counter() - began
    return Run(seconds, 0.0, trained, tested, accuracy, device.name)
