"""Shows progress while loaders are judged, and the tables of what came out."""

from __future__ import annotations

from typing import Any, cast

import pytest

from loaderproof.suite import turns


class Reporter:
    """Present only in runs that judge loaders.

    Args:
        config: of the run.
        loaders: how many are judged.
    """

    def __init__(self, config: pytest.Config, loaders: int) -> None:
        self._config = config
        self._terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._loaders = loaders
        self._begun: dict[str, None] = {}
        self._heading = ""
        self._reports: list[pytest.TestReport] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Refuse bad data before any loader opens."""
        from loaderproof.suite.fixtures import session_of  # noqa: PLC0415 - its imports cost a run without us

        if not session.config.option.collectonly:
            run = session_of(session.config)
            run.progress = self._progress
            for reason in run.left_out().values():
                self._say(f"left out: {reason}")
            problem = run.problem_with_data()
            if problem:
                raise pytest.UsageError(problem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Say which loader's turn it is."""
        case = turns.case_of(item)
        heading = f"{case.label}: {turns.phase_of(item)}" if case else ""
        if case and heading != self._heading:
            self._heading = heading
            self._begun[case.label] = None
            self._say(f"[{len(self._begun)}/{self._loaders}] {heading}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report for the tables."""
        self._reports.append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the tables."""
        from loaderproof.suite import standing, table  # noqa: PLC0415 - collecting alone needs none of these
        from loaderproof.suite.diagnosis import difference  # noqa: PLC0415

        terminal = terminalreporter._tw  # noqa: SLF001 - its width and colours have no public name
        look = {"width": terminal.fullwidth, "colour": terminal.hasmarkup}
        article, loaders = standing.article(self._reports), standing.standings(self._reports)
        for title, text in (
            ("the article's experiment", table.article(article, **look) if article else ""),
            ("could not be checked", table.unchecked(loaders)),
            ("times", table.details(loaders, **look) if self._config.get_verbosity() > 0 else ""),
            (
                "loaders",
                table.loaders(loaders, **look) if any(row.owed or row.training for row in loaders) else "",
            ),
        ):
            if text:
                terminalreporter.section(title)
                terminalreporter.write_line(text)
        told = {title: "\n\n".join(texts) for title, texts in _told(self._reports).items()}
        for title, text in (told | {"differences": difference.text(self._reports)}).items():
            if text:
                terminalreporter.section(title)
                terminalreporter.write_line(text)

    def _say(self, text: str) -> None:
        if self._terminal and self._config.get_verbosity() >= 0:
            self._terminal.ensure_newline()
            self._terminal.write_line(text, bold=True)

    def _progress(self, text: str) -> None:
        """Show on a terminal, on one line that is written again and again, how far a test is."""
        if self._terminal and self._terminal.isatty and self._config.get_verbosity() >= 0:
            capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
            with capture.global_and_fixture_disabled():
                self._terminal.rewrite(f"{self._heading}, {text}", erase=True)


def _told(reports: list[pytest.TestReport]) -> dict[str, list[str]]:
    """Return what tests told, by section."""
    sections: dict[str, list[str]] = {}
    for report in reports:
        for name, told in report.user_properties if report.when == "call" else ():
            if name == "loader_told":
                section, text = cast("tuple[str, str]", told)
                sections.setdefault(section, []).append(text)
    return sections
