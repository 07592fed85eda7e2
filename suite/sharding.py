"""What the ranks of one loader are asked, and what they showed; plain data, read in pytest's own process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from loaderproof.suite.fingerprint import Coverage
from loaderproof.suite.observation import Observation, Scenario

Key = tuple[str, int]

WORLDS = (3, 2, 1)
RANK, WORLD = "RANK", "WORLD_SIZE"  # as torchrun calls them


@dataclass(frozen=True)
class Step:
    """One thing that all ranks do at the same time.

    Attributes:
        name: of what is tried.
        scenario: what rank 0 is asked for.
        kind: `watch` for observations, `cover` for coverage in constant memory.
        turns: the order in which ranks begin, each when the one before it is done; empty for all at once.
        leaves: the rank that leaves the first epoch after one batch.
        limit_s: the longest that a rank may take.
    """

    name: str
    scenario: Scenario
    kind: str = "watch"
    turns: tuple[int, ...] = ()
    leaves: int | None = None
    limit_s: float = 60.0

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.scenario.request.world_size

    @property
    def key(self) -> Key:
        """Name and number of ranks; no two steps of a walk share them."""
        return self.name, self.world

    def of(self, rank: int) -> Scenario:
        """Return what one rank is asked for."""
        return replace(self.scenario, request=replace(self.scenario.request, rank=rank))


@dataclass(frozen=True)
class Trouble:
    """A rank that raised, died or did not answer.

    Attributes:
        step: what was being done.
        rank: which; None if it is not known.
        text: what became of it.
    """

    step: Step
    rank: int | None
    text: str


@dataclass
class Whole:
    """What came of whole data on all ranks together.

    Attributes:
        came: the sum over the ranks.
        images, labels: what came at a second look, if the sum is not the source's: hashes of the pixels
            (uint64) and labels (int64).
    """

    came: Coverage
    images: np.ndarray | None = None
    labels: np.ndarray | None = None


@dataclass
class Sharded:
    """What the ranks of one loader showed, by name of the step and number of ranks.

    Attributes:
        watched: one observation for each rank.
        whole: what all ranks covered together.
        troubles: in the order in which they were met; steps after one that ended a rank were not taken.
    """

    watched: dict[Key, list[Observation]] = field(default_factory=dict)
    whole: dict[Key, Whole] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)

    @classmethod
    def of(cls, steps: list[Step], outcomes: list[list[Any]]) -> Sharded:
        """Sort what came of the first steps, in their order; texts are of exceptions."""
        made = cls()
        by_kind: dict[str, dict[Key, Any]] = {"watch": made.watched, "cover": made.whole}
        for step, parts in zip(steps, outcomes, strict=False):
            raised = [Trouble(step, rank, part) for rank, part in enumerate(parts) if isinstance(part, str)]
            made.troubles += raised
            if not raised:
                by_kind[step.kind][step.key] = parts[0] if step.kind == "cover" else parts
        return made


def group_size(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many ranks the group has that this process was started in; 1 if there is none."""
    return int(environment.get(WORLD, "1")) if RANK in environment else 1


def worlds(environment: Mapping[str, str] = os.environ) -> tuple[int, ...]:
    """Return the numbers of ranks to be tried, the largest first: that of the group, if there is one."""
    size = group_size(environment)
    return (size,) if size > 1 else WORLDS
