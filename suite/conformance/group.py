"""What the ranks of a loader are asked, all of it in one launch, since starting them takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from loaderproof.loaders import Promise, Uneven
from loaderproof.suite.conformance.scenarios import COLOUR, GREY, TWO
from loaderproof.suite.dealing import Deal, deals
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Scenario
from loaderproof.suite.sharding import Sharded, Step, worlds

PLAIN, AGAIN, SHUFFLED = "plain", "again", "shuffled"
EVEN, FEW, DROPPED = "even", "few", "dropped"
UNSHUFFLED = (PLAIN, AGAIN, EVEN, FEW)
DATA, LEFT = "data", "left"
# Whole data, and all steps together, may take many times what one over a small probe takes.
PATIENCE = 10
THE_END = "test_every_rank_reaches_the_end"


def observed(subject: Judged) -> Sharded:
    """Return what the ranks of this loader showed; those of its first variant stand for all."""
    case = subject.case
    if not subject.session.settings.loaders:
        pytest.skip("starting ranks is slow; it is done for loaders that are named with --loader")
    alike = (one for one in subject.session.cases() if (one.spec, one.workers) == (case.spec, case.workers))
    first = next(alike, case)
    if first.label != case.label:
        pytest.skip(f"starting ranks is slow, so those of {first.label} stand for all variants")
    asked = steps(subject)
    found: Sharded = subject.run(
        "launch:take", asked[0].scenario, spec=case.spec, steps=asked, times=2 * PATIENCE
    )
    return found


def steps(subject: Judged) -> list[Step]:
    """Return all that is asked of the ranks; what may leave one waiting for ever comes last."""
    largest = worlds()[0]
    return [
        *(step for world in worlds() for step in _small(subject, world)),
        *_data(subject, largest),
        _step(subject, LEFT, _over(subject, largest, COLOUR), leaves=largest - 1),
    ]


def _small(subject: Judged, world: int) -> list[Step]:
    promises = subject.case.description.promises
    plain = _over(subject, world, COLOUR)
    # The split must not depend on which rank is there first.
    found = [_step(subject, PLAIN, plain, turns=tuple(range(world))[::-1])]
    if Promise.SHUFFLE in promises:
        found.append(_step(subject, SHUFFLED, _over(subject, world, COLOUR, epochs=3, shuffle=True)))
    if world > 1:
        found.append(_step(subject, AGAIN, plain, turns=tuple(range(world))))
        # Own data is one size, whatever is asked for.
        found += (
            []
            if subject.truth
            else [
                _step(subject, name, _over(subject, world, data, epochs=1, batch_size=64))
                for name, data in ((EVEN, GREY), (FEW, TWO))
            ]
        )
    if Promise.DROP_LAST in promises:
        dropped = _over(subject, world, COLOUR, epochs=1, batch_size=7, drop_last=True)
        found.append(_step(subject, DROPPED, dropped))
    return found


def _data(subject: Judged, world: int) -> list[Step]:
    if subject.case.description.tolerance or subject.truth:
        return []  # values that are not exact tell no sample of whole data; own data is covered by each step
    scenario = subject.data_scenario("train", shuffle=True, seed=subject.seed, world_size=world)
    limit_s = PATIENCE * subject.session.settings.timeout_s
    return [Step(DATA, scenario, "cover", limit_s=limit_s)]


def _over(subject: Judged, world: int, data: str, epochs: int = 2, **asked: Any) -> Scenario:
    return subject.scenario(
        data, epochs, **{"batch_size": 4, "seed": subject.seed, "world_size": world, **asked}
    )


def _step(
    subject: Judged, name: str, scenario: Scenario, turns: tuple[int, ...] = (), leaves: int | None = None
) -> Step:
    limit_s = subject.session.settings.timeout_s * (PATIENCE if subject.truth else 1)
    return Step(name, scenario, turns=turns, leaves=leaves, limit_s=limit_s)


def watched(subject: Judged) -> tuple[Sharded, Uneven]:
    """Return what the ranks showed, and the declared end; skip where nothing was seen."""
    found = observed(subject)
    if not found.watched:
        pytest.skip(f"not observed, for the reason that {THE_END} gives")
    return found, subject.case.description.uneven


def worlds_of(found: Sharded, name: str) -> list[int]:
    """Return the numbers of ranks that a step was taken with."""
    return [world for step, world in found.watched if step == name]


def epochs_of(found: Sharded, *names: str) -> Iterator[tuple[Deal, Place]]:
    """Yield every epoch of some steps, simple ones first."""
    for name in names:
        for world in sorted(worlds_of(found, name)):
            for deal in deals(found.watched[name, world]):
                yield deal, Place(deal.seen[0].scenario, deal.epochs[0].number)


def name_of(found: Sharded, deal: Deal) -> str:
    """Return the name of the step of an epoch."""
    return next(name for (name, _), seen in found.watched.items() if seen is deal.seen)


def right(found: Sharded, name: str, world: int, uneven: Uneven) -> bool:
    """Tell whether all epochs of a step hold all that is owed, and nothing more."""
    seen = found.watched.get((name, world), [])
    return bool(seen) and all(deal.right(uneven) for deal in deals(seen))


def stable(found: Sharded, world: int) -> bool:
    """Tell whether ranks have the same samples in whichever order they began."""
    keys = [(name, world) for name in (PLAIN, AGAIN) if (name, world) in found.watched]
    return len({tuple(Deal(found.watched[key], 0).sets) for key in keys}) <= 1
