"""The parts of what `--loader-data` takes, after the kind."""

from __future__ import annotations

from pathlib import Path

from loaderproof.loaders.sources.error import SourceError


def whole_number(text: str, what: str, most: int | None = None) -> int:
    """Return a number of at least 1.

    Raises:
        SourceError: the text is no such number, or it is more than `most`.
    """
    wanted = f"a whole number from 1 to {most}" if most else "a whole number of at least 1"
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1 or (most and number > most):
        msg = f"{what} is {text!r}; give {wanted}"
        raise SourceError(msg)
    return number


def folder(text: str, holds: str) -> Path:
    """Return a folder that is there.

    Raises:
        SourceError: there is no such path, or it is a file.
    """
    path = Path(text).expanduser()
    if not text:
        msg = f"no folder is named; give the one that holds {holds} after the colon"
        raise SourceError(msg)
    if not path.exists():
        msg = f"there is no folder {text!r} in {str(Path.cwd())!r}; give the one that holds {holds}"
        raise SourceError(msg)
    if not path.is_dir():
        msg = f"{text!r} is a file; give the folder that holds {holds}"
        raise SourceError(msg)
    return path
