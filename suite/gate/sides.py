"""The two sides of a comparison, as plain data."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from loaderproof.loaders import registry
from loaderproof.suite.home import Home


class BaseError(Exception):
    """There is nothing to compare with; the text says why, and what to do."""


@dataclass(frozen=True)
class Side:
    """One of both.

    Attributes:
        spec: of the loader, as `--loader` takes it.
        home: where its code comes from.
        name: for people.
    """

    spec: str
    home: Home
    name: str


def prepared(folder: Path, side: str, spec: str) -> str:
    """Return the folder for what the adapter of one side writes.

    Built-in adapters of one format share it, others may call different things by one name.

    Args:
        folder: of this run.
        side: which of both.
        spec: of the loader.
    """
    whose = "built-in" if spec in registry.BUILTIN else f"{zlib.crc32(spec.encode()):08x}"
    return str(folder / side / "prepared" / whose)
