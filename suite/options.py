"""The command line options; all begin with --loader."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loaderproof.suite.gate import choices
from loaderproof.suite.gate.choices import Choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loaderproof.suite.trial import Trial


DATA = "glyphs"
_DEFAULTS = {
    "--loader-data": DATA,
    "--loader-workers": "0,2",
    "--loader-device": "auto",
    "--loader-samples": "6400",
    "--loader-seed": "1",
    "--loader-isolation": "process",
    "--loader-timeout": "60",
    "--loader-profile": "",
    "--loader-report": "loaderproof-report",
}
_EXAMPLES = "100"
PROFILES = ("stages", "stacks", "trace", "memory")
_FLAGS = ("--loader-soak", "--loader-tune")


@dataclass(frozen=True)
class Settings:
    """What the options say.

    Attributes:
        loaders: specs asked for; empty for every built-in whose library is installed.
        data: name of the source that is timed and covered in full.
        workers: numbers of workers for loaders that take them.
        device: accelerator for the timed runs.
        isolation: `process` or `none`.
        timeout_s: the longest that a small experiment may take.
        samples: training samples in a timed epoch; None for all.
        seed: of every random choice that the suite asks for or makes.
        soak: whether the long tests of life and death run, too.
        search: how many requests a search for the smallest failing one tries; None for no search.
        request: the one request that is tried in place of everything else, or None.
        profiles: which kinds of profiles are taken, each in a run of its own.
        tune: whether the settings of each loader are swept.
        report: folder for files that a person opens.
        gate: what the loaders are compared with, and how; None where nothing is gated.
    """

    loaders: tuple[str, ...]
    data: str
    workers: tuple[int, ...]
    device: str
    isolation: str
    timeout_s: float
    samples: int | None
    seed: int = 1
    soak: bool = False
    search: int | None = None
    request: Trial | None = None
    profiles: tuple[str, ...] = ()
    tune: bool = False
    report: Path = Path(_DEFAULTS["--loader-report"])
    gate: Choices | None = None


def add(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("loaderproof", "data loaders: conformance and speed (pytest suite/)")
    group.addoption(
        "--loader",
        action="append",
        metavar="SPEC",
        default=[],
        help="loader to judge in all its variants and on several ranks: built-in name, module:attr or path.py:attr;"
        " repeatable (default: every built-in whose library is installed, in its first variant)",
    )
    group.addoption(
        "--loader-data",
        metavar="DATA",
        default=_DEFAULTS["--loader-data"],
        help="data for coverage and timing: glyphs[:N], probe, mnist[:DIR], fashion-mnist[:DIR], idx:DIR, folder:DIR,"
        " tfds:NAME, object:FILE.py:NAME (default: %(default)s); a loader over its own data is compared with what is"
        " named here, and with its own first pass if nothing is",
    )
    group.addoption(
        "--loader-workers",
        metavar="N,N",
        default=_DEFAULTS["--loader-workers"],
        help="numbers of workers for loaders that take them (default: %(default)s)",
    )
    group.addoption(
        "--loader-device",
        metavar="DEVICE",
        default=_DEFAULTS["--loader-device"],
        help="accelerator of the timed runs: auto, cpu, cuda, emulated:STEP such as emulated:2ms"
        " (default: %(default)s, which is cuda where there is one, else emulated:2ms)",
    )
    group.addoption(
        "--loader-samples",
        metavar="N",
        default=_DEFAULTS["--loader-samples"],
        help="training samples in a timed epoch, or all (default: %(default)s)",
    )
    group.addoption(
        "--loader-seed",
        metavar="N",
        default=_DEFAULTS["--loader-seed"],
        help="seed of every random choice (default: %(default)s)",
    )
    group.addoption(
        "--loader-soak",
        action="store_true",
        default=False,
        help="run the long tests of life and death, too: many epochs, a full /dev/shm",
    )
    group.addoption(
        "--loader-search",
        nargs="?",
        metavar="N",
        const=_EXAMPLES,
        help="search for the smallest request that a loader fails among N (default: %(const)s), too;"
        " give N, or put the option behind the paths",
    )
    group.addoption(
        "--loader-request",
        metavar="WORDS",
        help="try nothing but one request, as a search prints it: 'samples=3 batch_size=2 shuffle=True'",
    )
    group.addoption(
        "--loader-profile",
        metavar="KINDS",
        default=_DEFAULTS["--loader-profile"],
        help="find out where the time goes, each kind in a run of its own: stages (what costs how much, and what to"
        " change), stacks (py-spy), trace (torch.profiler), memory (memray); several with commas between them",
    )
    group.addoption(
        "--loader-tune",
        action="store_true",
        default=False,
        help="measure the settings of each loader against each other, and print the best one",
    )
    group.addoption(
        "--loader-report",
        metavar="DIR",
        default=_DEFAULTS["--loader-report"],
        help="folder for flame graphs, traces, the gate's answer and other files (default: %(default)s)",
    )
    choices.add(group)
    group.addoption(
        "--loader-isolation",
        choices=("process", "none"),
        default=_DEFAULTS["--loader-isolation"],
        help="run each loader in a process of its own, or in this one for a debugger (default: %(default)s)",
    )
    group.addoption(
        "--loader-timeout",
        metavar="SECONDS",
        default=_DEFAULTS["--loader-timeout"],
        help="longest time that a small experiment with a loader may take; long ones may take a multiple"
        " (default: %(default)s)",
    )


def read(config: pytest.Config) -> Settings:
    """Return what the options say.

    Raises:
        pytest.UsageError: a value makes no sense.
    """
    samples = config.getoption("--loader-samples")
    return Settings(
        loaders=tuple(config.getoption("--loader")),
        data=config.getoption("--loader-data"),
        workers=_workers(config.getoption("--loader-workers")),
        device=config.getoption("--loader-device"),
        isolation=config.getoption("--loader-isolation"),
        timeout_s=_positive("--loader-timeout", config.getoption("--loader-timeout")),
        samples=None if samples == "all" else _count("--loader-samples", samples),
        seed=_seed(config.getoption("--loader-seed")),
        soak=config.getoption("--loader-soak"),
        search=_search(config.getoption("--loader-search")),
        request=_request(config.getoption("--loader-request")),
        profiles=_profiles(config.getoption("--loader-profile")),
        tune=config.getoption("--loader-tune"),
        report=Path(config.getoption("--loader-report")),
        gate=choices.read(config),
    )


def given(config: pytest.Config) -> list[str]:
    """Return the options that differ from their defaults, but for the loaders, as words of a command."""
    defaults: dict[str, str | None] = {**_DEFAULTS, **dict.fromkeys(choices.OPTIONS)}
    values = {option: config.getoption(option) for option in defaults}
    words = [
        word for option, value in values.items() if value != defaults[option] for word in (option, str(value))
    ]
    return words + [flag for flag in _FLAGS if config.getoption(flag)]


def _workers(text: str) -> tuple[int, ...]:
    parts: Sequence[str] = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        msg = f"--loader-workers {text!r}: give whole numbers with commas between them, such as 0,2"
        raise pytest.UsageError(msg)
    return tuple(dict.fromkeys(int(part) for part in parts))


def _count(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        msg = f"{option} {text!r}: give a whole number above 0, or all"
        raise pytest.UsageError(msg)
    return int(text)


def _profiles(text: str) -> tuple[str, ...]:
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in PROFILES]
    if unknown:
        msg = f"--loader-profile {text!r}: {unknown[0]!r} is none of {', '.join(PROFILES)}"
        raise pytest.UsageError(msg)
    return tuple(kind for kind in PROFILES if kind in kinds)


def _search(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        msg = f"--loader-search {text!r}: give a whole number above 0, or put the option behind the paths"
        raise pytest.UsageError(msg)
    if not importlib.util.find_spec("hypothesis"):
        msg = "--loader-search needs Hypothesis, which is not installed: pip install 'loaderproof[search]'"
        raise pytest.UsageError(msg)
    return int(text)


def _request(text: str | None) -> Trial | None:
    if text is None:
        return None
    from loaderproof.suite import trial  # noqa: PLC0415 - its imports cost every run of pytest

    try:
        return trial.parse(text)
    except trial.NotATrial as error:
        msg = f"--loader-request {text!r}: {error}"
        raise pytest.UsageError(msg) from None


def _seed(text: str) -> int:
    # Adapters derive further seeds of 32 bits from it.
    if not text.isdecimal() or int(text) >= 2**31:
        msg = f"--loader-seed {text!r}: give a whole number below 2147483648"
        raise pytest.UsageError(msg)
    return int(text)


def _positive(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        msg = f"{option} {text!r}: give a number above 0"
        raise pytest.UsageError(msg)
    return value
