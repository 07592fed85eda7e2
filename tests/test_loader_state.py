"""State and orders of the built-in loaders that can go on where another stopped."""

import json
import subprocess
import sys
from itertools import islice

import psutil
import pytest
import torch
from torch.utils.data import DistributedSampler

from loaderproof.loaders import Request, registry
from loaderproof.loaders._epochs import Order
from loaderproof.loaders._randomness import Purpose, seeds
from loaderproof.loaders._resuming import Position, Progress
from loaderproof.loaders.sources.probe import probe

SAMPLES, BATCH = 23, 4
BATCHES = 6
PINNED = [19, 13, 3, 4, 18, 0, 11, 20, 14, 12, 5, 8, 9, 6, 15, 16, 21, 10, 17, 7, 2, 1, 22]
PERSISTENT = {"persistent_workers": True}
SETUPS = {
    "resident": ("resident", {}),
    "memmap": ("memmap", {}),
    "torch": ("torch_dataloader", {}),
    "torch-2": ("torch_dataloader", {"num_workers": 2}),
    "torch-2-persistent": ("torch_dataloader", {"num_workers": 2, "options": PERSISTENT}),
}
IN_ANOTHER_PROCESS = """
import json, sys
from pathlib import Path
from loaderproof.loaders import Request, registry
from loaderproof.loaders.sources.probe import probe

loader = registry.load("torch_dataloader").open(
    probe(23), Path(), Request(batch_size=4, shuffle=True, num_workers=2)
)
loader.load_state_dict(json.load(sys.stdin))
print(json.dumps([labels.tolist() for _, labels in loader]))
"""


@pytest.fixture
def opened(request, tmp_path):
    """Return what opens the loader that a test is parametrised with; all are closed at the end."""
    name, asked = SETUPS[request.param]
    adapter, source = registry.load(name), probe(SAMPLES)
    adapter.prepare(source, tmp_path)
    loaders = []

    def open_one(**more):
        request = Request(**{"batch_size": BATCH, "shuffle": True, "seed": 5, **asked, **more})
        loaders.append(adapter.open(source, tmp_path, request))
        return loaders[-1]

    yield open_one
    for loader in loaders:
        loader.close()


def labels(batches):
    """Return the labels of each batch; those of the probe tell its samples apart."""
    return [batch[1].tolist() for batch in batches]


every_setup = pytest.mark.parametrize("opened", SETUPS, indirect=True)


@every_setup
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_state_gives_the_rest_of_its_epoch_and_whole_ones_after_it(opened, epoch):
    """Cut anywhere, a run goes on in a fresh loader as it would have without the cut."""
    whole = opened()
    expected = [labels(whole) for _ in range(epoch + 3)]
    cut_one = opened()
    for _ in range(epoch):
        list(cut_one)
    states = [cut_one.state_dict() for _ in range(1 - epoch)]  # before the first batch of all
    for _ in cut_one:
        states.append(cut_one.state_dict())  # noqa: PERF401  # the state changes with each batch
    states.append(cut_one.state_dict())

    for state in json.loads(json.dumps(states)):
        fresh = opened()
        fresh.load_state_dict(state)
        rest = [expected[epoch][state["batch"] :], *expected[epoch + 1 :]]
        rest = rest[1:] if state["batch"] == BATCHES else rest
        assert rest == [labels(fresh) for _ in rest]


@every_setup
def test_a_state_counts_what_was_handed_out(opened):
    """A state tells how many batches came, not how many were read ahead."""
    loader = opened()
    told = [loader.state_dict()]
    for _ in range(2):
        for _ in loader:
            told.append(loader.state_dict())  # noqa: PERF401  # the state changes with each batch
        told.append(loader.state_dict())

    counts = [0, *range(1, 7), 6]
    expected = [(0, count) for count in counts] + [(1, count) for count in counts[1:]]
    assert expected == [(state["epoch"], state["batch"]) for state in told]


@every_setup
def test_a_state_is_a_copy(opened):
    """A state stays what it is while the loader goes on, and changing it changes no loader."""
    loader = opened()
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    before = dict(state)
    next(epoch)
    assert before == state
    loader.state_dict().clear()
    state["batch"] = 5
    fresh = opened()
    fresh.load_state_dict(before)
    before["batch"] = 5

    assert [2, 1] == [one.state_dict()["batch"] for one in (loader, fresh)]


@every_setup
def test_a_loaded_state_is_the_state(opened):
    """Right after a state was loaded it can be taken again, at an end, too."""
    loader = opened()
    for taken in (0, 1, BATCHES):
        for _ in islice(loader, taken):
            pass
        fresh = opened()
        fresh.load_state_dict(loader.state_dict())

        assert loader.state_dict() == fresh.state_dict()


@every_setup
def test_a_state_is_gone_on_with_twice(opened):
    """A state that was taken after another was loaded leads to the same rest."""
    loader = opened()
    expected = labels(loader)
    state = opened().state_dict()
    came = []
    for _ in range(BATCHES):
        fresh = opened()
        fresh.load_state_dict(state)
        came += labels(islice(fresh, 1))
        state = fresh.state_dict()

    assert expected == came


@pytest.mark.parametrize("opened", ["torch-2", "torch-2-persistent"], indirect=True)
def test_a_state_starts_nothing(opened):
    """Neither taking nor loading a state starts a worker."""
    before = set(psutil.Process().children())
    loader = opened()
    loader.load_state_dict(loader.state_dict())

    assert set() == set(psutil.Process().children()) - before


@pytest.mark.parametrize("opened", ["torch-2"], indirect=True)
@pytest.mark.parametrize("asked", [{"num_workers": 0}, {"num_workers": 1}, {"options": PERSISTENT}])
def test_a_state_fits_any_number_of_workers(opened, asked):
    """The rest of an epoch does not depend on the workers of either loader."""
    loader = opened()
    expected = labels(loader)
    other = opened(**asked)
    loader.load_state_dict({**loader.state_dict(), "batch": 2})
    other.load_state_dict(loader.state_dict())

    assert [expected[2:]] * 2 == [labels(loader), labels(other)]


def test_a_state_fits_another_process():
    """A fresh process gives the rest of the epoch."""
    request = Request(batch_size=BATCH, shuffle=True)
    loader = registry.load("torch_dataloader").open(probe(SAMPLES), None, request)
    epoch = iter(loader)
    labels(islice(epoch, 2))
    done = subprocess.run(
        [sys.executable, "-P", "-c", IN_ANOTHER_PROCESS],
        input=json.dumps(loader.state_dict()),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert labels(epoch) == json.loads(done.stdout)


@pytest.mark.parametrize("opened", ["resident", "torch"], indirect=True)
@pytest.mark.parametrize(
    "asked", [{"batch_size": 5}, {"world_size": 2}, {"seed": 6}, {"shuffle": False}, {"drop_last": True}]
)
def test_a_state_of_another_request_is_refused(opened, asked):
    """A state whose batches would be others is refused, with both values."""
    ((name, value),) = asked.items()
    state = opened(**asked).state_dict()

    with pytest.raises(ValueError, match=f"taken with {name}={value}, but this loader has {name}="):
        opened().load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"samples": 24}, "taken with samples=24"),
        ({"version": 0}, "taken with version=0"),
        ({"batch": 7}, "at epoch 0, batch 7"),
        ({"batch": -1}, "at epoch 0, batch -1"),
        ({"epoch": -1}, "at epoch -1, batch 0"),
    ],
)
def test_an_impossible_state_is_refused(change, complaint):
    """A state of other data, another version, or no place in an epoch is refused."""
    progress = Progress(SAMPLES, BATCHES, Request(batch_size=BATCH))

    with pytest.raises(ValueError, match=complaint):
        progress.load_state_dict({**progress.state_dict(), **change})


@pytest.mark.parametrize("state", [{}, {"epoch": 0, "batch": 1}])
def test_what_is_no_state_is_refused(state):
    """A dict that lacks something is refused, with what it lacks."""
    with pytest.raises(ValueError, match=r"no state of such a loader: it lacks .*'samples'"):
        Progress(SAMPLES, BATCHES, Request()).load_state_dict(state)


@every_setup
def test_set_epoch_gives_the_order_of_that_epoch(opened):
    """An epoch that is asked for comes as in a run that reached it, again and again; then the next one."""
    whole = opened()
    expected = [labels(whole) for _ in range(4)]
    loader = opened()
    came = []
    for epoch in (2, 0, 0, 3):
        loader.set_epoch(epoch)
        came.append(labels(loader))

    assert [expected[epoch] for epoch in (2, 0, 0, 3)] == came
    loader.set_epoch(1)
    assert [expected[1], expected[2]] == [labels(loader), labels(loader)]


def test_set_epoch_keeps_a_loaded_place_in_that_epoch_alone():
    """Training loops that resume set the epoch, too: its rest is still to come."""
    state = {**Progress(SAMPLES, BATCHES, Request()).state_dict(), "epoch": 3, "batch": 2}
    starts = []
    for epoch in (3, 4):
        progress = Progress(SAMPLES, BATCHES, Request())
        progress.load_state_dict(state)
        progress.set_epoch(epoch)
        starts.append(progress.begin())

    assert [Position(3, 2), Position(4, 0)] == starts


@every_setup
def test_a_pass_after_a_break_is_the_next_epoch(opened):
    """An epoch that was left is not gone on with; what is left of it changes no count."""
    whole = opened()
    expected = [labels(whole) for _ in range(2)]
    loader = opened()
    left = iter(loader)
    next(left)
    del left

    assert expected[1] == labels(loader)
    assert (1, BATCHES) == tuple(loader.state_dict()[name] for name in ("epoch", "batch"))


@pytest.mark.parametrize("opened", ["torch", "torch-2"], indirect=True)
def test_a_state_brings_the_draws_of_its_epoch(opened):
    """Augmentation goes on as it would have, too."""
    whole = opened(augment=True)
    expected = [[batch[2]["numpy"].tolist() for batch in whole] for _ in range(2)]
    fresh = opened(augment=True)
    fresh.load_state_dict({**whole.state_dict(), "epoch": 1, "batch": 3})

    assert expected[1][3:] == [batch[2]["numpy"].tolist() for batch in fresh]


@pytest.mark.parametrize("samples", [0, 1, 2, 22, 23, 24])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_as_with_torchs_own_sampler(samples, world):
    """Unshuffled, each rank gets what DistributedSampler gives it, padding included."""
    for rank in range(world):
        order = Order(samples, Request(rank=rank, world_size=world))
        torchs = list(DistributedSampler(range(samples), world, rank, shuffle=False)) if samples else []

        assert torchs == order.epoch(0).tolist()
        assert len(torchs) == len(order)


def test_a_seeds_second_epoch_is_not_the_next_seeds_first():
    """Orders of neighbouring seeds have nothing in common."""
    orders = [Order(SAMPLES, Request(shuffle=True, seed=seed)) for seed in range(3)]

    assert 9 == len({tuple(order.epoch(epoch).tolist()) for order in orders for epoch in range(3)})


@pytest.mark.parametrize("seed", [-1, 0, 1, 2**32, 2**32 + 1, 2**63])
def test_any_seed_gives_an_order(seed):
    """A seed may be negative or large."""
    order = Order(SAMPLES, Request(shuffle=True, seed=seed)).epoch(0)

    assert list(range(SAMPLES)) == sorted(order.tolist())


def test_seeds_are_apart():
    """A zero more, a word more, another purpose or place: each gives other seeds."""
    asked = [
        (seed, purpose, *place)
        for seed in (0, 1, 2**32, 2**32 + 1)
        for purpose in Purpose
        for place in ((), (0,), (1,), (0, 0), (0, 1), (1, 0))
    ]

    assert 48 == len({seeds(*one)[0] for one in asked})


def test_the_order_of_a_seed_is_pinned():
    """States and published runs rely on the order that a seed gives: a change needs another version."""
    order = Order(SAMPLES, Request(shuffle=True, seed=5)).epoch(1)

    assert torch.tensor(PINNED).equal(order)
