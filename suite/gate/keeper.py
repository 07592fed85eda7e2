"""The gate of one run: what it measured, what it says, and how the run ends.

Registered by the plugin where something is to be gated, whether tests of the gate are collected or
not: a gate that nobody went through is no pass.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from loaderproof.suite import environment, options, turns
from loaderproof.suite.gate import report as reports
from loaderproof.suite.gate import stored
from loaderproof.suite.gate.bases import BaseError, Bases, resolved
from loaderproof.suite.gate.choices import Choices
from loaderproof.suite.gate.decision import Answer
from loaderproof.suite.gate.judgement import Judgement
from loaderproof.suite.gate.verdicts import Measured, judge

# Exit code of a run in which nothing failed, but that the gate could not decide; pytest uses 0 to 5.
INCONCLUSIVE = 6


class Gatekeeper:
    """Keeps what the gate measured, and lets the run pass or not.

    Args:
        config: of the run.
        choices: what is compared, and how.

    Attributes:
        loaders: labels of those that the run owes an answer for.
        broken: the first conformance test that a loader failed, by loader.
        judgements: by loader, as far as the gate has answered.
    """

    def __init__(self, config: pytest.Config, choices: Choices) -> None:
        self.config, self.choices = config, choices
        self._folder = options.read(config).report
        self._stack = ExitStack()
        self._bases: Bases | None = None
        self._measured: dict[str, Measured] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._inconclusive = 0
        self._remarks: list[str] = []
        self.loaders: list[str] = []
        self.broken: dict[str, str] = {}
        self.judgements: dict[str, Judgement] = {}

    @property
    def bases(self) -> Bases:
        """What the loaders are compared with, made ready when first asked for."""
        if self._bases is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="loaderproof-gate-"))
            self._bases = self._stack.enter_context(resolved(self.choices.against, Path(folder)))
        return self._bases

    def add(self, measured: Measured, record: dict[str, Any]) -> None:
        """Take up what was measured of a loader, and the record of it in which the answer is missing."""
        self._measured[measured.loader] = measured
        self._records[measured.loader] = record

    def refuse(self, loader: str, reason: str) -> None:
        """Fail a loader that cannot be compared."""
        self.judgements[loader] = Judgement(loader, self.choices.against, Answer.FAIL, reason)

    def decide(self) -> None:
        """Answer for all loaders that were measured; together, as they share the level."""
        for one in judge(list(self._measured.values()), self.choices.margin):
            self.judgements[one.loader] = one
            self._records[one.loader]["answer"] = str(one.answer)
        self._measured = {}

    def lets_pass(self, judgement: Judgement) -> bool:
        """Tell whether a loader with this answer passes."""
        allowed = {Answer.PASS, Answer.RECORDED}
        return judgement.answer in allowed | (
            {Answer.INCONCLUSIVE} if self.choices.inconclusive_passes else set()
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Remove an earlier answer, and refuse a base that cannot be had before any loader opens."""
        if session.config.option.collectonly:
            return
        turns.take(session.items)  # other plugins may have sorted them since
        # The article's rows are no loaders of their own.
        judged = [item for item in session.items if turns.phase_of(item) != turns.ARTICLE]
        self.loaders = list(dict.fromkeys(case.label for case in map(turns.case_of, judged) if case))
        reports.discard(self._folder)
        try:
            _ = self.bases
        except BaseError as error:
            msg = f"--loader-against {self.choices.against}: {error}"
            raise pytest.UsageError(msg) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep who failed what."""
        if not report.failed:
            return
        properties: dict[str, Any] = dict(report.user_properties)
        loader, phase = properties.get("loader", ""), properties.get("phase")
        if phase == turns.CONFORMANCE:
            self.broken.setdefault(loader, report.nodeid.rpartition("::")[2].partition("[")[0])
        judgement = self.judgements.get(loader)
        if phase == turns.DECISION and judgement and judgement.answer is Answer.INCONCLUSIVE:
            self._inconclusive += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Settle how the run ends, before pytest-benchmark saves anything."""
        self._stack.close()
        if not session.config.option.collectonly:
            self._settle(session)
        return (yield)

    def _settle(self, session: pytest.Session) -> None:
        unanswered = [loader for loader in self.loaders if loader not in self.judgements]
        passed = bool(self.judgements) and all(map(self.lets_pass, self.judgements.values()))
        if not self.loaders:
            self._remarks.append("no loader was gated: the run holds no test of the suite for one")
        elif unanswered:
            self._remarks.append(
                f"not gated, and so not passed: {', '.join(unanswered)}; the tests test_gate did not run"
            )
        if session.exitstatus == pytest.ExitCode.OK and not (passed and not unanswered):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.TESTS_FAILED and self._only_undecided(session, unanswered):
            session.exitstatus = INCONCLUSIVE
        if session.exitstatus != pytest.ExitCode.OK:
            self._remarks += filter(None, [stored.keep_out(self.config)])
        self._publish(complete=not unanswered and session.exitstatus != pytest.ExitCode.INTERRUPTED)

    def _only_undecided(self, session: pytest.Session, unanswered: list[str]) -> bool:
        """Tell whether nothing stands in the way but gates that could not decide."""
        failed = any(one.answer is Answer.FAIL for one in self.judgements.values())
        return not unanswered and not failed and 0 < self._inconclusive == session.testsfailed

    def _publish(self, *, complete: bool) -> None:
        answers = list(self.judgements.values())
        if answers:
            reports.write(self._folder, answers, environment.fingerprint(), complete=complete)
            self._remarks += filter(None, [reports.publish(reports.markdown(answers, complete=complete))])

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the answers."""
        terminal = terminalreporter._tw  # noqa: SLF001 - its width and colours have no public name
        answers = list(self.judgements.values())
        text = reports.text(answers, terminal.fullwidth, colour=terminal.hasmarkup) if answers else ""
        parts = [text, *self._remarks]
        if any(parts):
            terminalreporter.section("gate")
            terminalreporter.write_line("\n\n".join(filter(None, parts)))
