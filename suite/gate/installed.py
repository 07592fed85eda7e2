"""An installed version as the base: a requirement or a wheel, in a virtual environment of its own.

What the requirement does not bring comes from this environment, so nothing else differs.
"""

from __future__ import annotations

import site
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from loaderproof.loaders import _modules, registry
from loaderproof.suite.gate.sides import BaseError, Side, prepared
from loaderproof.suite.home import Home, own_loaders, stand_in

_LAST_LINES = 8
_PIP = (
    "-m",
    "pip",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
    "install",
    "--no-warn-script-location",
)
# Read after the environment's own packages, so that these come first on the path. With addsitedir,
# packages that are installed in editable form are found, too.
_BEHIND = "zz_loaderproof_base.pth"


def compared(asked: str, folder: Path) -> tuple[str, Callable[[str], tuple[Side, Side]]]:
    """Install a version; return its name and what returns candidate and base for a spec.

    Args:
        asked: a requirement, or the path of a wheel.
        folder: a temporary one.

    Raises:
        BaseError: it cannot be installed, or is what is installed here.
    """
    if asked.endswith(".whl") and "://" not in asked and not Path(asked).is_file():
        msg = f"there is no file {Path(asked).absolute()}"
        raise BaseError(msg)
    python, packages = _environment(folder / "base" / "environment")
    main, brought = _install(asked, python, packages)
    if all(map(_is_here, brought)):
        msg = (
            f"{asked} is what is installed here already, file by file, so there is nothing to compare."
            " Give another version"
        )
        raise BaseError(msg)
    ours = packages / "loaderproof" / "loaders"
    package = stand_in(folder / "base" / "package", ours if ours.is_dir() else own_loaders())
    base = _Installed(f"{main.name} {main.version}", str(python), str(packages), package, folder)
    return base.name, base.sides


@dataclass(frozen=True)
class _Installed:
    """The base's environment.

    Attributes:
        name: of what it is there for.
        python: its interpreter.
        packages: its site-packages.
        package: folder with the package `loaderproof` of this run's suite and the base's loaders.
        folder: a temporary one.
    """

    name: str
    python: str
    packages: str
    package: str
    folder: Path

    def sides(self, spec: str) -> tuple[Side, Side]:
        """Return candidate and base; a loader that the version brings has to come from there."""
        here = Home(prepared=prepared(self.folder, "candidate", spec))
        there = Home(
            self.python,
            # A PYTHONPATH of this run would come before them otherwise.
            path=(self.package, self.packages),
            roots=(self.packages,) if self._brings(spec) else (),
            brings=self.packages,
            prepared=prepared(self.folder, "base", spec),
        )
        return Side(spec, here, "this environment"), Side(spec, there, self.name)

    def _brings(self, spec: str) -> bool:
        place, attribute = _modules.parts(spec)
        if spec in registry.BUILTIN or place.endswith(".py") or not attribute:
            return False
        top = Path(self.packages) / place.partition(".")[0]
        return top.is_dir() or top.with_suffix(".py").is_file() or any(top.parent.glob(f"{top.name}.*.so"))


def _environment(place: Path) -> tuple[Path, Path]:
    """Make a virtual environment that falls back on the packages of this one; return its Python and packages."""
    # This environment's pip serves, and takes a tenth of the time.
    own_pip = [] if find_spec("pip") is None else ["--without-pip"]
    _run("no virtual environment could be made", sys.executable, "-m", "venv", *own_pip, str(place))
    python = place / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(_run("its Python does not start", str(python), "-I", "-c", where))
    behind = [folder for folder in _site_folders() if Path(folder).is_dir()]
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in behind]
    (packages / _BEHIND).write_text("".join(lines))
    return python, packages


def _site_folders() -> list[str]:
    return [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]


def _install(asked: str, python: Path, packages: Path) -> tuple[Distribution, list[Distribution]]:
    """Install what is asked for, in any case, and what it needs and this environment lacks; return both."""
    failed = f"pip could not install {asked}"
    before = {one.name for one in distributions(path=[str(packages)])}

    def brought() -> list[Distribution]:
        return [one for one in distributions(path=[str(packages)]) if one.name not in before]

    _run(failed, str(python), *_PIP, "--no-deps", "--force-reinstall", "--", asked)
    (main,) = brought()
    _run(failed, str(python), *_PIP, "--", f"{main.name}{_extras(asked)}=={main.version}")
    return main, brought()


def _extras(asked: str) -> str:
    try:
        extras = sorted(Requirement(asked).extras)
    except InvalidRequirement:  # a path
        return ""
    return f"[{','.join(extras)}]" if extras else ""


def _is_here(other: Distribution) -> bool:
    """Tell whether this environment has the same version, with the same content."""
    try:
        own = distribution(other.name)
    except PackageNotFoundError:
        return False
    return own.version == other.version and _hashes(own) == _hashes(other)


def _hashes(found: Distribution) -> dict[str, str]:
    """Return the hashes of what is installed, but for notes about the installation."""
    return {
        str(file): file.hash.value
        for file in found.files or ()
        if file.hash and not file.parts[0].endswith(".dist-info")
    }


def _run(failed: str, *words: str) -> str:
    """Run a program, and return what it printed.

    Raises:
        BaseError: it fails; with its last lines.
    """
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:]
        msg = "\n".join([f"{failed}:", *said])
        raise BaseError(msg)
    return done.stdout.strip()
