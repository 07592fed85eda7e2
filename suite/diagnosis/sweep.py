"""Runs requests to one loader side by side, in blocks beside the ceiling, whatever some of them do."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loaderproof.loaders.contract import Request
from loaderproof.suite.answers import Setup
from loaderproof.suite.blocks import orders
from loaderproof.suite.diagnosis.tuning import Setting, Sweep
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Raised, SubjectError
from loaderproof.suite.timeline import Timing

# As many blocks as fit into so many seconds, within these limits.
BLOCKS_S, FEWEST, MOST = 8.0, 6, 12
# A setting that took so many times as long as the fastest one in each of its first blocks is given up.
_HOPELESS, _TRIES = 2.0, 3
# So many times what the first request took, beside a time-out, may the others take before they count as hanging.
_PATIENCE, _SLOWER = 10, 5


def sweep(
    subject: Judged, requests: Sequence[Request], blocks: int | None = None, what: str = "sweep"
) -> Sweep:
    """Train with each request in turn, block after block, and return how long each epoch took.

    The loaders are open at the same time. Each block has one epoch of each of them and one of the
    ceiling, in random order, balanced over the blocks. The first epoch of each loader is not timed.
    A request that fails, hangs or delivers other than the first one's samples is left out, with
    the reason; one that is far too slow is measured in three blocks only.

    Args:
        subject: the loader.
        requests: what it is asked for; they share their data, batch size and seed.
        blocks: how many; None for as many as fit into some seconds.
        what: is being tried, for the line of progress.

    Raises:
        NotKept: the first request failed.
    """
    return _Sweeping(subject, requests, blocks, what).run()


class _Lost(Exception):
    """A request failed when others were open: all begin anew without it."""


@dataclass
class _Sweeping:
    subject: Judged
    requests: Sequence[Request]
    blocks: int | None
    what: str
    failed: dict[int, str] = field(default_factory=dict)
    setups: dict[int, float] = field(default_factory=dict)
    firsts: dict[int, Timing] = field(default_factory=dict)

    def run(self) -> Sweep:
        while True:
            try:
                seconds, ceiling = self._measure()
            except _Lost:
                continue
            self._ask("finish")
            setups = {number: self.setups[number] for number in seconds}
            return Sweep(seconds, ceiling, setups, dict(self.failed))

    def _measure(self) -> tuple[dict[int, list[float]], list[float]]:
        self._ask("start", scenario=self._scenario(0), device=self.subject.session.settings.device)
        for number in self._alive:
            self._open(number)
        alive = self._alive
        self._ask("train_on_ceiling")  # its first epoch is not timed either
        seconds: dict[int, list[float]] = {number: [] for number in alive}
        ceiling: list[float] = []
        blocks = self._blocks(alive)
        for block, order in enumerate(orders(1 + len(alive), blocks, self._seed), start=1):
            hopeless = _hopeless(seconds)
            for arm in order:
                if arm == len(alive):
                    ceiling.append(self._ask("train_on_ceiling").seconds)
                elif (number := alive[arm]) not in hopeless:
                    self._say(f"block {block} of {blocks}: {_named(self.requests[number])}")
                    seconds[number].append(self._timed(number).seconds)
        return seconds, ceiling

    @property
    def _alive(self) -> list[int]:
        return [number for number in range(len(self.requests)) if number not in self.failed]

    @property
    def _seed(self) -> int:
        return zlib.crc32(f"{self.subject.case.label} {self.what}".encode())

    def _blocks(self, alive: Sequence[int]) -> int:
        if self.blocks:
            return self.blocks
        block_s = sum(self.firsts[number].seconds for number in alive)
        return min(MOST, max(FEWEST, int(BLOCKS_S / block_s)))

    def _open(self, number: int) -> None:
        self._say(f"opening with {_named(self.requests[number])}")
        opened: tuple[Setup, Timing] | None = self._try(
            number, "open_loader", scenario=self._scenario(number)
        )
        if opened:
            setup, first = opened
            self.setups[number], self.firsts[number] = setup.open_s + first.first_batch_s, first
            self._compare(number, first)

    def _timed(self, number: int) -> Timing:
        made: Timing | None = self._try(number, "train")
        if made:
            self._compare(number, made)
        if made is None or number in self.failed:
            raise _Lost
        return made

    def _compare(self, number: int, made: Timing) -> None:
        """Leave a request out that gives more or less than the first one."""
        owed = self.firsts[0]
        if number and (made.samples, made.batches) != (owed.samples, owed.batches):
            self.failed[number] = (
                f"unequal work: {made.samples} samples in {made.batches} batches,"
                f" for {owed.samples} in {owed.batches}"
            )

    def _try(self, number: int, what: str, **more: Any) -> Any:
        """Return what came of it, or None if a request failed that can be left out."""
        if number == 0:
            return self._ask(what, number=0, **more)
        session, case = self.subject.session, self.subject.case
        times = 1 + _SLOWER * self.firsts[0].seconds / session.settings.timeout_s
        try:
            # Past the session, which would count what a bad setting does against the loader.
            return session.subject(case.spec).run(f"tuning_rounds:{what}", times=times, number=number, **more)
        except Raised as error:
            self.failed[number] = f"raised {error.type}: {_first_line(error.message)}"
        except SubjectError as error:
            self.failed[number] = _first_sentence(str(error))
            raise _Lost from None
        return None

    def _ask(self, what: str, **more: Any) -> Any:
        place = Place(self._scenario(more.get("number", 0)))
        return self.subject.ask(f"tuning_rounds:{what}", place, times=_PATIENCE, **more)

    def _scenario(self, number: int) -> Scenario:
        return replace(self.subject.timed_scenario(), request=self.requests[number])

    def _say(self, text: str) -> None:
        self.subject.progress(f"{self.what}, {text}")


def _hopeless(seconds: dict[int, list[float]]) -> set[int]:
    """Return the requests, but for the first, that were far too slow in each of their first blocks."""
    fastest = (
        [min(each[block] for each in seconds.values()) for block in range(_TRIES)] if _tried(seconds) else []
    )
    return {
        number
        for number, each in seconds.items()
        if number and fastest and all(each[block] > _HOPELESS * fastest[block] for block in range(_TRIES))
    }


def _tried(seconds: dict[int, list[float]]) -> bool:
    return min(map(len, seconds.values())) >= _TRIES


def _named(request: Request) -> str:
    return str(Setting(request.num_workers, tuple(request.options.items())))


def _first_sentence(text: str) -> str:
    """Return what came of it, without the advice and the output behind it."""
    return re.split(r"\. |; ", _first_line(text), maxsplit=1)[0]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
