"""What loaders are compared with, from its name to the processes of both sides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from loaderproof.loaders import _modules, registry
from loaderproof.suite.gate import installed, trees
from loaderproof.suite.gate.sides import BaseError, Side, prepared
from loaderproof.suite.home import Home

__all__ = ["BaseError", "Bases", "Kind", "Side", "resolved"]


class Kind(StrEnum):
    """What a base is; the value is the word that says so where it is not clear, as in `git:stored`."""

    NOTHING = "nothing"
    STORED = "stored"
    FILE = "file"
    PIP = "pip"
    LOADER = "loader"
    GIT = "git"


# Both are whole words; the others stand before a colon.
_WORDS = (Kind.NOTHING, Kind.STORED)
_KINDS = (
    "a git ref (origin/main), another loader (resident, my_module:make, my_file.py:make), an installed version"
    " (my_package==1.0, dist/my_package.whl), a result file of pytest-benchmark (run.json), stored, or nothing."
    " file:, pip:, loader: or git: before it says which of them is meant"
)

Sides = Callable[[str], tuple[Side, Side | None]]


@dataclass(frozen=True)
class Bases:
    """What the loaders of a run are compared with.

    Attributes:
        kind: of the base.
        name: for people.
        sides: returns candidate and base for a spec, or raises `BaseError`; there is no base where
            figures of an earlier run stand for it, or nothing.
        file: the result file, if the base is one.
    """

    kind: Kind
    name: str
    sides: Sides
    file: Path | None = None


@contextmanager
def resolved(against: str, folder: Path) -> Iterator[Bases]:
    """Make ready what loaders are compared with, and remove it at the end.

    Args:
        against: what `--loader-against` says.
        folder: a temporary one, for whatever is needed.

    Raises:
        BaseError: there is no such thing, or it cannot be had.
    """
    kind, what = _kind_of(against.strip())
    if kind is Kind.GIT:
        with trees.compared(what, folder) as (name, sides):
            yield Bases(kind, name, sides)
    elif kind is Kind.PIP:
        name, sides = installed.compared(what, folder)
        yield Bases(kind, name, sides)
    elif kind is Kind.LOADER:
        yield Bases(kind, what, _other_loader(what, folder))
    else:
        yield Bases(kind, against, _alone, Path(what) if kind is Kind.FILE else None)


def _alone(spec: str) -> tuple[Side, None]:
    return Side(spec, Home(), "candidate"), None


def _other_loader(base: str, folder: Path) -> Sides:
    if not _names_a_loader(base):
        msg = f"there is no loader {base!r}{_modules.near(base, registry.names())}"
        raise BaseError(msg)

    def sides(spec: str) -> tuple[Side, Side]:
        if _place(spec) == _place(base):
            msg = f"{spec} is the base itself, so there is nothing to compare"
            raise BaseError(msg)
        homes = [
            Home(prepared=prepared(folder, side, one)) for side, one in (("candidate", spec), ("base", base))
        ]
        return Side(spec, homes[0], spec), Side(base, homes[1], base)

    return sides


def _place(spec: str) -> tuple[str, str]:
    place, attribute = _modules.parts(spec)
    return (str(Path(place).expanduser().resolve()) if place.endswith(".py") else place), attribute


def _kind_of(against: str) -> tuple[Kind, str]:
    """Return what a base is, and what stands behind the prefix that says so."""
    prefix, colon, rest = against.partition(":")
    if colon and prefix in set(Kind) - set(_WORDS):
        return _forced(Kind(prefix), rest.strip())
    if against in _WORDS:
        return Kind(against), against
    if against.endswith(".json") and Path(against).is_file():
        return Kind.FILE, against
    if against.endswith(".whl") or _is_version(against):
        return Kind.PIP, against
    if _names_a_loader(against):
        return Kind.LOADER, against
    try:
        trees.commit(against)
    except BaseError as error:
        raise _unknown(against, error) from None
    return Kind.GIT, against


def _forced(kind: Kind, what: str) -> tuple[Kind, str]:
    if not what:
        msg = f"{kind}: is not followed by anything"
        raise BaseError(msg)
    if kind is Kind.FILE and not Path(what).is_file():
        raise BaseError(_no_file(Path(what)))
    return kind, what


def _unknown(against: str, error: BaseError) -> BaseError:
    missing = f" {_no_file(Path(against))}." if against.endswith(".json") else ""
    near = _modules.near(against, registry.names())
    return BaseError(f"it is nothing to compare with{near}.{missing} {error}. BASE is {_KINDS}")


def _no_file(path: Path) -> str:
    return f"There is no file {path.absolute()}{_modules.near(path.name, [one.name for one in path.parent.glob('*')])}"


def _is_version(text: str) -> bool:
    """Tell whether a text asks for a version of a package; a bare name may be anything."""
    try:
        asked = Requirement(text)
    except InvalidRequirement:
        return False
    # git's own main@{1} reads as one with a URL, too.
    return bool(asked.specifier) or "://" in (asked.url or "")


def _names_a_loader(text: str) -> bool:
    place, attribute = _modules.parts(text)
    named = place.endswith(".py") or re.fullmatch(r"\w+(\.\w+)*", place)
    return text in registry.names() or bool(attribute and named)
