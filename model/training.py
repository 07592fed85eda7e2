"""The user's loop: next batch, to the device, step; with a stopwatch beside it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from loaderproof.model.accelerator import Accelerator, Step
from loaderproof.model.cnn import ConvNet

Batches = Iterable[tuple[Tensor, Tensor]]

STAMPS: Final = ("asked", "received", "transferred", "stepped")
LEARNING_RATE: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What one pass over a loader did, and when; times are `time.perf_counter_ns` readings.

    Attributes:
        sizes: how many samples the loader delivered in each batch.
        last_loss: of the last step; None if nothing was computed.
        laps: four readings a step, one after the other, in the order of `STAMPS`: the batch was
            asked for, received, on its way to the device, and its step started; then the next is
            asked for. On a device with a queue the last is not the end of the computation, but it
            comes after the wait for room in the queue.
        started_ns: before the loader was asked for an iterator; the first reading of `laps` too.
        exhausted_ns: after the loader said that it has no more.
        ended_ns: after the device had done everything.
    """

    sizes: list[int]
    last_loss: float | None
    laps: list[int]
    started_ns: int
    exhausted_ns: int
    ended_ns: int

    @property
    def samples(self) -> int:
        """How many samples the loader delivered."""
        return sum(self.sizes)

    @property
    def batches(self) -> int:
        """How many steps were made."""
        return len(self.sizes)


def run_pass(batches: Batches, accelerator: Accelerator, step: Step) -> Pass:
    """Go once over the batches and take a step on each; the device is awaited only at both ends.

    Args:
        batches: gives images and labels; iterated once, to its end.
        accelerator: where the steps run.
        step: takes images and labels on the device, returns the loss, a tensor of shape ().

    Returns:
        Counts, the last loss and the readings; what the device did meanwhile it keeps itself, until
        the next pass: `accelerator.steps`.
    """
    laps: list[int] = []
    stamp = time.perf_counter_ns
    sizes: list[int] = []
    loss = None
    accelerator.synchronize()
    accelerator.reset()
    started = asked = stamp()
    for batch in batches:
        received = stamp()
        images, labels = accelerator.put(batch[0]), accelerator.put(batch[1])
        del batch  # frees the host's
        transferred = stamp()
        loss = accelerator.run(step, images, labels)
        stepped = stamp()
        laps += (asked, received, transferred, stepped)
        sizes.append(labels.shape[0])  # a quarter of the time of len(labels)
        asked = stepped  # so that no time lies outside the laps, and one clock call is saved
    exhausted = stamp()
    accelerator.synchronize()
    ended = stamp()
    return Pass(
        sizes=sizes,
        last_loss=None if loss is None else loss.item(),
        laps=laps,
        started_ns=started,
        exhausted_ns=exhausted,
        ended_ns=ended,
    )


def fitting(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return a batch as the network takes it: uint8 images as float32 in [0, 1], labels as int64."""
    return images / 255 if images.dtype == torch.uint8 else images, labels.long()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How well a network does on a loader.

    Attributes:
        loss: mean negative log-likelihood of a sample; None if nothing was computed, or nothing came.
        correct: how many samples got their own label; None likewise.
        total: how many samples the loader delivered.
    """

    loss: float | None
    correct: int | None
    total: int

    @property
    def accuracy(self) -> float | None:
        """Return the share of correct samples, 0 to 1; None if nothing was computed or nothing came."""
        return None if self.correct is None else self.correct / self.total


def evaluate(model: nn.Module, batches: Batches, accelerator: Accelerator) -> Evaluation:
    """Count what a network gets right in one pass over the batches.

    Args:
        model: returns log-probabilities of shape (N, classes); on the accelerator's device.
        batches: gives images and labels; iterated once, to its end.
        accelerator: where the steps run.

    Returns:
        Mean loss and counts, over the samples that the loader delivered; without any there is nothing to say.
    """
    summed = torch.zeros((), device=accelerator.device)
    correct = torch.zeros((), device=accelerator.device, dtype=torch.int64)

    @torch.no_grad()
    def step(images: Tensor, labels: Tensor) -> Tensor:
        images, labels = fitting(images, labels)
        log_probabilities = model(images)
        loss = functional.nll_loss(log_probabilities, labels, reduction="sum")
        summed.add_(loss)
        correct.add_((log_probabilities.argmax(dim=1) == labels).sum())
        return loss

    with _evaluating(model):
        total = run_pass(batches, accelerator, step).samples
    if accelerator.emulated or total == 0:
        return Evaluation(loss=None, correct=None, total=total)
    return Evaluation(loss=summed.item() / total, correct=int(correct.item()), total=total)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class Trainer:
    """The article's network with its optimiser; the same seed gives the same weights anywhere.

    Attributes:
        model: the network, on the accelerator's device.
        optimizer: Adadelta with learning rate 1.0.
        accelerator: where the steps run.
    """

    def __init__(
        self, image_shape: tuple[int, int, int], num_classes: int, accelerator: Accelerator, seed: int = 0
    ) -> None:
        """Build the network and move it to the device.

        Args:
            image_shape: height, width, channels.
            num_classes: how many labels there are.
            accelerator: where the steps run.
            seed: decides the first weights.

        Raises:
            ValueError: the images are too small for the network.
        """
        with seeded(seed):
            model = ConvNet(image_shape, num_classes)
        self.model = model.to(accelerator.device)
        self.optimizer = torch.optim.Adadelta(self.model.parameters(), lr=LEARNING_RATE)
        self.accelerator = accelerator

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Learn from one batch.

        Args:
            images: float32 in [0, 1] or uint8, (N, C, H, W).
            labels: integers, (N,).

        Returns:
            The mean loss of the batch before the update, without history, shape ().
        """
        images, labels = fitting(images, labels)
        self.optimizer.zero_grad()
        loss = functional.nll_loss(self.model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def train_epoch(self, batches: Batches) -> Pass:
        """Train on one pass over the batches; see `run_pass`."""
        return run_pass(batches, self.accelerator, self.step)

    def evaluate(self, batches: Batches) -> Evaluation:
        """Evaluate the network as it is on one pass over the batches; see `evaluate`."""
        return evaluate(self.model, batches, self.accelerator)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the CPU's default generator within the block and give it its old state back after.

    The weights of a layer are drawn from no other generator. Those of other devices stay untouched.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
