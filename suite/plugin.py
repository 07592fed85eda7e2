"""The pytest plugin: options, markers, order, progress, and the table at the end. Nothing imports it."""

from __future__ import annotations

from typing import Any

import pytest

from loaderproof.suite import options

_REPORTER = "loaderproof-reporter"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "article: judge the rows of the article instead of each loader")
    config.addinivalue_line("markers", "promises(*promises): skip loaders that do not make these promises")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of each loader together, conformance before benchmarks; join in if there are any."""
    empty = [item for item in items if item.get_closest_marker("article") and not _case_of(item)]
    if empty:
        items[:] = [item for item in items if item not in empty]
        config.hook.pytest_deselected(items=empty)
    ours = [place for place, item in enumerate(items) if _case_of(item)]
    if not ours:
        return
    labels = list(dict.fromkeys(_case_of(items[place]).label for place in ours))
    ordered = sorted((items[place] for place in ours), key=lambda item: (labels.index(_case_of(item).label), _phase(item) != "conformance"))
    for place, item in zip(ours, ordered, strict=True):
        items[place] = item
    config.pluginmanager.register(_Reporter(config, len(labels)), _REPORTER)


def _case_of(item: pytest.Item) -> Any:
    """Return the loader that an item judges, or None if it is no test of the suite."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("case") if callspec and "subject" in getattr(item, "fixturenames", ()) else None


def _phase(item: pytest.Item) -> str:
    return "speed" if "benchmark" in item.fixturenames else "conformance"


class _Reporter:
    """Shows progress while loaders are judged, and what came out at the end."""

    def __init__(self, config: pytest.Config, cases: int) -> None:
        self._config = config
        self._terminal = config.pluginmanager.get_plugin("terminalreporter")
        self._cases = cases
        self._begun: list[str] = []
        self._now = ""
        self._reports: list[pytest.TestReport] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Say which loader's turn it is."""
        case = _case_of(item)
        if case is None or self._terminal is None or self._config.get_verbosity() < 0:
            return
        heading = f"{case.label}: {_phase(item)}"
        if heading != self._now:
            self._now = heading
            self._begun += [] if case.label in self._begun else [case.label]
            self._terminal.ensure_newline()
            self._terminal.write_line(f"[{len(self._begun)}/{self._cases}] {heading}", bold=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report for the table."""
        self._reports.append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table."""
        from loaderproof.suite import standing, table  # noqa: PLC0415 - a run without the suite pays nothing

        terminal = terminalreporter._tw  # noqa: SLF001 - its width and colours have no public name
        look = {"width": terminal.fullwidth, "colour": terminal.hasmarkup}
        for title, rows, draw in (
            ("the article's experiment", standing.article(self._reports), table.article),
            ("loaders", standing.standings(self._reports), table.loaders),
        ):
            if rows:
                terminalreporter.section(title)
                terminalreporter.write_line(draw(rows, **look))
