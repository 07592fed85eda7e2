"""Where a loader's process takes its code from, where more than one version of it is measured."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loaderproof.loaders import _modules

_VARIABLE = "LOADERPROOF_HOME"


@dataclass(frozen=True)
class Home:
    """Where one side of a comparison lives; the default is where every other loader lives.

    Attributes:
        python: the interpreter.
        path: folders that stay first on the path of the loader's process and of all that it starts.
        roots: folders of which one must hold the module that is judged; none if it may come from anywhere.
        apart: folder with the code of the other side, of which none may be loaded.
        doubles: files and folders that both sides would share instead of having their own.
        brings: folder of which something must be loaded in the end, or both sides were the same.
        prepared: folder for what adapters write; None for where it is kept from one run to the next.
    """

    python: str = sys.executable
    path: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    apart: str | None = None
    doubles: tuple[str, ...] = ()
    brings: str | None = None
    prepared: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the loader's process, which those that it starts inherit."""
        if self == Home():
            return {}
        before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        return {
            _VARIABLE: json.dumps(asdict(self)),
            _modules.AHEAD: os.pathsep.join(self.path),
            "PYTHONPATH": os.pathsep.join((*self.path, *before)),
        }


def here() -> Home:
    """Return the home of this process."""
    told: dict[str, Any] = json.loads(os.environ.get(_VARIABLE, "{}"))
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in told.items()
    }
    return Home(**plain)


def stand_in(folder: Path, loaders: Path) -> str:
    """Make a package `loaderproof` of this run's suite and model, and of other loaders.

    It is made of links. On the path it serves every process that a loader starts, by whatever
    means; an import hook would be lost with the first command line.

    Args:
        folder: an empty one, or one that is not there yet.
        loaders: folder that becomes `loaderproof.loaders`.

    Returns:
        The folder, for a `Home.path`.
    """
    package = folder / "loaderproof"
    package.mkdir(parents=True)
    (package / "__init__.py").symlink_to(_folder("loaderproof") / "__init__.py")
    for name in ("suite", "model"):
        (package / name).symlink_to(_folder(f"loaderproof.{name}"))
    (package / "loaders").symlink_to(loaders.absolute())
    return str(folder)


def own_loaders() -> Path:
    """Return the folder of this run's `loaderproof.loaders`."""
    return _folder("loaderproof.loaders")


class StrayError(Exception):
    """Code was not loaded from where this side has its own: both sides would be the same code."""


def check_at_the_end(spec: str, data: Collection[str]) -> None:
    """Make sure of it once more, when the loader has imported whatever it needs; see `check`.

    Args:
        spec: of the loader.
        data: names of modules that the data brought, which both sides share.
    """
    check(spec, data)
    brings = here().brings
    if brings and not _strays((brings,), (), ()):
        msg = f"{spec} loads nothing of the base's version, from {brings}: {_SAME}"
        raise StrayError(msg)


def check(spec: str, data: Collection[str] = ()) -> None:
    """Make sure that this process has loaded the judged code from its home.

    Args:
        spec: of the loader, which is imported by now.
        data: names of modules that are none of the loader's.

    Raises:
        StrayError: names the file, and the likely cause.
    """
    home = here()
    place, attribute = _modules.parts(spec)
    if home.roots and attribute and not place.endswith(".py"):
        file = _file(place)
        if file is None or not _below(file, home.roots):
            msg = f"{place} is {file}, and not below {' or '.join(home.roots)}: {_SAME}"
            raise StrayError(msg)
    strays = _strays((home.apart,), (*home.roots, *_environment_in(home.apart)), data) if home.apart else []
    strays += _strays(home.doubles, (), data)
    if strays:
        msg = f"{spec} loads {strays[0]} as well, which the other side has, too: {_SAME}"
        raise StrayError(msg)


_SAME = (
    "candidate and base would run the same code. An installation of it in this environment may come first, or the"
    " file may be one that the base does not have. Give an installed version as the base, such as"
    " --loader-against my_package==1.0 or --loader-against dist/my_package.whl"
)


def _environment_in(folder: str) -> list[str]:
    """Return where this environment lies, if in a folder."""
    return [sys.prefix] if _below(Path(sys.prefix).resolve(), (folder,)) else []


def _strays(places: tuple[str, ...], but: tuple[str, ...], names: Collection[str]) -> list[Path]:
    """Return the files of loaded modules in some places, but for those in others, and those with some names."""
    files = [file for name in list(sys.modules) if name not in names and (file := _file(name))]
    return [file for file in files if _below(file, places) and not _below(file, but)]


def _below(file: Path, folders: tuple[str, ...]) -> bool:
    return any(file.is_relative_to(Path(folder).resolve()) for folder in folders)


def _file(name: str) -> Path | None:
    origin = getattr(sys.modules.get(name), "__file__", None)
    # Modules that a library makes up, such as torch.ops, give names of no files.
    if not isinstance(origin, str) or not Path(origin).is_absolute():
        return None
    return Path(origin).resolve()


def _folder(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        msg = f"the package {package} has no folder"
        raise ImportError(msg)
    return Path(found.origin).absolute().parent
