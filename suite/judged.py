"""What a conformance test holds in its hands: one loader, to be asked and to be judged."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from loaderproof.suite import options, own_data
from loaderproof.suite.observation import Batch, Epoch, Observation, Scenario
from loaderproof.suite.session import Case, Session, Unobserved
from loaderproof.suite.subject import SubjectError


class NotKept(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # made by a decorator
    """A loader does not keep a property; the text is the whole report."""

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


@dataclass(frozen=True)
class Place:
    """Where something was seen: in which scenario, and there in which epoch and batch."""

    scenario: Scenario
    epoch: int | None = None
    batch: int | None = None

    def __str__(self) -> str:
        parts = [str(self.scenario)]
        parts += [f"epoch {self.epoch}"] if self.epoch is not None else []
        parts += [f"batch {self.batch}"] if self.batch is not None else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Judged:
    """One loader under one test.

    Attributes:
        case: the loader with its variant and workers.
        test: name of the test function.
        rule: what the test asserts, in one sentence.
        command: repeats the test.
        properties: of the test's report.
    """

    session: Session
    case: Case
    test: str
    rule: str
    command: str
    properties: list[tuple[str, object]]

    def scenario(self, data: str, epochs: int = 2, **asked: Any) -> Scenario:
        """Return a scenario for this loader; one over its own data has few, whatever is asked for."""
        if self.truth:
            return self._own_scenario(**asked)
        return Scenario(data, self.case.request(**asked), epochs)

    def data_scenario(self, split: str, first: int | None = None, epochs: int = 1, **asked: Any) -> Scenario:
        """Return a scenario over the data of the run, or over its first samples."""
        if self.truth:
            return self._own_scenario(split=split, **asked)
        return Scenario(self.session.settings.data, self.case.request(split=split, **asked), epochs, first)

    def timed_scenario(self) -> Scenario:
        """Return a scenario over as many samples of the data as the options say, shuffled."""
        return self.data_scenario("train", self.session.settings.samples, shuffle=True, seed=self.seed)

    @property
    def truth(self) -> str | None:
        """The data of a loader over its own data, or None for all other loaders."""
        return own_data.truth_of(self.case.description, self.session.settings.data, options.DATA)

    def _own_scenario(self, split: str = "train", **asked: Any) -> Scenario:
        """Return a scenario over all own data: a pass is dear, so there are no more sizes and epochs than needed."""
        facts = self._facts()
        if split not in facts.splits:
            pytest.skip(f"there is no other data for the split {split!r}")
        size = own_data.batch_size(self.case.description, facts.count)
        request = self.case.request(**{**asked, "split": split, "batch_size": size})
        return Scenario(str(self.truth), request, own_data.epochs(request))

    def _facts(self) -> own_data.Facts:
        """Return what is known of own data; of samples that look different each time nothing can be judged."""
        about = self.case.description
        size = about.batch_size or own_data.BATCH_SIZE
        first = self.case.request(batch_size=size, num_workers=0)
        place = Place(Scenario(str(self.truth), first, 1))
        facts: own_data.Facts = self.run("own:facts", place.scenario, splits=about.splits)
        if not facts.stable:
            if self.test != own_data.REPORTS_UNSTABLE:
                pytest.skip(f"no sample comes twice the same, as {own_data.REPORTS_UNSTABLE} reports")
            self.fail(
                replace(place, epoch=1),
                expected="the samples of the first pass again",
                got=f"{facts.again} of {facts.fresh} samples at its beginning were in the first pass",
                hint="random augmentation: leave it out unless request.augment is true, or have each batch carry"
                ' {"id": ...} as its third part, so that samples are known whatever they look like',
            )
        return facts

    @property
    def seed(self) -> int:
        """The seed of this run."""
        return self.session.settings.seed

    def mixes_all(self, samples: int) -> bool:
        """Tell whether all so many samples take part in each random choice of a shuffle."""
        buffer = self.case.setup.shuffle_buffer
        return buffer is None or buffer >= samples

    def note(self, kind: str, figures: dict[str, Any]) -> None:
        """Keep figures for the table at the end."""
        self.properties.append((f"loader_{kind}", figures))

    def tell(self, section: str, text: str) -> None:
        """Have something printed at the end of the run.

        Args:
            section: its heading, which it shares with what other tests tell there.
            text: lines.
        """
        self.properties.append(("loader_told", (section, f"{self.case.label}\n{text}")))

    def report_folder(self) -> Path:
        """Return the folder for this loader's files that a person opens, made now if there is none."""
        folder = self.session.settings.report / re.sub(r"[^\w.+-]", "_", self.case.label)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def progress(self, text: str) -> None:
        """Show how far a long test is."""
        self.session.progress(text)

    def run(self, experiment: str, scenario: Scenario, *, times: float = 1, **more: object) -> Any:
        """Return what came out of an experiment, which is run once for all tests.

        Args:
            experiment: `module:function` of this package.
            scenario: its first argument.
            times: how many time-outs it may take.
            more: its further arguments.

        Raises:
            NotKept: the loader gave no answer; reported once.
        """
        times *= own_data.PATIENCE if self.truth else 1
        return self._told(
            Place(scenario),
            lambda: self.session.observe(self.case, self.test, experiment, scenario, times=times, **more),
        )

    def ask(
        self, experiment: str, place: Place, *, times: float = 1, afresh: bool = False, **arguments: object
    ) -> Any:
        """Return what comes out of an experiment now, in the process of this loader or in a fresh one.

        Raises:
            NotKept: the loader gave no answer.
        """
        return self._told(
            place,
            lambda: self.session.ask(
                self.case, self.test, experiment, times=times, afresh=afresh, **arguments
            ),
        )

    def reference_accuracy(self, training: Scenario, testing: Scenario) -> float:
        """Return the accuracy that the resident loader reaches.

        Raises:
            NotKept: it gave no answer.
        """
        accuracy = self._told(Place(training), lambda: self.session.reference_accuracy(training, testing))
        return float(accuracy)

    def _told(self, place: Place, answer: Callable[[], Any]) -> Any:
        """Return an answer, or report that there is none."""
        try:
            return answer()
        except Unobserved as lost:
            pytest.skip(f"not observed, for the reason that {lost} gives")
        except SubjectError as error:
            self.fail(place, str(error))

    def watch(
        self, scenarios: Iterable[Scenario], experiment: str = "watching:watch", **more: Any
    ) -> Iterator[tuple[Observation, Epoch, Place]]:
        """Yield every epoch of every scenario, as an experiment showed it."""
        for scenario in scenarios:
            seen = self.run(experiment, scenario, **more)
            for epoch in seen.epochs:
                yield seen, epoch, Place(scenario, epoch.number)

    def fail(
        self, place: Place, what: str = "", *, expected: object = None, got: object = None, hint: str = ""
    ) -> NoReturn:
        """Fail the test with a report.

        Raises:
            NotKept: always.
        """
        rows = {
            "loader": self.case.label,
            "request": str(place.scenario),
            "where": str(place).removeprefix(str(place.scenario)).removeprefix(", "),
            "expected": "" if what else str(expected),
            "got": "" if what else str(got),
            "likely": hint,
            "about": page_of(self.test),
            "repeat": self.command,
        }
        lines = [f"  {name:<9} {text}" for name, text in rows.items() if text]
        outcome = "No answer when this was tried" if what else "Not kept"
        text = "\n".join([f"{outcome}: {self.rule}", "", *lines, *(["", what] if what else [])])
        raise NotKept(text) from None


_GUIDES = {
    "test_tune": "docs/tuning.md",
    "test_stages": "docs/bottlenecks.md",
    **dict.fromkeys(("test_gate_measures", "test_gate_decides"), "docs/gate.md"),
    **dict.fromkeys(("test_stacks", "test_trace", "test_memory"), "docs/profiling.md"),
}


def page_of(test: str) -> str:
    """Return where it is written what a test asserts, and why."""
    if test in _GUIDES:
        return _GUIDES[test]
    return f"docs/properties/{test.removeprefix('test_')}.md"


def batches(epoch: Epoch, place: Place) -> Iterator[tuple[Batch, Place]]:
    """Yield every batch of an epoch with its place."""
    return ((batch, replace(place, batch=number)) for number, batch in enumerate(epoch.batches))


def samples(seen: Observation, places: Iterable[int], limit: int = 5) -> str:
    """Name samples by place and label, at most five of them."""
    chosen = list(places)
    named = ", ".join(f"#{place} (label {seen.labels[place]})" for place in chosen[:limit])
    return f"{len(chosen)}: {named}{', ...' if len(chosen) > limit else ''}"


def repeat_command(paths: list[str], settings: list[str], item: str, case: Case) -> str:
    """Return the command line that repeats one test.

    Args:
        paths: where the suite is.
        settings: the options that were given, as words.
        item: name of the test with its parameters.
        case: the loader.
    """
    # Alone it shares its label with no other loader; the names in an expression take few characters.
    name = item.replace(f"@{case.spec}", "")
    expression = " and ".join(re.findall(r"[\w:+\-.\[\]\\/]+", name))
    return shlex.join(["pytest", *paths, "--loader", case.spec, *settings, "-k", expression])
