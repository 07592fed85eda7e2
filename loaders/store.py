"""Directories that are there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

Kept = TypeVar("Kept")

UNFINISHED = ".unfinished"
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
LEAST_FREE_BYTES = 1 << 20
REMEDY = "set LOADERPROOF_CACHE to a folder that can be written and has room"


class StoreError(OSError):
    """The cache cannot be written: no room, no permission, or no folder."""


class DamageError(Exception):
    """What was kept is not what was written."""


def cache_root() -> Path:
    """Return the folder for everything made once: `LOADERPROOF_CACHE`, else the user's cache."""
    named = os.environ.get("LOADERPROOF_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loaderproof"


def make_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return the target directory, filled by `make` if it is not there yet.

    `make` writes into an empty directory beside the target, which is renamed when it returns.
    Runs that make the same thing at once each write their own; the first to end wins. What a
    killed run left is swept by the next that makes something there.

    Raises:
        StoreError: the disk is full or the folder cannot be written; nothing half-written stays.
    """
    if target.is_dir():
        return target
    with _scratch(target.parent) as scratch:
        make(scratch)
        _publish(scratch, target)
    return target


def keep(target: Path, make: Callable[[Path], None], read: Callable[[Path], Kept]) -> Kept:
    """Return what `read` finds in a directory that `make` fills on first use.

    Args:
        target: the directory.
        make: fills it, as for `make_once`; called again if what it wrote was damaged since.
        read: returns its content, or raises `DamageError`.

    Raises:
        StoreError: as for `make_once`, or what was just written cannot be read back.
    """
    try:
        return read(make_once(target, make))
    except DamageError:
        discard(target)
    try:
        return read(make_once(target, make))
    except DamageError as error:
        msg = f"{target} is damaged, and so it was right after it had been made anew: {error}; {REMEDY}"
        raise StoreError(msg) from error


def discard(target: Path) -> None:
    """Remove a directory that `make_once` made, so that nobody sees a part of it.

    Raises:
        StoreError: the folder cannot be written.
    """
    doomed = _name_scratch(target.parent)
    try:
        target.rename(doomed)
    except FileNotFoundError:
        return  # another process was faster
    except OSError as error:
        raise StoreError(_explain(target.parent, error)) from error
    shutil.rmtree(doomed, ignore_errors=True)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Yield a new directory, locked while this process lives, and remove it at the end."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        scratch, lock = _make_scratch(parent)
    except OSError as error:
        raise StoreError(_explain(parent, error)) from error
    try:
        yield scratch
    except Exception as error:
        if _is_full(parent, error):
            raise StoreError(_explain(parent, error)) from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)


def _make_scratch(parent: Path) -> tuple[Path, int]:
    while True:
        scratch = _name_scratch(parent)
        scratch.mkdir()
        lock = os.open(scratch, os.O_RDONLY)
        _lock(lock)
        if scratch.is_dir():  # else a sweeper came between the making and the locking
            return scratch, lock
        os.close(lock)


def _name_scratch(parent: Path) -> Path:
    return parent / f".{secrets.token_hex(8)}{UNFINISHED}"


def _sweep(parent: Path) -> None:
    """Remove the directories of processes that died: nobody holds a lock on them."""
    for left in parent.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY)
            try:
                if _lock(lock, wait=False):
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open directory; return whether that worked (some network folders know no locks)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _publish(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _is_full(parent: Path, error: Exception) -> bool:
    """Tell whether there is no room; libraries that write files report that in many ways."""
    return getattr(error, "errno", None) in NO_SPACE or shutil.disk_usage(parent).free < LEAST_FREE_BYTES


def _explain(parent: Path, error: Exception) -> str:
    found = parent
    while not found.exists():
        found = found.parent
    free = shutil.disk_usage(found).free / 1e6
    return f"nothing could be written to {parent} ({free:.0f} MB free there): {error}; {REMEDY}"
