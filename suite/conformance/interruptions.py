"""What the tests of resuming share: runs with their states, and how loaders went on from these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.scenarios import plain, shuffled
from loaderproof.suite.continuation import Continued, Interrupted, Places, Run, Saved
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.mistakes import likely
from loaderproof.suite.observation import Scenario

WATCH = "watching:watch"
# Two epochs of which states are taken, and three that come after: the first of them may be the rest of the second.
EPOCHS = 5
FEW_EPOCHS = 2
# A grid of states is many small experiments in one.
PATIENCE = 3


@dataclass(frozen=True)
class Tried:
    """A run in one scenario, and how loaders went on from its states.

    Attributes:
        scenario: what all loaders were asked for.
        run: without an interruption.
        continued: from each state that could be handed over.
        ordered: whether samples must come in the order of the run; else any order of the same will do.
    """

    scenario: Scenario
    run: Run
    continued: list[Continued]
    ordered: bool

    def fits(self, owed: Places, came: Places) -> bool:
        """Tell whether what came is what was owed."""
        return came == owed if self.ordered else sorted(came) == sorted(owed)

    def rest_fits(self, came: Continued) -> bool:
        """Tell whether the first pass was right."""
        return came.raised is None and self.fits(self.run.after(came.cut)[0], came.rest)

    def went_on_from(self, saved: Saved) -> bool:
        """Tell whether a fresh loader in the same process went on rightly from a state."""
        return any(one.cut == saved.cut and self.rest_fits(one) for one in self.continued)

    @property
    def resumes(self) -> bool:
        """Whether the rest of an epoch came after every cut within it."""
        return all(self.rest_fits(one) for one in self.continued if not one.cut.boundary)


def scenarios(subject: Judged) -> list[Scenario]:
    """Return runs in order and, if that is promised, in a random order."""
    promised = Promise.SHUFFLE in subject.case.description.promises
    return [plain(subject), *([shuffled(subject)] if promised else [])]


def tries(subject: Judged) -> list[Tried]:
    """Return what came of each scenario. Where each pass starts workers, all cuts are tried in the last alone."""
    *others, last = scenarios(subject)
    dear = subject.case.workers > 0
    return [*(interrupted(subject, one, few=dear) for one in others), interrupted(subject, last)]


def tried(subject: Judged) -> Iterator[Tried]:
    """Yield what came of each scenario; skip a loader that is disturbed by being asked for its state."""
    for found in tries(subject):
        if disturbed(subject, found) is not None:
            pytest.skip("taking its state disturbs its passes, as another test reports")
        yield found


def most_telling(subject: Judged) -> Tried:
    """Return what came of the shuffled run, or of the only one; skip a loader that fails it already."""
    *_, found = tried(subject)
    if not found.resumes:
        pytest.skip("it does not go on from its state in the simplest case, as another test reports")
    return found


def interrupted(subject: Judged, scenario: Scenario, *, few: bool = False) -> Tried:
    """Return a run in one scenario, and how loaders went on from all of its states or from a few."""
    scenario = replace(scenario, epochs=FEW_EPOCHS if few else EPOCHS)
    found: Interrupted = subject.run("resumption:interrupted", scenario, times=PATIENCE, few=few)
    return Tried(scenario, found.run, found.continued, _ordered(subject, scenario, found.run))


def _ordered(subject: Judged, scenario: Scenario, run: Run) -> bool:
    """Tell whether the order is promised and is kept, where nothing is resumed."""
    promises = subject.case.description.promises
    if not scenario.request.shuffle:
        return Promise.SOURCE_ORDER in promises and all(
            epoch == sorted(epoch) for epoch in map(run.epoch, range(len(run.epochs)))
        )
    first, again = (
        subject.run(f"watching:{name}", shuffled(subject)).epochs for name in ("watch", "watch_again")
    )
    return Promise.SEEDED_ORDER in promises and all(
        np.array_equal(one.index, other.index) for one, other in zip(first, again, strict=False)
    )


def disturbed(subject: Judged, found: Tried) -> int | None:
    """Return the first epoch that is another because states were taken in it, or None."""
    usual = shuffled(subject) if found.scenario.request.shuffle else plain(subject)
    seen = subject.run(WATCH, usual)
    return next(
        (
            epoch.number
            for epoch in seen.epochs[: len(found.run.epochs)]
            if not found.fits(epoch.index.tolist(), found.run.epoch(epoch.number))
        ),
        None,
    )


def expect_rest(subject: Judged, found: Tried, came: Continued, how: str = "") -> None:
    """Fail if the first pass after a cut is not what it should be."""
    if not found.rest_fits(came):
        owed = found.run.after(came.cut)[0]
        subject.fail(
            place_of(found.scenario, came),
            expected=f"{how or 'a state taken'} {came.cut}: {shown(owed)}",
            got=came.raised or shown(came.rest),
            hint=likely(found.run, came),
        )


def place_of(scenario: Scenario, came: Continued) -> Place:
    """Return where the samples after a cut are looked at."""
    batch = 0 if came.cut.complete else came.cut.batches
    return Place(scenario, came.cut.next_epoch, batch)


def shown(places: Places, limit: int = 8) -> str:
    """Name samples, at most eight of them."""
    named = ", ".join(f"#{place}" for place in places[:limit])
    return f"{len(places)} samples" + (f": {named}{', ...' if len(places) > limit else ''}" if places else "")


def ask(
    subject: Judged, experiment: str, scenario: Scenario, *, afresh: bool = False, **more: object
) -> list[Continued]:
    """Return how loaders go on from the states that an experiment is given."""
    path = f"resumption:{experiment}"
    found: list[Continued] = subject.ask(
        path, Place(scenario), times=PATIENCE, afresh=afresh, scenario=scenario, **more
    )
    return found
