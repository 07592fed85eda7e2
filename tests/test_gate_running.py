"""How candidate and base are measured: in which order, in which processes, and what is refused."""

from collections import Counter
from contextlib import nullcontext

import pytest

from loaderproof.loaders import Request
from loaderproof.suite.answers import Setup
from loaderproof.suite.gate import measuring, running
from loaderproof.suite.gate.measures import AGAIN, BASE, CANDIDATE, Block, Seen
from loaderproof.suite.gate.running import EPOCHS, OPENINGS, TRAINED, Contest, NotMeasured, Run
from loaderproof.suite.gate.sides import Side
from loaderproof.suite.home import Home
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Died, Raised
from loaderproof.suite.timeline import Readings, timing

ARMS = (CANDIDATE, BASE, AGAIN)
SCENARIO = Scenario("probe", Request(), 1, 64)
EPOCH = timing(Readings([0, 1, 2, 3], 0, 4, 5), [64])


class Diary:
    """What the processes of a run were asked for, in its order."""

    def __init__(self):
        self.asked, self.open, self.made, self.dies = [], 0, 0, None

    def subject(self, spec, timeout_s, home):
        """Make a process that answers at once."""
        del timeout_s, home
        self.made += 1
        self.open += 1
        return Process(self, spec)

    def of(self, experiment):
        """Return who was asked for an experiment, in order."""
        return [spec for spec, asked in self.asked if asked == experiment]


class Process:
    """A process that does nothing, for one side."""

    def __init__(self, diary, spec):
        self._diary, self._spec = diary, spec

    def run(self, experiment, *, times, **arguments):
        """Answer, and write it down."""
        del times, arguments
        self._diary.asked.append((self._spec, experiment))
        if experiment == self._diary.dies:
            raise Died("gone")
        answers = {"gate_rounds:first_batch": 0.1, "gate_rounds:peak": 1, "rounds:settle": None}
        answers["rounds:start"] = Setup(0.0, 0.0, 64, 1, "emulated")
        return answers.get(experiment, EPOCH)

    def close(self):
        """End."""
        self._diary.open -= 1


@pytest.fixture
def diary(monkeypatch):
    """Have processes that only write down what they are asked for."""
    made = Diary()
    monkeypatch.setattr(running, "Subject", made.subject)
    return made


def run_of(blocks: int, seed: int = 0) -> Run:
    """Return a run whose arms are known by their specs."""
    arms = {name: (Side(name, Home(), name), SCENARIO) for name in ARMS}
    return Run(Contest(arms, "emulated:1ms", 1, seed, lambda _: None), blocks)


def measured(run: Run, blocks: int) -> Run:
    """Measure so many blocks, as pytest-benchmark does."""
    for _ in range(blocks):
        run.before_round()
        run.round()
    run.finish()
    return run


def test_each_block_has_fresh_processes(diary):
    """Every arm gets a process of its own in every block, and none is left."""
    run = measured(run_of(3), 3)

    assert (9, 0, 3) == (diary.made, diary.open, len(run.blocks))


def test_every_arm_does_the_same(diary):
    """Each arm is opened, loaded and trained on as often as the others, and the figures are all there."""
    run = measured(run_of(1), 1)
    wanted = {
        "gate_rounds:first_batch": OPENINGS + 1,
        "rounds:load": EPOCHS,
        "rounds:train": EPOCHS // TRAINED + 1,
    }

    assert all(dict.fromkeys(ARMS, times) == Counter(diary.of(what)) for what, times in wanted.items())
    seen = run.blocks[0].seen[BASE]
    assert (OPENINGS, EPOCHS, EPOCHS // TRAINED) == tuple(
        map(len, (seen.first_batches_s, seen.loading_s, seen.training_s))
    )
    assert EPOCHS // TRAINED == len(run.blocks[0].ceiling_s)


def test_nobody_always_comes_first(diary):
    """Within three blocks each arm opens first once; within a block each is first in a third of the rounds."""
    measured(run_of(3), 3)
    opened, loaded = diary.of("rounds:start"), diary.of("rounds:load")

    assert dict.fromkeys(ARMS, 1) == Counter(opened[::3])
    assert dict.fromkeys(ARMS, EPOCHS) == Counter(loaded[::3])


def test_the_seed_decides_the_orders(diary):
    """One seed gives one order, another one another."""
    orders = []
    for seed in (1, 1, 2):
        diary.asked.clear()
        measured(run_of(2, seed), 2)
        orders.append(diary.of("rounds:load"))

    assert orders[0] == orders[1] != orders[2]


def test_the_epoch_that_is_timed_is_the_candidates(diary):
    """Between the two calls of pytest-benchmark one epoch of the candidate's training lies, and nothing else."""
    run = run_of(1)
    run.before_round()
    before = len(diary.asked)
    run.round()

    assert [(CANDIDATE, "rounds:settle"), (CANDIDATE, "rounds:train")] == diary.asked[before:]
    run.close()


def test_a_block_that_is_cut_short_leaves_no_process(diary):
    """Whoever stops in the middle of a block closes the run, and its processes end."""
    run = run_of(1)
    run.before_round()
    run.close()

    assert (3, 0, []) == (diary.made, diary.open, run.blocks)


@pytest.mark.parametrize(
    "when", ["gate_rounds:first_batch", "rounds:start", "rounds:load", "gate_rounds:peak"]
)
def test_a_side_that_dies_leaves_no_process(diary, when):
    """Whenever a process dies the others of the block end, and the text says which side it was."""
    diary.dies = when

    with pytest.raises(NotMeasured, match=r"^the (candidate|base|base again) could not be measured: gone"):
        measured(run_of(1), 1)
    assert 0 == diary.open


@pytest.mark.parametrize(("side", "told"), [(BASE, True), (CANDIDATE, False)])
def test_a_base_from_before_a_change_of_the_contract_is_explained(diary, monkeypatch, side, told):
    """Where the base lacks a name that the suite imports, the text says that it is too old."""

    def run(self, experiment, **arguments):
        del experiment, arguments
        if self._spec == side:
            raise Raised("ImportError", "cannot import name 'Tunable'", "")
        return 0.1

    monkeypatch.setattr(Process, "run", run)

    with pytest.raises(NotMeasured) as caught:
        measured(run_of(1), 1)
    assert told == ("compare with a later commit" in str(caught.value))


@pytest.mark.parametrize(("told", "refused"), [((1, 2), False), ((None, None), False), ((1, None), True)])
def test_memory_that_is_told_now_and_then_is_refused(told, refused):
    """Where some processes tell their memory and others do not, something is wrong; where none does, it is left out."""
    seen = {str(place): Seen([], [], [], [], one) for place, one in enumerate(told)}
    run = run_of(1)
    run.blocks.append(Block(seen, [], 1.0))

    with pytest.raises(NotMeasured) if refused else nullcontext():
        measuring._same_figures(run)
