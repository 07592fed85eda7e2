"""The pytest plugin: options, markers, progress and the table at the end. Nothing imports it."""

from __future__ import annotations

import pytest

from loaderproof.suite import options

pytest.register_assert_rewrite("loaderproof.suite.judged")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "promises(*promises): skip loaders that do not make these promises")
