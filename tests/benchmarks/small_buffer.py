"""Does a small shuffle buffer cost accuracy? The article guessed that it does not.

    python tests/benchmarks/small_buffer.py [--data fashion-mnist] [--samples 12800] [--seeds 5]

tfds_numpy with buffers of several sizes trains the article's network for one epoch, on data in the
order in which they lie and on the same data sorted by class, as files in one folder a class are.
Printed: how far shuffling moves a sample, as a share of what a full shuffle does; how many of a
batch's samples have its most frequent class; and the accuracy on test data, mean and 95 % interval
over seeds.
"""

from __future__ import annotations

import argparse
from statistics import fmean, stdev

import numpy as np
import torch

from loaderproof.loaders import Request, sources
from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import ArraySource
from loaderproof.loaders.sources.portion import first
from loaderproof.model.accelerator import Cpu
from loaderproof.model.training import Trainer
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.statistics import student_quantile

BUFFERS = (64, 256, 1_024, None)


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--samples", type=int, default=12_800)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    both = sources.load(asked.data)
    training, testing = first(both["train"], asked.samples), first(both["test"], 2_000)
    torch.set_num_threads(1)
    print(f"{'order':<12}{'buffer':>8}{'moved':>9}{'one class':>11}{'accuracy':>28}")
    for name, source in (("as it lies", training), ("by class", by_class(training))):
        for buffer in BUFFERS:
            runs = [run(source, testing, buffer, seed) for seed in range(1, asked.seeds + 1)]
            moved, alike, accuracies = zip(*runs, strict=True)
            print(
                f"{name:<12}{buffer or 'all':>8}{fmean(moved):>9.1%}{fmean(alike):>11.1%}"
                f"{interval(accuracies):>28}",
                flush=True,
            )


def by_class(source: Source) -> Source:
    """Return the same samples sorted by their labels."""
    images, labels = source.arrays()
    order = np.argsort(labels, kind="stable")
    return ArraySource(f"{source.name} by class", images[order], labels[order], source.num_classes)


def run(source: Source, testing: Source, buffer: int | None, seed: int) -> tuple[float, float, float]:
    """Train for an epoch; return how far samples moved, how alike batches are, and the accuracy."""
    bench, options = Workbench("tfds_numpy"), {} if buffer is None else {"shuffle_buffer": buffer}
    request = Request(batch_size=64, shuffle=True, seed=seed, options=options)
    trainer = Trainer(source.image_shape, source.num_classes, Cpu(), seed=seed)
    catalogue, places, alike = Catalogue(source), [], []
    loader = bench.open(source, request)
    start_epoch(loader, 0)
    for images, labels in loader:
        trainer.step(images, labels)
        places.append(catalogue.find(images.numpy()).index)
        alike.append(np.bincount(labels.numpy()).max() / len(labels))
    close(loader)
    order = np.concatenate(places)
    # A sample of a full shuffle is a third of the data away from its place, on average.
    moved = 3 * np.abs(order - np.arange(len(order))).mean() / len(order)
    accuracy = trainer.evaluate(bench.open(testing, Request(batch_size=500))).accuracy
    return float(moved), float(np.mean(alike)), accuracy or 0.0


def interval(values: tuple[float, ...]) -> str:
    """Return the mean with its 95 % interval."""
    half = student_quantile(len(values) - 1) * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 1.0
    return f"{fmean(values):.1%} ({fmean(values) - half:.1%} to {fmean(values) + half:.1%})"


if __name__ == "__main__":
    main()
