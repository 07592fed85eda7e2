"""A rank: one of several processes that each open their part of a loader, as members of one process group.

This side runs in the process of the rank. Everything between ranks goes through torch.distributed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import faulthandler
import itertools
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.elastic.multiprocessing import api as _preloaded  # noqa: F401 - the ranks need it
from torch.distributed.rendezvous import rendezvous

from loaderproof.suite.experiments.attempts import attempt
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.fingerprint import Coverage
from loaderproof.suite.sharding import RANK, WORLD, Step, Whole

# How long the rank before is waited for, in case it waits in turn for all to begin.
_TURN_S = 0.5
# On top of what a rank may take for a step, so that it is the rank that is blamed.
_SLACK_S = 30.0
_LOCAL = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")


class Lost(RuntimeError):
    """Another rank ended or did not answer.

    Attributes:
        step: what was being done.
        ranks: those that did not get so far.
    """

    def __init__(self, step: Step, ranks: list[int]) -> None:
        super().__init__(
            f"it ended, or gave no answer within {step.limit_s + _SLACK_S:g} s; the run that it belongs to"
            " says which, and where it stood"
        )
        self.step, self.ranks = step, ranks


@dataclass(frozen=True)
class Orders:
    """What the ranks that `launch` starts are told.

    Attributes:
        spec: of the adapter.
        steps: what to do.
        owed: the coverage of the source of each step that covers whole data, by its name.
        results: file in which rank 0 writes down what came of each step.
        start_method: of the workers that a rank starts, as where it was started.
        first_passes: what is known of own data.
    """

    spec: str
    steps: list[Step]
    owed: dict[str, Coverage]
    results: Path
    start_method: str | None
    first_passes: dict[Any, Any]


def serve(orders: Orders) -> None:
    """Take steps as one of the ranks that `launch` started."""
    # Else the workers of this rank would be started as it was itself, instead of as everywhere.
    multiprocessing.set_start_method(orders.start_method, force=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    bench = Workbench(orders.spec)
    bench.first_passes.update(orders.first_passes)
    try:
        with orders.results.open("ab", buffering=0) as file:
            for outcome in walk(bench, orders.steps, orders.owed, "launched", deadly=True):
                if os.environ[RANK] == "0":
                    file.write(pickle.dumps(outcome))
    except Lost:
        # The launcher blames the rank that ended first, and ends this one.
        time.sleep(_SLACK_S)
        raise
    finally:
        bench.close()


def walk(
    bench: Workbench, steps: list[Step], owed: dict[str, Coverage], key: str, *, deadly: bool
) -> Iterator[list[Any]]:
    """Take those steps that this rank has a part in; yield what came of each, in the order of the ranks.

    Args:
        bench: the adapter.
        steps: those of one world together.
        owed: the coverage of the source of each step that covers whole data, by its name.
        key: tells this walk from others in the same group.
        deadly: whether a rank that takes too long prints its stacks and ends.

    Raises:
        Lost: there is no hearing from another rank.
    """
    store, rank, size = next(rendezvous("env://", int(os.environ[RANK]), int(os.environ[WORLD])))
    store = PrefixStore(key, store)
    store = PrefixStore(str(store.add(f"walks/{rank}", 1)), store)
    for number, (world, together) in enumerate(itertools.groupby(steps, lambda step: step.world)):
        if rank < world <= size:
            part = list(together)
            with _Group(PrefixStore(f"group{number}", store), rank, world, part) as group:
                if bench.own_data:
                    group.share(bench.first_passes, part[0])
                for step in part:
                    yield group.take(bench, step, owed.get(step.name), deadly=deadly)


class _Group:
    """The default process group of torch.distributed, with as many ranks as a step asks for."""

    def __init__(self, store: Any, rank: int, world: int, steps: list[Step]) -> None:
        self._store, self._rank, self._world = store, rank, world
        self._steps = steps
        self._surroundings = contextlib.ExitStack()

    def __enter__(self) -> Self:
        # A loader that asks the group or the environment instead of its request must hear the same.
        mine = dict(zip((RANK, WORLD, *_LOCAL), map(str, (self._rank, self._world) * 2), strict=True))
        self._surroundings.enter_context(_environment(mine))
        patience = max(step.limit_s for step in self._steps) + _SLACK_S
        with self._losing(self._steps[0], "group"):
            dist.init_process_group(
                "gloo",
                store=PrefixStore("gloo", self._store),
                rank=self._rank,
                world_size=self._world,
                timeout=dt.timedelta(seconds=patience),
            )
        self._surroundings.callback(dist.destroy_process_group)
        return self

    def __exit__(self, *_: object) -> None:
        self._surroundings.close()

    def take(self, bench: Workbench, step: Step, owed: Coverage | None, *, deadly: bool) -> list[Any]:
        """Take one step together with the other ranks; return what came of it on each."""
        mark = f"{self._steps.index(step)}"
        with self._losing(step, f"{mark}/begun"):
            dist.barrier()
        self._wait_for_turn(step.turns, f"{mark}/done")
        mine = attempt(step.kind, bench, step, self._rank, deadly=deadly)
        with self._losing(step, f"{mark}/done"):
            parts = _gathered(mine, self._world)
            if step.kind != "cover" or _failed(parts):
                return parts
            came = summed(mine)
        if came == owed:
            return [Whole(came)] * self._world
        mine = attempt("identify", bench, step, self._rank, deadly=deadly)
        with self._losing(step, f"{mark}/named"):
            parts = _gathered(mine, self._world)
        return parts if _failed(parts) else [Whole(came, *map(np.concatenate, zip(*parts, strict=True)))]

    def share(self, first_passes: dict[Any, Any], step: Step) -> None:
        """Have all ranks know own data by one first pass, as each could have another order."""
        given = [first_passes]
        with self._losing(step, "first"):
            dist.broadcast_object_list(given, 0)
        first_passes.update(given[0])

    def _wait_for_turn(self, turns: tuple[int, ...], mark: str) -> None:
        before = turns[: turns.index(self._rank)] if turns else ()
        with contextlib.suppress(RuntimeError):
            self._store.wait([f"{mark}/{rank}" for rank in before[-1:]], dt.timedelta(seconds=_TURN_S))

    @contextlib.contextmanager
    def _losing(self, step: Step, mark: str) -> Iterator[None]:
        """Say in the store that this rank got so far, and which ranks did not if there is no hearing from one."""
        self._store.set(f"{mark}/{self._rank}", "")
        try:
            yield
        except RuntimeError as error:
            raise Lost(step, self._missing(mark)) from error

    def _missing(self, mark: str) -> list[int]:
        with contextlib.suppress(RuntimeError):  # the store may be lost, too
            return [rank for rank in range(self._world) if not self._store.check([f"{mark}/{rank}"])]
        return []


def summed(mine: Coverage) -> Coverage:
    """Return the coverage of all ranks of the group together."""
    # Two's complement: the sum of signed words overflows to the same bits as that of unsigned ones.
    words = np.array([mine.count, mine.total], np.uint64).view(np.int64)
    total = torch.from_numpy(words)
    dist.all_reduce(total)
    count, whole = total.numpy().view(np.uint64).tolist()
    return Coverage(count, whole)


def _gathered(mine: Any, world: int) -> list[Any]:
    parts: list[Any] = [None] * world
    dist.all_gather_object(parts, mine)
    return parts


def _failed(parts: list[Any]) -> bool:
    return any(isinstance(part, str) for part in parts)


@contextlib.contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
