"""Brings the suite's fixtures to the suite's own tests, and to no others."""

from loaderproof.suite.fixtures import (
    case,
    gatekeeper,
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_ignore_collect,
    subject,
)

__all__ = [
    "case",
    "gatekeeper",
    "pytest_collection_modifyitems",
    "pytest_generate_tests",
    "pytest_ignore_collect",
    "subject",
]
