"""The options of the gate; all begin with --loader-against or --loader-gate."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

# With fewer blocks no test can reach a level of 1 % in both directions.
FEWEST = 8

OPTIONS = (
    "--loader-against",
    "--loader-gate",
    "--loader-gate-inconclusive",
    "--loader-gate-blocks",
    "--loader-gate-machine",
)


@dataclass(frozen=True)
class Choices:
    """What the options say.

    Attributes:
        against: what the loaders are compared with.
        margin: how much worse they may be, as a share.
        inconclusive_passes: whether the gate lets pass what it cannot decide.
        blocks: how many are measured; None for as many as the level needs, and some.
        any_machine: whether a stored baseline may be of another machine.
    """

    against: str
    margin: float = 0.05
    inconclusive_passes: bool = False
    blocks: int | None = None
    any_machine: bool = False


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    group.addoption(
        "--loader-against",
        metavar="BASE",
        help="fail loaders that are worse than BASE, measured side by side: a git ref such as origin/main, another"
        " loader, a requirement or wheel, or a result file of pytest-benchmark; `stored` is the newest one in its"
        " storage, and `nothing` measures a first one",
    )
    group.addoption(
        "--loader-gate",
        metavar="MARGIN",
        help="how much worse than BASE a loader may be, in percent (default: 5%%)",
    )
    group.addoption(
        "--loader-gate-inconclusive",
        choices=("fail", "pass"),
        help="what becomes of a loader that the gate cannot decide about (default: fail, with exit code 6)",
    )
    group.addoption(
        "--loader-gate-blocks",
        metavar="N",
        help="blocks of fresh processes for each loader, 8 or more (default: auto, which is 12, or more where"
        " many loaders share the level)",
    )
    group.addoption(
        "--loader-gate-machine",
        choices=("same", "any"),
        help="whether a stored BASE may be of another machine (default: same)",
    )


def read(config: pytest.Config) -> Choices | None:
    """Return what the options say, or None where nothing is gated.

    Raises:
        pytest.UsageError: they make no sense.
    """
    given = {name: value for name in OPTIONS if (value := config.getoption(name)) is not None}
    if not given:
        return None
    against = given.get("--loader-against", "").strip()
    if not against:
        # Whoever gives one of them believes that something is gated; a script's variable may be empty.
        msg = f"{next(iter(given))}: nothing to compare with: give --loader-against BASE, such as origin/main"
        raise pytest.UsageError(msg)
    if config.getoption("--loader-isolation") == "none":
        msg = "--loader-against gives each side processes of its own: leave --loader-isolation none out"
        raise pytest.UsageError(msg)
    if getattr(config.option, "dist", "no") != "no":
        msg = "--loader-against times loaders, and workers of pytest-xdist disturb each other: leave -n out"
        raise pytest.UsageError(msg)
    return Choices(
        against,
        _margin(given.get("--loader-gate", "5%")),
        given.get("--loader-gate-inconclusive") == "pass",
        _blocks(given.get("--loader-gate-blocks", "auto")),
        given.get("--loader-gate-machine") == "any",
    )


def _margin(text: str) -> float:
    number, sign, rest = text.partition("%")
    try:
        value = float(number) / 100 if sign and not rest.strip() else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        msg = f"--loader-gate {text!r}: give a margin in percent, such as 5% or 2.5%"
        raise pytest.UsageError(msg)
    return value


def _blocks(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < FEWEST:
        msg = f"--loader-gate-blocks {text!r}: give a whole number from {FEWEST} on; fewer decide nothing"
        raise pytest.UsageError(msg)
    return int(text)
