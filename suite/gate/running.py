"""Candidate and base measured side by side, in blocks of fresh processes.

Rounds in one process share its luck, such as where its memory lies, and are no replicates; so each
block has processes of its own. They are started together and get ready together; all that is timed
comes one after the other, in random order, balanced within a block and over the blocks.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from loaderproof.suite.answers import Setup
from loaderproof.suite.blocks import orders
from loaderproof.suite.gate.bases import Side
from loaderproof.suite.gate.measures import CANDIDATE, Block, Seen
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Raised, Subject, SubjectError
from loaderproof.suite.timeline import Timing

# In a block each arm is opened so many times, and goes through so many epochs alone; beside each third it trains.
OPENINGS, EPOCHS, TRAINED = 3, 12, 3
_OLD = (
    "\nThe base's loaders run under this run's suite. If the contract between both has changed since, compare with a"
    " later commit or version."
)
# An epoch may take many times what a small probe takes.
_PATIENCE = 10


class NotMeasured(Exception):
    """Nothing can be said of a loader; the text says why, and of which side."""


@dataclass(frozen=True)
class Contest:
    """Who is compared, and with what work.

    Attributes:
        arms: each with its side and what it is asked for.
        device: name of the accelerator.
        timeout_s: the longest that a small experiment may take.
        seed: decides the orders.
        progress: is told how far the run is.
    """

    arms: Mapping[str, tuple[Side, Scenario]]
    device: str
    timeout_s: float
    seed: int
    progress: Callable[[str], object]


@dataclass
class Arm:
    """One process in one block."""

    name: str
    subject: Subject
    scenario: Scenario
    owed: Setup | None = None
    first_batches: list[float] = field(default_factory=list)
    training: list[Timing] = field(default_factory=list)
    loading: list[Timing] = field(default_factory=list)
    peak_bytes: int | None = None

    def ask(self, experiment: str, **arguments: Any) -> Any:
        """Run an experiment.

        Raises:
            NotMeasured: it came to nothing.
        """
        try:
            return self.subject.run(experiment, times=_PATIENCE, **arguments)
        except SubjectError as error:
            msg = f"the {self.name} could not be measured: {error}"
            missing = isinstance(error, Raised) and error.type in {"ImportError", "ModuleNotFoundError"}
            raise NotMeasured(msg + (_OLD if missing and self.name != CANDIDATE else "")) from None

    def load(self) -> None:
        """Go through one epoch."""
        self.loading.append(self.epoch("rounds:load"))

    def train(self) -> None:
        """Train on one epoch."""
        self.training.append(self.epoch("rounds:train"))

    def epoch(self, experiment: str) -> Timing:
        """Run one epoch, and make sure that it did what was asked for.

        Raises:
            NotMeasured: it came to nothing, or did other work.
        """
        self.ask("rounds:settle")
        made: Timing = self.ask(experiment)
        owed = self.owed
        if owed and (made.samples, made.batches) != (owed.samples, owed.batches):
            msg = (
                f"unequal work: the {self.name} delivered {made.samples} samples in {made.batches} batches,"
                f" for {owed.samples} in {owed.batches}"
            )
            raise NotMeasured(msg)
        return made

    def seen(self) -> Seen:
        """Return what it showed."""
        return Seen(
            self.first_batches,
            [one.seconds for one in self.training],
            [one.seconds for one in self.loading],
            [one.wait_s / one.seconds for one in self.training],
            self.peak_bytes,
        )


class Run:
    """The blocks of one contest, one after the other.

    pytest-benchmark times one epoch of the first arm in each block: `before_round` leads up to it,
    `round` is it, and the next `before_round`, or `finish`, brings the rest of the block.

    Args:
        contest: who is compared.
        blocks: how many will come.
    """

    def __init__(self, contest: Contest, blocks: int) -> None:
        self._contest, self._count = contest, blocks
        self._places = orders(len(contest.arms), blocks, contest.seed)
        self._current: Generator[Callable[[], None]] = (_ for _ in ())
        self._round: Callable[[], None] | None = None
        self.blocks: list[Block] = []
        self.setup: Setup | None = None

    def before_round(self) -> None:
        """Finish the block before, and lead up to that epoch in the next."""
        self.finish()
        self._contest.progress(f"block {len(self.blocks) + 1} of {self._count}")
        self._current = self._block(len(self.blocks))
        self._round = next(self._current)

    def round(self) -> None:
        """Train on one epoch of the first arm."""
        if self._round:
            self._round()

    def finish(self) -> None:
        """Finish the block that is under way."""
        for rest in self._current:
            rest()

    def close(self) -> None:
        """End the processes of a block that is not finished."""
        self._current.close()

    def _block(self, number: int) -> Generator[Callable[[], None]]:
        """Measure one block, and hand out the one epoch that somebody else starts the watch for."""
        began = time.monotonic()
        arms = self._started()
        try:
            self._open(arms, number)
            ceiling: list[float] = []
            for turn, order in enumerate(orders(len(arms), EPOCHS, self._contest.seed + number)):
                training = turn % TRAINED == 0
                for arm in (arms[place] for place in order):
                    arm.load()
                    if turn == 0 and arm is arms[0]:
                        yield arm.train
                    elif training:
                        arm.train()
                if training:
                    ceiling.append(arms[0].epoch("rounds:train_on_ceiling").seconds)
            for arm in arms:
                arm.peak_bytes = arm.ask("gate_rounds:peak")
        finally:
            for arm in arms:
                arm.subject.close()
        self.setup = arms[0].owed
        self.blocks.append(Block({arm.name: arm.seen() for arm in arms}, ceiling, time.monotonic() - began))

    def _started(self) -> list[Arm]:
        """Start the processes together and have them do what is done once."""
        limit = self._contest.timeout_s
        arms = [
            Arm(name, Subject(side.spec, limit, side.home), scenario)
            for name, (side, scenario) in self._contest.arms.items()
        ]
        try:
            with ThreadPoolExecutor(len(arms)) as pool:
                list(pool.map(lambda arm: arm.ask("gate_rounds:first_batch", scenario=arm.scenario), arms))
        except BaseException:
            for arm in arms:
                arm.subject.close()
            raise
        return arms

    def _open(self, arms: list[Arm], number: int) -> None:
        """Open each loader again and again, and leave it open, warmed up by an epoch that is not timed."""
        in_turn = [arms[place] for place in self._places[number]]
        for _ in range(OPENINGS):
            for arm in in_turn:
                arm.first_batches.append(arm.ask("gate_rounds:first_batch", scenario=arm.scenario))
        for arm in in_turn:
            arm.owed = arm.ask("rounds:start", scenario=arm.scenario, device=self._contest.device)
            arm.epoch("rounds:train")


def seed_of(label: str, seed: int) -> int:
    """Return the seed of a contest's orders."""
    return zlib.crc32(f"{label} {seed}".encode())
