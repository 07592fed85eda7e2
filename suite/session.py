"""Which loaders are judged in this run, and the process of the one whose turn it is."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from loaderproof.loaders import registry
from loaderproof.loaders.contract import Description, Deviation, Promise, Request, Variant
from loaderproof.suite import rules
from loaderproof.suite.observation import Scenario
from loaderproof.suite.options import Settings
from loaderproof.suite.subject import Died, Flooded, Hung, InPlace, Raised, Subject, SubjectError


@dataclass(frozen=True, repr=False)
class Case:
    """One loader in one variant, with one number of workers.

    Attributes:
        spec: as `--loader` takes it.
        label: short and unique; names tests and rows of tables.
        description: of the adapter.
        variant: name of the variant.
        workers: number of workers.
    """

    spec: str
    label: str
    description: Description
    variant: str = ""
    workers: int = 0

    def __repr__(self) -> str:
        """Name the case; files of figures hold this."""
        return self.label

    @property
    def setup(self) -> Variant:
        """How the variant is set up."""
        return self.description.variants[self.variant]

    def request(self, **asked: Any) -> Request:
        """Return a request for this case's workers and variant."""
        return Request(**{"num_workers": self.workers, "options": dict(self.setup.options), **asked})

    def lacks(self, promises: tuple[Promise, ...]) -> list[Promise]:
        """Return those promises that the adapter does not make."""
        return [promise for promise in promises if promise not in self.description.promises]

    def deviation(self, test: str) -> Deviation | None:
        """Return the known failure of this case in a test, if there is one."""
        fitting = (one for one in self.description.deviations if one.test == test)
        here = (one for one in fitting if not one.variants or self.variant in one.variants)
        return next((one for one in here if self.workers >= one.min_workers), None)


def cases_of(spec: str, description: Description, workers: tuple[int, ...]) -> list[Case]:
    """Return one case for each variant and number of workers."""
    numbers: tuple[int | None, ...] = workers if Promise.WORKERS in description.promises else (None,)
    cases = []
    for variant, setup in description.variants.items():
        for number in numbers:
            if (number or 0) < setup.min_workers:
                continue
            parts = [description.name, variant, "" if number is None else f"{number}workers"]
            label = "-".join(part for part in parts if part)
            cases.append(Case(spec, label, description, variant, number or 0))
    return cases


REFERENCE = "resident"
# Data may have to be downloaded or drawn first.
PATIENCE = 10
# A loader that hangs or dies so often would do so in every test, and a run must end some day.
_ENOUGH = 3


class Unobserved(Exception):
    """What a test needs could not be observed, as an earlier test has reported."""


def _silent(_text: str) -> None:
    """Show nothing."""


@dataclass
class Session:
    """The run: its settings, its cases, and at most one living loader process.

    Attributes:
        settings: what the options say.
        progress: shows how far a long test is.
        problem: why there are no cases, for a person.
    """

    settings: Settings
    progress: Callable[[str], object] = _silent
    _subjects: dict[str, Any] = field(default_factory=dict)
    _seen: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    _lost: dict[tuple[str, str, str], str] = field(default_factory=dict)
    problem: str | None = None
    _ends: dict[str, list[str]] = field(default_factory=dict)
    _accuracies: dict[str, float] = field(default_factory=dict)
    _cases: list[Case] | None = None

    def cases(self) -> list[Case]:
        """Return every case of this run; none if there is a problem, which is kept then."""
        if self._cases is None:
            self._cases = []
            try:
                self._cases = self._find_cases()
            except Raised as error:
                self.problem = error.plain
            except (registry.LoaderError, rules.UnknownRule, SubjectError) as error:
                self.problem = str(error)
        return self._cases

    def _find_cases(self) -> list[Case]:
        found = [
            case
            for spec in self._specs()
            for case in cases_of(spec, self.describe(spec), self.settings.workers)
            # A run that names no loader is an overview of all of them, in minutes.
            if self.settings.loaders or not case.variant
        ]
        doubled = {label for label, times in Counter(case.label for case in found).items() if times > 1}
        return [
            replace(case, label=f"{case.label}@{case.spec}") if case.label in doubled else case
            for case in found
        ]

    def first_of(self, spec: str) -> Case:
        """Return the first case of an adapter."""
        return next(case for case in self.cases() if case.spec == spec)

    def left_out(self) -> dict[str, str]:
        """Return the built-in loaders that nobody asked for and that cannot run here, each with the reason."""
        reasons = {}
        for name in () if self.settings.loaders else registry.BUILTIN:
            try:
                registry.require(registry.load(name).description)
            except registry.LoaderError as error:
                reasons[name] = str(error)
        return reasons

    def _specs(self) -> list[str]:
        if self.settings.loaders:
            return list(dict.fromkeys(self.settings.loaders))
        left_out = self.left_out()
        return [name for name in registry.BUILTIN if name not in left_out]

    def describe(self, spec: str) -> Description:
        """Return what an adapter promises.

        Built-in adapters are asked here, as they import nothing heavy, and all others in their own process.

        Raises:
            LoaderError: it cannot be used here.
            SubjectError: it came to nothing.
        """
        built_in = spec in registry.BUILTIN
        description = registry.load(spec).description if built_in else self._ask_for_description(spec)
        registry.require(description)
        rules.check(description)
        return description

    def _ask_for_description(self, spec: str) -> Description:
        """Ask the adapter; one that dies or hangs when it is tried promises nothing, and its tests will tell."""
        subject = self.subject(spec)
        description: Description = subject.run("watching:describe", trial=False)
        with contextlib.suppress(Died, Flooded, Hung):
            description = subject.run("watching:describe", trial=True)
        return description

    def subject(self, spec: str) -> Any:
        """Return the process of an adapter; those of the others end."""
        if spec not in self._subjects:
            kind = Subject if self.settings.isolation == "process" else InPlace
            self._subjects[spec] = kind(spec, self.settings.timeout_s)
        for other, subject in self._subjects.items():
            if other != spec:
                subject.close()
        return self._subjects[spec]

    def problem_with_data(self) -> str | None:
        """Return why the data of the run cannot be used, or None; makes it where it has to be made."""
        data = Subject(REFERENCE, self.settings.timeout_s)
        try:
            data.run(
                "watching:check_data", times=PATIENCE, data=self.settings.data, device=self.settings.device
            )
        except Raised as error:
            return error.plain
        except SubjectError as error:
            return str(error)
        finally:
            data.close()
        return None

    def reference_accuracy(self, training: Scenario, testing: Scenario) -> float:
        """Return the accuracy that the resident loader reaches; trained once, in a process of its own."""
        plain = [
            replace(one, request=replace(one.request, num_workers=0, options={}))
            for one in (training, testing)
        ]
        key = repr(plain)
        if key not in self._accuracies:
            reference = Subject(REFERENCE, self.settings.timeout_s)
            try:
                experiment = {"scenario": plain[0], "testing": plain[1]}
                self._accuracies[key] = reference.run("learning:accuracy", times=4, **experiment)
            finally:
                reference.close()
        return self._accuracies[key]

    def observe(
        self, case: Case, test: str, experiment: str, scenario: Scenario, *, times: float, **more: Any
    ) -> Any:
        """Run an experiment once for all tests that need it.

        Args:
            case: the loader.
            test: name of the test that asks.
            experiment: `module:function` of this package.
            scenario: what the loader is asked for.
            times: how many time-outs it may take.
            more: further arguments of the experiment.

        Raises:
            SubjectError: it came to nothing; raised for the first test that needs it.
            Unobserved: the same, for the tests after that.
        """
        key = (case.label, experiment, repr((scenario, sorted(more.items()))))
        if key in self._lost:
            raise Unobserved(self._lost[key])
        if key not in self._seen:
            try:
                self._seen[key] = self.ask(case, test, experiment, times=times, scenario=scenario, **more)
            except Exception:  # in place a loader's own errors come through
                self._lost[key] = test
                raise
        return self._seen[key]

    def ask(
        self,
        case: Case,
        test: str,
        experiment: str,
        *,
        times: float,
        afresh: bool = False,
        **arguments: object,
    ) -> Any:
        """Run an experiment now; see `observe`. Afresh: in another new process of the loader, which ends with it.

        Raises:
            SubjectError: it came to nothing.
            Unobserved: this loader has cost too many processes, so it gets no more.
        """
        ends = self._ends.setdefault(case.label, [])
        if len(ends) >= _ENOUGH:
            raise Unobserved(", ".join(dict.fromkeys(ends)))
        subject = Subject(case.spec, self.settings.timeout_s) if afresh else self.subject(case.spec)
        try:
            return subject.run(experiment, times=times, **arguments)
        except Raised:
            raise
        except SubjectError:
            ends.append(test)
            raise
        finally:
            if afresh:
                subject.close()

    def close(self) -> None:
        """End every process."""
        for subject in self._subjects.values():
            subject.close()
