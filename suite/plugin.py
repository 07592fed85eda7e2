"""The pytest plugin: options, markers, order, progress, and the table at the end. Nothing imports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from loaderproof.suite import options

_REPORTER = "loaderproof-reporter"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "promises(*promises): skip loaders that do not make these promises")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Join in only if there is something of the suite to run."""
    ours = [item for item in items if "case" in getattr(item, "fixturenames", ())]
    if ours:
        config.pluginmanager.register(_Reporter(config), _REPORTER)


class _Reporter:
    """Shows progress while loaders are judged, and what came out at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._now: tuple[str, str] | None = None
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report for the table."""
        self._reports.append(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table."""
        from loaderproof.suite import standing, table  # noqa: PLC0415 - a run without the suite pays nothing

        rows = standing.standings(self._reports)
        if rows:
            terminal = terminalreporter._tw  # noqa: SLF001 - its width and colours have no public name
            terminalreporter.section("loaders")
            terminalreporter.write_line(table.draw(rows, terminal.fullwidth, colour=terminal.hasmarkup))
