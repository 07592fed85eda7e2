"""Runs that are interrupted: what is recorded of them, how states travel, and what is said of mistakes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from loaderproof.loaders import Request, Source
from loaderproof.loaders.function import FunctionAdapter, adapter
from loaderproof.suite.continuation import Continued, Cut, Packed, Run, Saved
from loaderproof.suite.experiments import handling, resumption, states
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.mistakes import likely
from loaderproof.suite.observation import Scenario
from loaderproof.suite.options import Settings
from loaderproof.suite.session import Session

SCENARIO = Scenario("probe:7", Request(batch_size=3), epochs=4)
EPOCHS = [[[0, 1, 2], [3, 4, 5], [6]], [[6, 5, 4], [3, 2, 1], [0]], [[1, 3, 5], [0, 2, 4], [6]]]
RUN = Run(EPOCHS, [{}] * 3, [])


class Counted:
    """Reads in order, and counts what it hands out and what it is told.

    Args:
        source: what to read.
        request: how.
    """

    def __init__(self, source: Source, request: Request) -> None:
        self.source, self.request = source, request
        self.told: list[object] = []
        self.epoch = self.handed = 0
        self.loaded = True

    def set_epoch(self, epoch: int) -> None:
        self.told.append(epoch)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.told.append("pass")
        if not self.loaded:
            self.epoch, self.handed = self.epoch + 1, 0
        self.loaded = False
        images, labels = self.source.arrays()
        size = self.request.batch_size
        for start in range(self.handed * size, len(labels), size):
            self.handed += 1
            yield (
                torch.from_numpy(images[start : start + size]).permute(0, 3, 1, 2) / 255,
                torch.from_numpy(labels[start : start + size]),
            )

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "batch": self.handed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.told.append("state")
        self.epoch, self.handed, self.loaded = state["epoch"], state["batch"], True


@pytest.fixture
def bench_of():
    """Return a function that makes a workbench for a class or function `(source, request)`."""
    with contextlib.ExitStack() as stack:

        def made(make) -> Workbench:
            @adapter(promises=["resuming"])
            def opened(source: Source, request: Request) -> object:
                return make(source, request)

            return stack.enter_context(contextlib.closing(Workbench("loader", FunctionAdapter(opened))))

        yield made


@pytest.fixture
def loaders(bench_of):
    """Return a workbench, and the list of all loaders that it opens."""
    found: list[Counted] = []

    def make(source: Source, request: Request) -> Counted:
        found.append(Counted(source, request))
        return found[-1]

    return bench_of(make), found


def test_states_are_taken_at_every_step_of_two_epochs(loaders):
    """Before any iteration, before and after each batch, and after the end: in the first epoch and the second."""
    bench, _ = loaders
    run = resumption.interrupted(bench, SCENARIO).run
    steps = [
        (0, False, "during"),
        (1, False, "during"),
        (2, False, "during"),
        (3, True, "during"),
        (3, True, "after"),
    ]
    cuts = [Cut(epoch, *step) for epoch in range(2) for step in steps]

    assert [Cut(0, 0, moment="before"), *cuts] == [one.cut for one in run.saved]
    assert [0, 1, 2, 3, 3] == [json.loads(one.state.json)["batch"] for one in run.saved[1:6]]


def test_a_resumed_pass_is_the_rest_and_later_passes_are_whole(loaders):
    """From every cut the passes are those that the run had after it; an empty one at an end is left out."""
    bench, _ = loaders
    found = resumption.interrupted(bench, SCENARIO)

    for came in found.continued:
        assert found.run.after(came.cut)[:3] == came.passes[: len(found.run.after(came.cut))]


def test_a_loader_is_told_the_epoch_before_the_state(loaders):
    """A loader that resumes is told the number of its epoch, then gets the state, then is iterated."""
    bench, opened = loaders
    saved = Saved(Cut(1, 2), states.pack({"epoch": 1, "batch": 2}))
    resumption.resume(bench, SCENARIO, [saved], 1)

    assert [1, "state", "pass", 2, "pass"] == opened[-1].told


def test_an_empty_pass_at_the_end_of_an_epoch_is_left_out(loaders):
    """After the end of an epoch the first pass may be empty; then the same number is told again."""
    bench, opened = loaders
    saved = Saved(Cut(0, 3, complete=True), states.pack({"epoch": 0, "batch": 3}))
    [came] = resumption.resume(bench, SCENARIO, [saved], 0)

    assert [[*range(7)]] == came.passes
    assert [1, "state", "pass", 1, "pass"] == opened[-1].told


def test_an_empty_pass_within_an_epoch_is_a_pass(loaders):
    """Within an epoch an empty pass is not passed over."""
    bench, _ = loaders
    saved = Saved(Cut(0, 2), states.pack({"epoch": 0, "batch": 3}))
    [came] = resumption.resume(bench, SCENARIO, [saved], 0)

    assert [[]] == came.passes


def test_a_second_state_continues_the_same_pass(loaders):
    """What comes before and after the second interruption is the rest after the first."""
    bench, _ = loaders
    saved = Saved(Cut(0, 1), states.pack({"epoch": 0, "batch": 1}))

    assert [[[3, 4, 5, 6]]] * 2 == [
        came.passes for came in resumption.resume_twice(bench, SCENARIO, [(saved, 0), (saved, 1)])
    ]


@pytest.mark.parametrize(
    ("error", "refused"),
    [(ValueError("of another world"), True), (AssertionError(), False)],
    ids=["text", "no text"],
)
def test_a_refusal_has_a_message(bench_of, error, refused):
    """An exception when a state is loaded counts as a refusal if it says something."""

    class Refusing(Counted):
        def load_state_dict(self, state):  # noqa: ARG002
            raise error

    saved = Saved(Cut(0, 1), states.pack({"epoch": 0, "batch": 1}))
    [came] = resumption.resume(bench_of(Refusing), SCENARIO, [saved], 0)

    assert (refused, []) == (came.refused, came.passes)
    assert "in load_state_dict)" in came.raised


def test_an_exception_after_the_first_pass_is_no_refusal(bench_of):
    """A loader that has handed out samples has not refused."""

    class Late(Counted):
        def set_epoch(self, epoch):
            if epoch == 2 and self.epoch == 1:
                msg = "too late"
                raise ValueError(msg)

    saved = Saved(Cut(1, 2), states.pack({"epoch": 1, "batch": 2}))
    [came] = resumption.resume(bench_of(Late), SCENARIO, [saved], 1)

    assert (False, [[6]]) == (came.refused, came.passes)
    assert came.raised.startswith("ValueError: too late")


@pytest.mark.parametrize(
    "state",
    [{}, {"epoch": 1, "rest": [1, 2], "name": "x", "none": None, "share": 0.5}, {"pair": (1, (2, 3))}],
    ids=["empty", "all kinds", "tuples"],
)
def test_plain_states_travel_as_text(state):
    """Plain data is packed as JSON, with lists for tuples, and nothing is strange about it."""
    packed = states.pack(state)

    assert (None, None) == (packed.pickled, packed.strange)
    assert json.loads(json.dumps(state)) == states.unpack(packed)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"rng": torch.zeros(2)}, ("state['rng'] is tensor", "torch.Tensor")),
        ({"at": {3: 1}}, ("state['at'] has the key 3 of type int",)),
        ({"at": [{(0, 1): 1}]}, ("state['at'][0] has the key (0, 1) of type tuple",)),
        ({"n": np.int64(3)}, ("state['n'] is", "numpy.int64")),
        ({"n": float("nan")}, ("state['n'] is nan",)),
        (Cut(0, 1), ("state is Cut",)),
    ],
    ids=["tensor", "number as key", "tuple as key", "numpy", "nan", "object"],
)
def test_strange_states_are_named_and_travel_pickled(state, words):
    """What is no plain data is named with its path, and the state can be handed over all the same."""
    packed = states.pack(state)

    assert [] == [word for word in words if word not in packed.strange]
    assert repr(state) == repr(states.unpack(packed))


def test_a_state_that_cannot_travel_is_left_out(loaders):
    """A state that can be neither written as text nor pickled is loaded nowhere."""
    bench, _ = loaders
    packed = states.pack({"function": lambda: 0})

    assert (False, []) == (packed.portable, resumption.resume(bench, SCENARIO, [Saved(Cut(0, 1), packed)], 0))


def test_a_state_is_emptied_to_the_bottom():
    """Every dict and list in a state is emptied, and every array set to 0."""
    inner, values, numbers = {"a": [1]}, [1, [2]], np.ones(2)
    deepest = inner["a"]
    states.empty({"inner": inner, "values": (values,), "numbers": numbers, "text": "x"})

    assert ({}, [], [], [0, 0]) == (inner, values, deepest, numbers.tolist())


def test_asking_starts_nothing_in_a_loader_that_counts(loaders):
    """A loader that only counts starts nothing when it is asked for its state."""
    bench, _ = loaders

    assert [] == handling.started_by_asking(bench, SCENARIO)


def test_a_process_that_asking_starts_is_named(bench_of):
    """A process that `state_dict` starts is named with its command."""
    started: list[subprocess.Popen] = []

    class Starting(Counted):
        def state_dict(self):
            started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
            return super().state_dict()

    try:
        [found] = handling.started_by_asking(bench_of(Starting), SCENARIO)
    finally:
        for process in started:
            process.communicate()

    assert found.startswith("1 processes: ")
    assert "input()" in found


@pytest.mark.parametrize(
    ("cut", "came", "words"),
    [
        (Cut(1, 1), [6, 5, 4, 3, 2, 1, 0], "the position is not restored: epoch 1 comes from its beginning"),
        (Cut(1, 1), [0, 1, 2, 3, 4, 5, 6], "the position is not restored: epoch 0"),
        (Cut(0, 3, complete=True), [1, 3, 5, 0, 2, 4, 6], "an epoch is lost: epoch 2"),
        (Cut(1, 1), [3, 4, 5, 6], "the epoch is not: this is the rest of epoch 0"),
        (Cut(1, 2), [3, 2, 1, 0], "1 batch too early"),
        (Cut(1, 1), [0], "1 batch too late"),
        (Cut(0, 1), [], "2 batches too late"),
        (Cut(1, 1), [0, 1, 2, 3], "the order is not"),
        (Cut(1, 1), [3, 1], "what a shuffle buffer"),
        (Cut(1, 1), [6, 5, 2, 0], "the permutation is not"),
        (Cut(1, 1), [6, 5, 2, 0, 1, 1], "only a part of the position"),
    ],
)
def test_likely_reason_fits_what_came(cut, came, words):
    """What came after a cut tells what was not restored."""
    assert words in likely(RUN, Continued(cut, [came]))


def test_an_exception_is_no_matter_of_positions():
    """Where an exception came instead of samples, the reason is one of saving and loading."""
    assert "was not thought of" in likely(RUN, Continued(Cut(1, 1), raised="KeyError: 'epoch'"))


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (Cut(0, 0, moment="before"), "before any iteration"),
        (Cut(0, 0), "after 0 batches of epoch 0"),
        (Cut(1, 1), "after 1 batch of epoch 1"),
        (Cut(1, 6, complete=True), "after all 6 batches of epoch 1"),
        (Cut(0, 6, complete=True, moment="after"), "after the end of epoch 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_cut_reads_as_a_moment(cut, text):
    """A cut is named in words."""
    assert text == str(cut)


LOADER = """
import os
from loaderproof.loaders import Promise
from loaderproof.loaders.function import adapter

class Loader:
    def __iter__(self):
        return iter(())

    def load_state_dict(self, state):
        raise RuntimeError(f"process {os.getpid()}")

@adapter(promises=[Promise.RESUMING])
def loader(source, request):
    return Loader()
"""


def test_afresh_is_another_process_each_time(tmp_path):
    """An experiment that runs afresh has a process of its own, which is gone when the answer is there."""
    spec = tmp_path / "loader.py"
    spec.write_text(LOADER)
    session = Session(Settings((f"{spec}:loader",), "probe", (0,), "cpu", "process", 60.0, None))
    [case] = session.cases()
    saved = [Saved(Cut(0, 1), Packed(json="{}"))]

    def process_of(*, afresh: bool) -> int:
        [came] = session.ask(
            case,
            "test",
            "resumption:resume",
            times=1,
            afresh=afresh,
            scenario=SCENARIO,
            saved=saved,
            further=0,
        )
        return int(came.raised.split()[2])

    try:
        usual, others = process_of(afresh=False), [process_of(afresh=True) for _ in range(2)]
        assert usual == process_of(afresh=False)
    finally:
        session.close()

    assert 3 == len({usual, *others})
    assert [] == [one for one in others if Path(f"/proc/{one}").exists()]
