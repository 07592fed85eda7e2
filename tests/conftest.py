"""What holds for this project's own tests alone, and not for a run of the suite from the same folder."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Fail a test that warns."""
    config.addinivalue_line("filterwarnings", "error")
