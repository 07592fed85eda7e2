"""Searches for the smallest request that a loader fails, with Hypothesis."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

from loaderproof.loaders.contract import Promise
from loaderproof.suite.session import Case
from loaderproof.suite.trial import GREY, SQUARE, Trial
from loaderproof.suite.trying import Failure

# Most faults that depend on a size show at the smallest ones, at a rest, or beyond a power of two.
MOST_SAMPLES = 40
MOST_EPOCHS = 6
WORLDS = 3
# What is kept in 32 bits with a sign wraps around at the second of these.
SEEDS = st.integers(0, 99) | st.integers(2**31, 2**32 - 1)
# How long each request may take on average, and how long a failing one may be made smaller.
SECONDS_EACH, SHRINKING_S = 1.0, 60.0


@dataclass
class Attempts:
    """Tries requests, each once, as long as there is time; later ones count as kept.

    Attributes:
        failure: tells how a request fails, or None.
        until: when to stop, by the monotonic clock.
        known: every request that was tried, with its failure.
    """

    failure: Callable[[Trial], Failure | None]
    until: float
    known: dict[Trial, Failure | None] = field(default_factory=dict)

    def of(self, trial: Trial) -> Failure | None:
        """Return how a request fails, or None."""
        if trial not in self.known:
            if time.monotonic() > self.until:
                return None
            first = not any(self.known.values())
            self.known[trial] = self.failure(trial)
            if self.known[trial] and first:
                self.until = time.monotonic() + SHRINKING_S
        return self.known[trial]


class Broken(Exception):
    """A request that a loader fails. Each rule has a class of its own, by which Hypothesis tells faults apart."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(str(trial))
        self.trial = trial


def smallest(attempts: Attempts, case: Case, examples: int, number: int, kept: Path | None) -> Trial | None:
    """Return the smallest failing request that was found, or None.

    Args:
        attempts: how requests are tried.
        case: the loader; what it does not promise is not asked for.
        examples: how many requests to try.
        number: seed of the search.
        kept: folder of the requests that failed before, which are tried first; None to keep none.
    """
    kinds: dict[str, type[Broken]] = {}

    @settings(
        max_examples=examples,
        database=DirectoryBasedExampleDatabase(kept) if kept else None,
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
    )
    @seed(number)  # above the settings it would take their database away
    @given(trials(case))
    def attempt(trial: Trial) -> None:
        failure = attempts.of(trial)
        if failure:
            raise kinds.setdefault(failure.rule, type(failure.rule, (Broken,), {}))(trial)

    set_hypothesis_home_dir(kept)  # it keeps notes of its own beside the requests, else in the working folder
    try:
        attempt()
    except Broken as found:
        return found.trial
    finally:
        set_hypothesis_home_dir(None)
    return None


@st.composite
def trials(draw: Any, case: Case) -> Trial:
    """Draw a request that the loader has promised to answer, and what is done with it; simple ones first."""
    promises = case.description.promises
    samples, batch_size = draw(_sizes()), draw(_sizes())
    epochs = draw(st.integers(1, MOST_EPOCHS))
    shuffle = draw(_if(Promise.SHUFFLE in promises))
    drop_last = draw(_if(Promise.DROP_LAST in promises))
    world_size = draw(st.integers(1, WORLDS)) if Promise.SHARDING in promises else 1
    batches = -(-samples // world_size // batch_size)
    leaves = epochs > 1 and world_size == 1 and not drop_last
    return Trial(
        samples=samples,
        batch_size=batch_size,
        shuffle=shuffle,
        drop_last=drop_last,
        seed=draw(SEEDS) if shuffle else 0,
        workers=draw(st.integers(max(1, case.setup.min_workers), case.workers)) if case.workers else None,
        world_size=world_size,
        epochs=epochs,
        break_after=draw(st.integers(0, min(batches, 3))) if leaves else 0,
        resume_after=draw(st.integers(0, batches)) if Promise.RESUMING in promises else 0,
        # Each shape has to be written anew by those who write what they read.
        shape=draw(st.sampled_from([GREY] if case.description.on_disk else [GREY, SQUARE])),
    )


def _sizes() -> st.SearchStrategy[int]:
    return st.integers(1, 3) | st.integers(1, MOST_SAMPLES)


def _if(allowed: bool) -> st.SearchStrategy[bool]:  # noqa: FBT001 - that is all that is asked
    return st.booleans() if allowed else st.just(False)  # noqa: FBT003 - as above
