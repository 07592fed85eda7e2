"""The conformance tests by name, read from their files without importing them."""

from __future__ import annotations

import difflib
import re
from functools import cache
from pathlib import Path

from loaderproof.loaders.contract import Description

_FOLDER = Path(__file__).parent / "conformance"


class UnknownRule(Exception):
    """A deviation names something that there is not."""


@cache
def names() -> frozenset[str]:
    """Return the names of all conformance tests."""
    texts = (path.read_text(encoding="utf-8") for path in _FOLDER.glob("test_*.py"))
    return frozenset(name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE))


def check(description: Description) -> None:
    """Refuse deviations that could never be found out of date.

    Raises:
        UnknownRule: one names no conformance test, or a variant that there is not.
    """
    for deviation in description.deviations:
        known = names()
        if deviation.test not in known:
            near = difflib.get_close_matches(deviation.test, known) or sorted(known)
            msg = (
                f"loader {description.name!r} declares a deviation from {deviation.test!r}, which is no"
                f" conformance test; there is {', '.join(near)}"
            )
            raise UnknownRule(msg)
        strange = set(deviation.variants) - set(description.variants)
        if strange:
            msg = (
                f"loader {description.name!r} declares a deviation for the variants {sorted(strange)};"
                f" there are {sorted(description.variants)}"
            )
            raise UnknownRule(msg)
