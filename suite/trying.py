"""Tries one request with one loader: every rule that says something of it, and what several passes owe."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import pytest

from loaderproof.loaders.contract import Promise
from loaderproof.suite.conformance import (
    test_batches,
    test_epochs,
    test_order,
    test_ownership,
    test_resuming,
    test_sharding,
)
from loaderproof.suite.conformance.scenarios import AFTER_BREAK, WATCH, Rule
from loaderproof.suite.dealing import Deal, deals
from loaderproof.suite.judged import Judged, NotKept, Place, samples
from loaderproof.suite.observation import Observation, Scenario
from loaderproof.suite.subject import Raised, SubjectError
from loaderproof.suite.trial import Trial


def _rules(*modules: ModuleType) -> list[Rule]:
    return [value for one in modules for value in vars(one).values() if hasattr(value, "check")]


RULES = _rules(test_batches, test_epochs, test_order, test_ownership)


@dataclass(frozen=True)
class Trier(Judged):
    """A loader that is tried with one request after the other; nothing that it shows is kept.

    Attributes:
        patience: how many time-outs an answer may take.
    """

    patience: float = 1

    @classmethod
    def of(cls, subject: Judged) -> Trier:
        """Return the same loader."""
        return cls(**{one.name: getattr(subject, one.name) for one in fields(Judged)})

    def run(self, experiment: str, scenario: Scenario, *, times: float = 1, **more: object) -> Any:
        """Return what comes out of an experiment now.

        Raises:
            NotKept: the loader gave no answer.
        """
        asked = self.session.subject(self.case.spec)
        try:
            return asked.run(experiment, times=times * self.patience, scenario=scenario, **more)
        except SubjectError as error:
            # A new process takes its time, which is not the next request's.
            if not isinstance(error, Raised):
                with contextlib.suppress(SubjectError):
                    asked.run("watching:describe", trial=False)
            self.fail(Place(scenario), str(error))
        except Exception:  # noqa: BLE001 - with --loader-isolation none whatever it raises comes through
            self.fail(Place(scenario), traceback.format_exc())

    def under(self, rule: Any) -> Trier:
        """Return the same loader under another rule."""
        return replace(self, test=rule.__name__, rule=_sentence(rule))


def _sentence(rule: Any) -> str:
    return " ".join((inspect.getdoc(rule) or "").split("\n\n")[0].split())


@dataclass(frozen=True)
class Failure:
    """A request that a loader fails: the rule that it breaks, and the report."""

    rule: str
    report: str


def failure(trier: Trier, trial: Trial) -> Failure | None:
    """Return how a loader fails a request, or None."""
    for step in (_watch, _leave, _resume):
        try:
            step(trier, trial)
        except NotKept as error:
            return Failure(getattr(error, "rule", trier.test), str(error))
    return None


def _watch(trier: Trier, trial: Trial) -> None:
    """Watch each rank, then put together what all of them got."""
    ranks = []
    for scenario in trial.scenarios(trier.case.request()):
        ranks.append(trier.run(WATCH, scenario))
        _check(trier, ranks[-1], WATCH)
    if trial.world_size > 1 and not trial.drop_last:
        for deal in deals(ranks):
            _expect_shared(trier, deal)


def _leave(trier: Trier, trial: Trial) -> None:
    """Leave the first epoch early, and watch the following ones."""
    if trial.break_after and trial.whole and trial.epochs > 1:
        (scenario,) = trial.scenarios(trier.case.request())
        seen = trier.run(AFTER_BREAK, replace(scenario, epochs=trial.epochs - 1), taken=trial.break_after)
        _check(trier, seen, AFTER_BREAK)


def _check(trier: Trier, seen: Observation, experiment: str) -> None:
    for rule in _asked(trier, seen, experiment):
        for epoch in seen.epochs:
            _under(trier, rule, rule.check, seen, epoch, Place(seen.scenario, epoch.number))


def _asked(trier: Trier, seen: Observation, experiment: str) -> Iterator[Rule]:
    """Yield the rules that may be asserted of what was seen."""
    for rule in RULES:
        marks = getattr(rule, "pytestmark", ())
        promises = tuple(one for mark in marks if mark.name == "promises" for one in mark.args)
        if (
            rule.experiment == experiment
            and rule.fits(seen.scenario.request)
            and not trier.case.lacks(promises)
            and not trier.case.deviation(rule.__name__)
        ):
            yield rule


def _under(trier: Trier, rule: Any, check: Any, *arguments: object) -> None:
    """Make a check, and remember with its failure which rule it belongs to."""
    try:
        check(trier.under(rule), *arguments)
    except NotKept as error:
        error.rule = rule.__name__
        raise
    except pytest.skip.Exception:
        return


def _expect_shared(trier: Trier, deal: Deal) -> None:
    rule = test_sharding.test_ranks_are_complete_together
    if deal.ended and not trier.case.deviation(rule.__name__):
        _under(trier, rule, _expect_dealt, deal)


def _expect_dealt(trier: Trier, deal: Deal) -> None:
    seen, uneven = deal.seen[0], trier.case.description.uneven
    if not deal.right(uneven):
        trier.fail(
            Place(seen.scenario, deal.epochs[0].number),
            expected=f"each of {seen.count} samples on one of {deal.world} ranks (uneven={uneven.value!r})",
            got=f"{deal.shares} samples on ranks 0 to {deal.world - 1};"
            f" missing {samples(seen, deal.missing)}; repeated {samples(seen, deal.repeated)}",
            hint="ranks shuffle with different seeds, or the end is dropped or filled up without being declared",
        )


def _resume(trier: Trier, trial: Trial) -> None:
    """Take a state in the last epoch, and watch a fresh loader go on from it."""
    rule = test_resuming.test_resumes_the_rest_of_the_epoch
    if trial.resume_after and not trier.case.deviation(rule.__name__):
        for scenario in trial.scenarios(trier.case.request()):
            _under(trier, rule, _expect_rest, scenario, trial.resume_after)


def _expect_rest(trier: Trier, scenario: Scenario, taken: int) -> None:
    seen = trier.run(WATCH, scenario)
    handed, came = trier.run("edges:resumed", scenario, taken=taken)
    if came is None:
        return  # the epoch was over by then
    epoch = seen.epochs[-1]
    ordered = not scenario.request.shuffle or Promise.SEEDED_ORDER in trier.case.description.promises
    whole, got = epoch.index.tolist(), [*handed, *came.rest]
    if came.raised or (got != whole if ordered else sorted(got) != sorted(whole)):
        trier.fail(
            Place(scenario, epoch.number, taken),
            expected=f"after a state taken there: {_shown(whole[len(handed) :])}",
            got=came.raised or _shown(came.rest),
            hint="the position is saved without the epoch or the permutation, or batches loaded ahead are counted",
        )


def _shown(places: list[int]) -> str:
    return f"{len(places)} samples: " + ", ".join(f"#{place}" for place in places[:10])
