"""A git ref as the base: the working tree beside a worktree of that ref.

In the base lies what git has of that commit, and nothing else: no submodules, and nothing that was
built, such as compiled extensions. An installed version serves where these are needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions, entry_points
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from loaderproof.loaders import _modules, registry
from loaderproof.suite.gate.sides import BaseError, Side, prepared
from loaderproof.suite.home import Home, stand_in

_INSTEAD = "Give an installed version as the base, such as --loader-against loaderproof==1.0"
# A hook that starts this run sets these for the git that called it.
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


def commit(ref: str) -> str:
    """Return the hash of the commit that a ref of the current folder's repository names.

    Raises:
        BaseError: there is no git, no repository, or no such ref.
    """
    _top()
    try:
        return _git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    except BaseError:
        near = _modules.near(ref, _git("for-each-ref", "--format=%(refname:short)").splitlines())
        msg = f"The git repository has no commit {ref!r}{near}{_if_shallow()}"
        raise BaseError(msg) from None


@contextmanager
def compared(ref: str, folder: Path) -> Iterator[tuple[str, Callable[[str], tuple[Side, Side]]]]:
    """Check a ref out beside the working tree; yield its name and what returns candidate and base for a spec.

    Args:
        ref: of the current folder's repository.
        folder: a temporary one.

    Raises:
        BaseError: it cannot be had.
    """
    found, top, cwd = commit(ref), _top(), Path.cwd()
    tree = folder.resolve() / "base" / "tree"
    # A hook of the repository's checkouts may do anything, such as installing what it finds.
    checkout = (
        "-c",
        f"core.hooksPath={os.devnull}",
        "worktree",
        "add",
        "--quiet",
        "--detach",
        str(tree),
        found,
    )
    try:
        _git(*checkout)
        name = f"{ref} ({found[:7]}{'' if _differs(found) else ', the same as what lies here'})"
        trees = _Trees(top, tree, cwd.relative_to(top), name, folder)
        yield trees.name, trees.sides
    finally:
        _remove(tree, top)


@dataclass(frozen=True)
class _Trees:
    """Both trees.

    Attributes:
        top: the repository's working tree.
        tree: the base's.
        inside: the current folder, from the top.
        name: of the base, for people.
        folder: a temporary one.
    """

    top: Path
    tree: Path
    inside: Path
    name: str
    folder: Path

    def sides(self, spec: str) -> tuple[Side, Side]:
        """Return candidate and base.

        Raises:
            BaseError: the loader is none of this repository, or not in that ref.
        """
        spec = _spelled_out(spec)
        place, attribute = _modules.parts(spec)
        files = [""] * 2
        if spec in registry.BUILTIN:
            self._check_built_in(spec)
        elif place.endswith(".py"):
            files = [str(file) for file in self._files(place)]
        specs = [f"{file}:{attribute}" if file else spec for file in files]
        homes = [
            self._home(side, spec, file) for side, file in zip(("candidate", "base"), files, strict=True)
        ]
        return Side(specs[0], homes[0], "working tree"), Side(specs[1], homes[1], self.name)

    def _home(self, side: str, spec: str, file: str) -> Home:
        tree = self.tree if side == "base" else self.top
        package = [self._package(side, tree)] if self._is_ours(tree) else []
        own = [] if spec in registry.BUILTIN else self._folders(tree, file)
        # This run's own suite lies in one of both trees, where it is this project's.
        apart = str(self.top) if side == "base" and not package else None
        written = prepared(self.folder, side, spec)
        doubles = () if spec in registry.BUILTIN else _doubles(self.top)
        path = (*package, *own)
        return Home(path=path, roots=tuple(own), apart=apart, doubles=doubles, prepared=written)

    def _package(self, side: str, tree: Path) -> str:
        place = self.folder / side / "package"
        return str(place) if place.exists() else stand_in(place, tree / "loaders")

    def _folders(self, tree: Path, file: str) -> list[str]:
        """Return where a tree's modules are found: as in other runs, and in `src`, as if it were installed."""
        beside = [Path(file).parent] if file else []
        here = tree / self.inside
        places = [*beside, here, here / "src", tree / "src", *self._from_environment(tree)]
        return list(dict.fromkeys(str(place) for place in places if place.is_dir()))

    def _from_environment(self, tree: Path) -> list[Path]:
        given = [Path(one).resolve() for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
        return [tree / one.relative_to(self.top) for one in given if one.is_relative_to(self.top)]

    def _files(self, place: str) -> tuple[Path, Path]:
        # A link may lead elsewhere in the base.
        given = Path(place).expanduser().absolute()
        named = given.parent.resolve() / given.name
        inside = named.relative_to(self.top) if named.is_relative_to(self.top) else None
        here, there = named.resolve(), (self.tree / inside).resolve() if inside else named
        if not here.is_relative_to(self.top) or not (there.is_relative_to(self.tree) or not there.exists()):
            msg = f"{here} lies outside the git repository {self.top}: the base has no other version of it"
            raise BaseError(msg)
        if not there.is_file():
            msg = (
                f"{inside} is not in {self.name}, so there is nothing to compare with. Where a"
                " loader is new, leave the gate out, or give the loader that it replaces: --loader-against FILE.py:NAME"
            )
            raise BaseError(msg)
        return here, there

    def _check_built_in(self, spec: str) -> None:
        if not self._is_ours(self.top):
            msg = (
                f"{spec} is built in, and the git repository {self.top} is not that of loaderproof, so its refs hold"
                f" no other version of it. {_INSTEAD}"
            )
            raise BaseError(msg)
        if not self._is_ours(self.tree):
            msg = f"{self.name} has no folder of loaders that this version could use. {_INSTEAD}"
            raise BaseError(msg)

    @staticmethod
    def _is_ours(tree: Path) -> bool:
        return (tree / "loaders" / "registry.py").is_file() and (tree / "suite").is_dir()


def _differs(found: str) -> bool:
    """Tell whether the working tree differs from a commit; for people, as it may be compared all the same."""
    return bool(_git("diff", "--stat", found) or _git("ls-files", "--others", "--exclude-standard"))


def _doubles(top: Path) -> tuple[str, ...]:
    """Return what is installed from a folder of a repository, as a copy that no side can replace."""
    found: list[str] = []
    for one in distributions():
        told = json.loads(one.read_text("direct_url.json") or "{}")
        place = Path(url2pathname(urlsplit(told.get("url", "")).path))
        folder = told.get("dir_info")
        if folder is None or folder.get("editable") or not place.is_relative_to(top):
            continue
        names = {file.parts[0] for file in one.files or () if not file.parts[0].endswith(".dist-info")}
        found += [str(one.locate_file(name)) for name in sorted(names - {"..", "__pycache__"})]
    return tuple(found)


def _spelled_out(spec: str) -> str:
    """Return the module behind the name of a loader that an installed package offers."""
    if spec in registry.BUILTIN:
        return spec
    offered = [one for one in entry_points(group=registry.GROUP) if one.name == spec]
    return f"{offered[0].module}:{offered[0].attr}" if offered else spec


def _top() -> Path:
    return Path(_git("rev-parse", "--show-toplevel")).resolve()


def _if_shallow() -> str:
    if _git("rev-parse", "--is-shallow-repository") != "true":
        return ""
    return (
        ", which is a shallow clone and has only the newest commits: git fetch --unshallow, or fetch-depth: 0 where"
        " GitHub's checkout made it, or GIT_DEPTH: 0 on GitLab"
    )


def _remove(tree: Path, top: Path) -> None:
    try:
        _git("-C", str(top), "worktree", "remove", "--force", "--force", str(tree))
    except BaseError:  # it is there in part, or not at all
        shutil.rmtree(tree, ignore_errors=True)
        _git("-C", str(top), "worktree", "prune")


def _git(*words: str) -> str:
    """Run git in the current folder, and return what it printed.

    Raises:
        BaseError: git is not there or refuses; with its own words.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        done = subprocess.run(
            ["git", *words],  # noqa: S607 - whichever git the user has
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            env=environment,
        )
    except FileNotFoundError:
        msg = "git is not installed, or not on the PATH"
        raise BaseError(msg) from None
    if done.returncode:
        msg = f"git {words[0]} failed: {done.stderr.strip() or 'it said nothing'}"
        raise BaseError(msg)
    return done.stdout.strip()
