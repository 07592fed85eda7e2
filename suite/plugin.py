"""The pytest plugin: options, markers, the order of the tests, and who reports. Nothing imports it."""

from __future__ import annotations

import pytest

from loaderproof.suite import options, turns
from loaderproof.suite.reporter import Reporter


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and refuse options that make no sense."""
    options.read(config)
    config.addinivalue_line("markers", "promises(*promises): skip loaders that do not make these promises")
    config.addinivalue_line("markers", "diagnosis: find out where time goes, after everything that is timed")
    config.addinivalue_line("markers", "article: judge the rows of the article instead of each loader")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of each loader together; join in if there are any."""
    idle = turns.without_case(items)
    if idle:
        items[:] = [item for item in items if item not in idle]
        config.hook.pytest_deselected(items=idle)
    labels = turns.take(items)
    if labels:
        config.pluginmanager.register(Reporter(config, len(labels)), "loaderproof-reporter")
