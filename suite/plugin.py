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
    settings = options.read(config)
    config.addinivalue_line("markers", "promises(*promises): skip loaders that do not make these promises")
    config.addinivalue_line("markers", "diagnosis: find out where time goes, after everything that is timed")
    config.addinivalue_line("markers", "article: judge the rows of the article instead of each loader")
    config.addinivalue_line("markers", "gate: measure a loader beside its base, after everything else")
    config.addinivalue_line("markers", "decision: decide when all loaders were measured")

    if settings.gate:
        from loaderproof.suite.gate.keeper import Gatekeeper  # noqa: PLC0415 - only a run with a gate pays for it

        config.pluginmanager.register(Gatekeeper(config, settings.gate), turns.GATEKEEPER)


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
