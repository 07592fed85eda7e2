"""Has a loader's run interrupted and go on from its state, in the loader's own process.

The suite's order of calls on a loader that resumes is `set_epoch(e)`, `load_state_dict(state)`, pass, where
e is the number that this epoch has in the uninterrupted run. So one whose `set_epoch` begins an epoch anew is
right, and one that takes its epoch from `set_epoch` alone is, too. A state between two epochs is resumed with
the number of the later; if the first pass is empty, the call is repeated before the second.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from loaderproof.suite.continuation import Continued, Cut, Draws, Interrupted, Places, Saved
from loaderproof.suite.experiments import states
from loaderproof.suite.experiments.runs import CUT_EPOCHS, is_dear, limit, places_of, rest_of, watch_run
from loaderproof.suite.experiments.workbench import Workbench, start_epoch
from loaderproof.suite.observation import Scenario

# Epochs to watch after that of a state.
_FURTHER = 2


def interrupted(bench: Workbench, scenario: Scenario, *, few: bool = False) -> Interrupted:
    """Watch a run, and how fresh loaders go on from its states; from all of them where that is quick.

    Args:
        bench: of the loader.
        scenario: what all loaders are asked for.
        few: whether two cuts within epochs are enough, without the epochs that follow.
    """
    run = watch_run(bench, scenario, few=few)
    further = 0 if few else min(_FURTHER, len(run.epochs) - CUT_EPOCHS)
    return Interrupted(run, resume(bench, scenario, run.saved, further, sparing=is_dear(bench, scenario)))


def resume(
    bench: Workbench, scenario: Scenario, saved: Iterable[Saved], further: int, *, sparing: bool = False
) -> list[Continued]:
    """Load each state into a fresh loader, and watch how its run goes on.

    Args:
        bench: of the loader.
        scenario: what the fresh loaders are asked for.
        saved: the states; those that cannot be handed over are left out.
        further: how many epochs to watch after the first pass.
        sparing: whether later epochs are watched only after the first batch and after the end of an epoch.
    """
    return [
        resumed(bench, scenario, one, further if not sparing or _first_or_last(one.cut) else 0)
        for one in saved
        if one.state.portable
    ]


def _first_or_last(cut: Cut) -> bool:
    return cut.moment == "after" or cut.batches == 1


def resume_twice(bench: Workbench, scenario: Scenario, saved: Iterable[tuple[Saved, int]]) -> list[Continued]:
    """Load each state, take some batches, and go on from the state of then in another loader: all one pass.

    Args:
        bench: of the loader.
        scenario: what the loaders are asked for.
        saved: each state with the batches to take, which are not all that are left of its epoch.
    """
    return [_resume_twice(bench, scenario, *one) for one in saved if one[0].state.portable]


def _resume_twice(bench: Workbench, scenario: Scenario, saved: Saved, taken: int) -> Continued:
    try:
        with bench.opened(scenario) as loader:
            _load(loader, saved)
            # Without a batch to take the loader must know its place before it is iterated.
            passing = iter(loader) if taken else iter(())
            handed, _ = places_of(bench, scenario, itertools.islice(rest_of(passing), taken))
            again = states.taken(loader, saved.cut)
            del passing
    except Exception as error:  # noqa: BLE001 - whatever it raises is a finding
        return failed(Continued(saved.cut), error)
    return resumed_after(bench, scenario, handed, again)


def resumed_after(bench: Workbench, scenario: Scenario, handed: Places, again: Saved) -> Continued:
    """Return one pass of what came before a state was taken, and of what comes when it is loaded."""
    if again.error:
        return Continued(again.cut, raised=f"state_dict() raised {again.error}")
    came = resumed(bench, scenario, again, 0)
    came.passes = [handed + places for places in came.passes]
    return came


def resume_used(bench: Workbench, scenario: Scenario, saved: Iterable[Saved]) -> list[Continued]:
    """Load each state into a loader that has left its second epoch early."""
    found = []
    for one in saved:
        with bench.opened(scenario) as loader:
            for epoch, taken in (0, limit(bench, scenario)), (1, 2):
                start_epoch(loader, epoch)
                for _ in itertools.islice(loader, taken):
                    pass
            found.append(_continue(bench, scenario, loader, one, 0))
    return found


def resumed(bench: Workbench, scenario: Scenario, saved: Saved, further: int) -> Continued:
    """Load a state into a fresh loader, and watch how its run goes on."""
    try:
        with bench.opened(scenario) as loader:
            return _continue(bench, scenario, loader, saved, further)
    except Exception as error:  # noqa: BLE001 - opening may refuse, too
        return failed(Continued(saved.cut), error)


def _continue(bench: Workbench, scenario: Scenario, loader: Any, saved: Saved, further: int) -> Continued:
    cut, found = saved.cut, Continued(saved.cut)
    try:
        _load(loader, saved)
        found_first = places_of(bench, scenario, loader)
        if cut.boundary and not found_first[0]:
            start_epoch(loader, cut.next_epoch)
            found_first = places_of(bench, scenario, loader)
        _add(found, *found_first)
        for number in range(cut.next_epoch + 1, cut.next_epoch + 1 + further):
            start_epoch(loader, number)
            _add(found, *places_of(bench, scenario, loader))
    except Exception as error:  # noqa: BLE001 - whatever it raises is a finding
        failed(found, error)
    return found


def _load(loader: Any, saved: Saved) -> None:
    start_epoch(loader, saved.cut.next_epoch)
    loader.load_state_dict(states.unpack(saved.state))


def _add(found: Continued, places: Places, draws: Draws) -> None:
    found.passes.append(places)
    found.draws.append(draws)


def failed(found: Continued, error: Exception) -> Continued:
    """Add an exception to what came before it, and forget the loader that it holds."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    found.raised = (
        f"{states.named(error)} ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"
    )
    found.refused = bool(str(error)) and not found.passes
    traceback.clear_frames(error.__traceback__)
    return found
