"""Training that a profiler looks at, in the loader's own process; nothing here is timed for a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from loaderproof.loaders.contract import Loader
from loaderproof.model.accelerator import Accelerator, accelerator
from loaderproof.model.training import Trainer
from loaderproof.suite.experiments.workbench import Workbench, ending, start_epoch
from loaderproof.suite.observation import Scenario

Watch = Callable[[Iterator[Any]], Iterable[Any]]


class Training:
    """An open loader and what is trained on its batches.

    Args:
        loader: gives the batches.
        batches: in an epoch.
        trainer: takes them.

    Attributes:
        steps: that were made.
    """

    def __init__(self, loader: Loader, batches: int, trainer: Trainer) -> None:
        self._loader, self._batches, self._trainer = loader, batches, trainer
        self._epoch = 0
        self.steps = 0

    @property
    def device(self) -> Accelerator:
        """Where the steps run."""
        return self._trainer.accelerator

    def epoch(self, watch: Watch) -> int:
        """Train on the next epoch; return the number of its steps.

        Args:
            watch: gets the batches and yields them; it may stop early.
        """
        start_epoch(self._loader, self._epoch)
        self._epoch += 1
        made = self._trainer.train_epoch(watch(ending(self._loader, self._batches))).batches
        self.steps += made
        return made

    def until(self, over: Callable[[], bool], watch: Watch = iter) -> None:
        """Train epoch after epoch, until it is over or an epoch has no batch."""

        def watched(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in watch(batches):
                yield batch
                if over():
                    break

        while not over() and self.epoch(watched):
            pass


@contextmanager
def training(
    bench: Workbench, scenario: Scenario, device: str, profiler: AbstractContextManager[Any] | None = None
) -> Iterator[Training]:
    """Open the loader of a scenario, and a network to train on it.

    Args:
        bench: of the loader.
        scenario: what it is asked for.
        device: accelerator, as `--loader-device` takes it.
        profiler: looks on from before the loader is opened until it is closed; not at the preparation
            of its data, nor at the making of the network.
    """
    source, request = bench.source(scenario), scenario.request
    if not bench.own_data:
        bench.prepare(source)
    batches = math.ceil(len(source) / request.batch_size)
    trainer = Trainer(source.image_shape, source.num_classes, accelerator(device), seed=request.seed)
    with profiler or nullcontext(), bench.opened(scenario) as loader:
        yield Training(loader, batches, trainer)
