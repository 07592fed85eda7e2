"""Directories that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_root() -> Path:
    """Return the folder for everything made once: `LOADERPROOF_CACHE`, else the user's cache."""
    named = os.environ.get("LOADERPROOF_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loaderproof"


def make_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return the target directory, filled by `make` if it is not there yet.

    `make` writes into a directory beside the target, which is renamed when it returns. Two runs
    that make the same thing at once each write their own; the first to end wins.

    Raises:
        OSError: the disk is full or the folder cannot be written; nothing half-written stays.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.{os.getpid()}.", dir=target.parent))
    try:
        make(scratch)
        _rename(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _rename(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.is_dir():
            raise
