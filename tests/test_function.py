"""What a plain function promises by what it reads, and what it declares."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from loaderproof.loaders import Adapter, Promise, Request, Variant
from loaderproof.loaders.function import FunctionAdapter, adapter
from loaderproof.loaders.sources.probe import probe

SHUFFLING = {Promise.SHUFFLE, Promise.RESHUFFLING, Promise.SOURCE_ORDER}


def plain(source, request):
    """The three lines of the tutorial."""
    samples = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
    return DataLoader(samples, batch_size=request.batch_size, shuffle=request.shuffle)


def lazy(source, request):
    """A generator, which reads its request only when it is iterated."""
    yield request.shuffle, request.seed, request.drop_last, request.num_workers


def with_seed_alone(source, request):
    """Reads a seed, but no shuffle that it could decide."""
    return [request.seed]


def printing(source, request):
    """Shows its request, which is not heeding it."""
    return [f"{request} {request!r}"]


def failing(source, request):
    """Fails after it has read something."""
    if request.drop_last in (True, False):
        raise ValueError("no disk")


def sharing(source, request):
    """Gives each rank its part."""
    yield range(10)[request.rank :: request.world_size]


def with_rank_alone(source, request):
    """Reads its rank, but not of how many."""
    return [request.rank]


def changing(source, request):
    """Changes samples if asked to."""
    return [request.augment]


def resuming(source, request):
    """Has a state that can be loaded."""
    return Stateful()


class Stateful(list):
    """A loader with a state."""

    def state_dict(self):
        """Return nothing."""

    def load_state_dict(self, state):
        """Take nothing."""


def half_resuming(source, request):
    """Has a state, and no way to load it."""
    loader = Stateful()
    loader.load_state_dict = None
    return loader


def never_ending(source, request):
    """Gives batches for ever."""
    while True:
        yield request.shuffle


def of_unknown_length(source, request):
    """Has a length by its class, but not in fact."""

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    return DataLoader(Stream())


@pytest.mark.parametrize(
    ("function", "promises"),
    [
        (plain, {Promise.LENGTH} | SHUFFLING),
        (lazy, {Promise.SEEDED_ORDER, Promise.DROP_LAST, Promise.WORKERS} | SHUFFLING),
        (with_seed_alone, {Promise.LENGTH}),
        (printing, {Promise.LENGTH}),
        (failing, {Promise.DROP_LAST}),
        (sharing, {Promise.SHARDING}),
        (with_rank_alone, {Promise.LENGTH}),
        (changing, {Promise.LENGTH, Promise.AUGMENTATION}),
        (resuming, {Promise.LENGTH, Promise.RESUMING}),
        (half_resuming, {Promise.LENGTH}),
        (never_ending, SHUFFLING),
        (of_unknown_length, set()),
    ],
)
def test_a_function_promises_what_it_reads(function, promises):
    """A function promises what it reads of its request in an epoch, and a length if it has one."""
    assert promises == FunctionAdapter(function).description.promises


def test_an_error_in_the_trial_is_told():
    """A function that fails when it is tried is described all the same, with its error."""
    description = FunctionAdapter(failing).description

    assert "failing" == description.name
    assert "its trial ended with ValueError('no disk')" in description.summary


def test_the_trial_closes_what_it_opens():
    """The loader that a trial opens is closed."""
    closed = []

    class Closable(list):
        def close(self) -> None:
            closed.append(True)

    assert {Promise.LENGTH} == FunctionAdapter(lambda *_: Closable()).description.promises
    assert [True] == closed


def test_a_declared_function_is_not_tried():
    """What a function declares is taken as it is; it is not called to find out more."""

    @adapter(name="told", promises=["length"], variants={"": Variant(), "fast": Variant(options={"n": 1})})
    def never(source, request):
        raise AssertionError("called")

    description = FunctionAdapter(never, name="other").description

    assert ("told", {Promise.LENGTH}, ["", "fast"]) == (
        description.name,
        description.promises,
        list(description.variants),
    )


def test_a_function_that_declares_no_promises_is_tried():
    """A function may declare the rest and leave its promises to the trial."""
    declared = FunctionAdapter(adapter(tolerance=0.1)(plain)).description

    assert (0.1, {Promise.LENGTH} | SHUFFLING) == (declared.tolerance, declared.promises)


def test_a_declared_function_stays_a_function():
    """A function that declares something is called as before."""

    @adapter(promises=[])
    def make(source, request):
        return [source, request]

    assert [1, 2] == make(1, 2)


@pytest.mark.parametrize(
    ("wrong", "error"), [({"tolerence": 1}, TypeError), ({"promises": ["lenght"]}, ValueError)]
)
def test_a_declaration_with_a_typo_fails_at_once(wrong, error):
    """A field or a promise that does not exist is refused where it is written."""
    with pytest.raises(error, match=next(iter(wrong)) if error is TypeError else "lenght"):
        adapter(**wrong)


def test_a_function_opens_with_what_it_was_given():
    """The function gets the very source and request that its adapter got."""
    source, request = probe(2), replace(Request(), seed=4)
    given = FunctionAdapter(lambda *both: both).open(source, Path(), request)

    assert given[0] is source
    assert given[1] is request


def test_function_adapters_are_adapters():
    """A function from the registry is an adapter like any other."""
    assert isinstance(FunctionAdapter(plain), Adapter)


@pytest.mark.parametrize(
    ("function", "promises", "size", "splits"),
    [
        (lambda _: [([0] * 7, 0)], {Promise.LENGTH}, 7, ("train",)),
        (lambda request: [([0] * request.batch_size, 0)], {Promise.LENGTH}, None, ("train",)),
        (lambda request: [request.split], {Promise.LENGTH}, 1, ("train", "test")),
        (lambda request: iter([request.shuffle]), SHUFFLING, None, ("train",)),
    ],
)
def test_a_function_of_the_request_alone_is_tried_on_its_own_data(function, promises, size, splits):
    """Of a loader over own data the trial also finds whether it heeds the batch size and the split."""
    found = FunctionAdapter(function).description

    assert (True, promises, size, splits) == (
        found.own_data,
        found.promises,
        found.batch_size,
        found.splits,
    )


def test_a_function_that_takes_a_source_heeds_the_batch_size():
    """A loader over the suite's data owes the size that is asked for, whatever it reads."""
    found = FunctionAdapter(lambda _source, _request: [([0] * 7, 0)]).description

    assert (False, None, ("train", "test")) == (found.own_data, found.batch_size, found.splits)


def test_what_is_declared_of_own_data_stays():
    """The trial changes nothing that is declared."""
    found = FunctionAdapter(adapter(batch_size=5, splits=("train", "test"))(lambda _: [1])).description

    assert (5, ("train", "test")) == (found.batch_size, found.splits)
