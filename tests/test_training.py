"""The user's loop and what it counts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from loaderproof.model.accelerator import Accelerator, Cpu, Emulated
from loaderproof.model.training import (
    STAMPS,
    Evaluation,
    Trainer,
    evaluate,
    run_pass,
    seeded,
)

SHAPE = (8, 8, 1)


def batches(*sizes: int, classes: int = 2) -> list[tuple[Tensor, Tensor]]:
    """Batches of noise in which the mean of an image tells its class."""
    generator = torch.Generator().manual_seed(7)
    made = []
    for size in sizes:
        labels = torch.randint(classes, (size,), generator=generator)
        noise = torch.rand(size, 1, 8, 8, generator=generator) / 2
        made.append((noise + labels.view(-1, 1, 1, 1) / (2 * classes), labels))
    return made


def weights(model: nn.Module) -> list[Tensor]:
    """Return a copy of every parameter."""
    return [parameter.detach().clone() for parameter in model.parameters()]


def equal(left: list[Tensor], right: list[Tensor]) -> bool:
    """Return whether all values are the same, bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def first_label(images: Tensor, labels: Tensor) -> Tensor:
    """Stand in for a step."""
    return labels[0]


class Recorder(Accelerator):
    """An accelerator that writes down what is asked of it."""

    name = "recorder"
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.calls: list[str] = []

    def put(self, tensor: Tensor) -> Tensor:
        self.calls.append("put")
        return tensor

    def run(self, step, images, labels):
        self.calls.append("run")
        return step(images, labels)

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def reset(self) -> None:
        self.calls.append("reset")


def test_pass_counts_samples_and_batches():
    """A pass counts the samples of every batch, a partial one too, and keeps the last step's loss."""
    result = run_pass(batches(4, 4, 3), Cpu(), lambda images, labels: images.sum() * 0 + len(labels))

    assert ([4, 4, 3], 11, 3) == (result.sizes, result.samples, result.batches)
    assert 3.0 == result.last_loss


def test_pass_over_nothing():
    """A loader without a batch gives a pass without samples, batches, loss and readings."""
    result = run_pass([], Cpu(), first_label)

    assert (0, 0, None, []) == (result.samples, result.batches, result.last_loss, result.laps)


def test_device_is_awaited_only_at_both_ends():
    """Each step moves both tensors and runs; before the first and after the last the device is awaited.

    Once it is idle it may forget what it did before.
    """
    recorder = Recorder()

    run_pass(batches(2, 2), recorder, first_label)

    assert ["synchronize", "reset", *["put", "put", "run"] * 2, "synchronize"] == recorder.calls


def test_readings_follow_each_other():
    """Four readings a step, in order over the whole pass, between those of its start and its ends."""
    result = run_pass(batches(2, 2, 2), Cpu(), first_label)

    assert len(STAMPS) * 3 == len(result.laps)
    assert result.started_ns == result.laps[0]
    line = [result.started_ns, *result.laps, result.exhausted_ns, result.ended_ns]
    assert sorted(line) == line


@pytest.mark.parametrize("slow", STAMPS[1:])
def test_time_is_charged_to_what_took_it(slow: str, monkeypatch: pytest.MonkeyPatch):
    """Time that the loader, the transfer or the step takes lies before the reading named for its end."""
    now = [0]
    monkeypatch.setattr("time.perf_counter_ns", lambda: now[0])

    def spend(part: str) -> None:
        now[0] += 100 if part == slow else 0

    class Slow(Recorder):
        def put(self, tensor: Tensor) -> Tensor:
            spend("transferred")
            return tensor

    def loader() -> Iterator[tuple[Tensor, Tensor]]:
        for batch in batches(2, 2):
            spend("received")
            yield batch

    def step(images: Tensor, labels: Tensor) -> Tensor:
        spend("stepped")
        return labels[0]

    laps = run_pass(loader(), Slow(), step).laps

    spent = {"received": 0, "transferred": 0, "stepped": 0}
    spent[slow] = 200 if slow == "transferred" else 100
    for lap in (laps[:4], laps[4:]):
        assert spent == {name: lap[i + 1] - lap[i] for i, name in enumerate(STAMPS[1:])}


def test_first_wait_holds_the_loaders_start(monkeypatch: pytest.MonkeyPatch):
    """What a loader does in `iter()`, such as starting workers, is part of the wait for its first batch."""
    now = [0]
    monkeypatch.setattr("time.perf_counter_ns", lambda: now[0])

    class Loader:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            now[0] += 500
            return iter(batches(2))

    asked, received, *_ = run_pass(Loader(), Cpu(), first_label).laps

    assert 500 == received - asked


def test_pass_lasts_until_the_device_is_done(monkeypatch: pytest.MonkeyPatch):
    """The time of a pass includes what the device has left to do at the end, not at the start."""
    now = [0]
    monkeypatch.setattr("time.perf_counter_ns", lambda: now[0])

    class Busy(Recorder):
        def synchronize(self) -> None:
            now[0] += 2_000_000_000

    result = run_pass(batches(2, 2), Busy(), first_label)

    assert (0, 2 * 10**9) == (result.exhausted_ns - result.started_ns, result.ended_ns - result.started_ns)


def test_training_is_negative_log_likelihood_with_adadelta():
    """A training step does what torch's own Adadelta with rate 1.0 does with the mean NLL of the batch."""
    trainer = Trainer(SHAPE, 2, Cpu(), seed=3)
    other = Trainer(SHAPE, 2, Cpu(), seed=3).model
    optimizer = torch.optim.Adadelta(other.parameters(), lr=1.0)
    losses = []
    for images, labels in batches(8, 8, 5):
        optimizer.zero_grad()
        loss = -other(images)[torch.arange(len(labels)), labels].mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    result = trainer.train_epoch(batches(8, 8, 5))

    assert losses[-1] == pytest.approx(result.last_loss, rel=1e-5)
    for expected, actual in zip(weights(other), weights(trainer.model), strict=True):
        torch.testing.assert_close(expected, actual)


def test_training_learns():
    """Two epochs on separable images bring the network from guessing to nearly all correct."""
    trainer = Trainer(SHAPE, 2, Cpu())
    train, test = batches(*[32] * 10), batches(100, 100)

    for _ in range(2):
        trainer.train_epoch(train)

    accuracy = trainer.evaluate(test).accuracy
    assert accuracy is not None
    assert accuracy > 0.95


def test_same_seed_same_weights():
    """Two trainers of one seed start and end with the same weights, those of another seed do not."""
    trainers = [Trainer(SHAPE, 2, Cpu(), seed=seed) for seed in (1, 1, 2)]
    for trainer in trainers:
        trainer.train_epoch(batches(8, 8))
    first, again, other = (weights(trainer.model) for trainer in trainers)

    assert (True, False) == (equal(first, again), equal(first, other))


def test_global_randomness_is_untouched():
    """Building, training and evaluating leave the generators of torch, NumPy and Python as they were."""

    def states() -> tuple[object, ...]:
        numpy_state = str(np.random.get_state())  # noqa: NPY002 - the global one is the point
        return torch.get_rng_state().tolist(), numpy_state, random.getstate()

    before = states()
    trainer = Trainer(SHAPE, 2, Cpu(), seed=5)
    trainer.train_epoch(batches(4))
    trainer.evaluate(batches(4))

    assert before == states()


def test_evaluation_is_the_mean_over_samples():
    """Loss and accuracy are those over all samples at once, however they are cut into batches."""
    model = Trainer(SHAPE, 3, Cpu()).model
    cut = batches(5, 5, 1, classes=3)
    images, labels = (torch.cat(parts) for parts in zip(*cut, strict=True))
    with torch.no_grad():
        output = model(images)

    found = evaluate(model, cut, Cpu())

    assert nn.functional.nll_loss(output, labels).item() == pytest.approx(found.loss, rel=1e-5)
    assert (int((output.argmax(1) == labels).sum()), 11) == (found.correct, found.total)
    assert found.correct / 11 == found.accuracy


def test_evaluation_leaves_the_network_as_it_was():
    """Weights, gradients and training mode stay; dropout is off meanwhile."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2), nn.Dropout(0.5), nn.LogSoftmax(dim=1))
    before = weights(model)

    first, second = (evaluate(model, batches(50), Cpu()) for _ in range(2))

    assert first == second
    assert equal(before, weights(model))
    assert (True, True) == (model.training, all(p.grad is None for p in model.parameters()))


def test_failing_evaluation_leaves_training_mode():
    """A network is back in training mode when the loader fails in the middle of an evaluation."""
    model = Trainer(SHAPE, 2, Cpu()).model

    def loader() -> Iterator[tuple[Tensor, Tensor]]:
        yield from batches(2)
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        evaluate(model, loader(), Cpu())

    assert model.training


def test_only_the_network_is_evaluated_without_gradients():
    """Gradients are off where the network runs and on where the loader's own code runs."""
    seen = []

    class Model(nn.Flatten):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(("network", torch.is_grad_enabled()))
            return super().forward(images)

    def loader() -> Iterator[tuple[Tensor, Tensor]]:
        for batch in batches(2, 2):
            seen.append(("loader", torch.is_grad_enabled()))
            yield batch

    evaluate(Model(), loader(), Cpu())

    assert [("loader", True), ("network", False)] * 2 == seen


def test_training_loss_has_no_history():
    """The loss that is kept between steps holds on to no step's activations."""
    loss = Trainer(SHAPE, 2, Cpu()).step(*batches(2)[0])

    assert ((), False) == (tuple(loss.shape), loss.requires_grad)


def test_evaluation_of_nothing_claims_nothing():
    """For a loader that delivers nothing there is neither loss nor accuracy."""
    found = evaluate(Trainer(SHAPE, 2, Cpu()).model, [], Cpu())

    assert (None, None, 0) == (found.loss, found.accuracy, found.total)


def test_emulated_training_counts_and_computes_nothing():
    """On an emulated device a trainer counts samples, changes no weight and claims no loss or accuracy."""
    trainer = Trainer(SHAPE, 2, Emulated(1000))
    before = weights(trainer.model)

    result = trainer.train_epoch(batches(4, 3))
    found = trainer.evaluate(batches(5))

    assert (7, None) == (result.samples, result.last_loss)
    assert (Evaluation(loss=None, correct=None, total=5), None) == (found, found.accuracy)
    assert equal(before, weights(trainer.model))


def test_seed_ends_with_its_block():
    """Within the block the seed decides; after it draws go on as if the block had not been, error or not."""

    def fail(drawn: list[Tensor]) -> None:
        with seeded(1):
            drawn.append(torch.rand(3))
            raise OSError("x")

    drawn: list[Tensor] = []
    state = torch.get_rng_state()
    expected = torch.rand(3)
    torch.set_rng_state(state)

    with pytest.raises(OSError, match="x"):
        fail(drawn)
    after = torch.rand(3)
    with seeded(1):
        again = torch.rand(3)

    assert torch.equal(drawn[0], again)
    assert torch.equal(expected, after)


def test_untrained_loss_is_that_of_guessing():
    """The loss is a mean, not a sum, and in nats: about ln(classes) before any training."""
    result = Trainer(SHAPE, 10, Cpu()).train_epoch(batches(500, classes=10))

    assert math.log(10) == pytest.approx(result.last_loss, abs=0.1)
