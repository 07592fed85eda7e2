"""From `module:attribute` or `path/to/file.py:attribute` to what stands there."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import re
import sys
import zlib
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

# Variable of the environment: folders that come before those of the user's own modules.
AHEAD = "LOADERPROOF_AHEAD"


class NoModuleError(Exception):
    """There is no such module or file; the text says which are near."""


def parts(spec: str) -> tuple[str, str]:
    """Split at the last colon, unless it is the one behind a drive letter."""
    place, colon, attribute = spec.rpartition(":")
    if colon and (attribute == "" or attribute.isidentifier()):
        return place, attribute
    return spec, ""


def load(place: str) -> ModuleType:
    """Import a module by its name, or a file by its path; what it raises itself goes through.

    Raises:
        NoModuleError: there is none; the text is empty for a name.
    """
    if place.endswith(".py"):
        return _from_file(Path(place).expanduser().resolve())
    _importable(Path.cwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
    except (TypeError, ValueError):
        pass  # a relative or an empty name: no module can be called so
    raise NoModuleError


def find(name: str) -> ModuleSpec | None:
    """Find a module without importing it."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def near(wanted: str, known: Iterable[str]) -> str:
    """Return a question for names that are close, or nothing."""
    close = difflib.get_close_matches(wanted, list(known))
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def near_in(module: ModuleType, wanted: str) -> str:
    """Return the same for the public names of a module."""
    return near(wanted, [name for name in vars(module) if not name.startswith("_")])


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")]
        msg = f"there is no file {path}{near(path.name, beside)}"
        raise NoModuleError(msg)
    _importable(Path.cwd())
    _importable(path.parent)
    if _leads_to(path.stem, path):
        return importlib.import_module(path.stem)
    return _execute(path)


def _leads_to(name: str, path: Path) -> bool:
    """Tell whether an import statement finds this file; then a spawned process will find it too."""
    found = find(name) if name.isidentifier() else None
    return bool(found and found.has_location and found.origin and path == Path(found.origin).resolve())


def _execute(path: Path) -> ModuleType:
    """Import a file under a name that nothing else has."""
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return sys.modules[name]
    loader = SourceFileLoader(name, str(path))
    found = ModuleSpec(name, loader, origin=str(path))
    found.has_location = True
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        # A checkout of this project holds a folder of the package's name that is not the whole package.
        hides_us = (folder / __package__.partition(".")[0]).is_dir()
        sys.path.insert(len(sys.path) if hides_us else _behind_those_ahead(), str(folder))
        importlib.invalidate_caches()


def _behind_those_ahead() -> int:
    ahead = os.environ.get(AHEAD, "").split(os.pathsep)
    return max((place + 1 for place, folder in enumerate(sys.path) if folder in ahead and folder), default=0)
