"""What is said of a search for a loader's best setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from loaderproof.suite.diagnosis.tuning import Setting
from loaderproof.suite.diagnosis.tuning_search import ENOUGH, Found, Tried
from loaderproof.suite.statistics import Ratio

# Options that a torch.utils.data.DataLoader has under the same name.
_OF_DATALOADER = frozenset({"persistent_workers", "prefetch_factor", "pin_memory"})
_COLUMNS = ("setting", "x default", "of ceiling", "setup", "memory", "blocks")
_MIB = 2**20

Peaks = Mapping[Setting, int | None]


def as_data(found: Found, peaks: Peaks) -> dict[str, Any]:
    """Return everything as plain data: what was tried, the best, its gain and what it costs."""
    return {
        "start": str(found.start),
        "best": str(found.best),
        "workers": found.best.workers,
        "options": dict(found.best.options),
        "gain": asdict(found.gain) if found.gain else None,
        "more_memory": _more(found.best, found, peaks),
        "more_setup_s": _more_setup(found),
        "tried": [_row_as_data(tried, peaks) for tried in found.tried],
    }


def _row_as_data(tried: Tried, peaks: Peaks) -> dict[str, Any]:
    return {**asdict(tried), "setting": str(tried.setting), "peak": peaks.get(tried.setting)}


def text(found: Found, peaks: Peaks, about: str) -> str:
    """Return a table of what was tried, and what to do in one sentence.

    Args:
        found: by the search.
        peaks: the most memory that each setting held, in bytes; None where it is not known.
        about: data and device.
    """
    rows = [_COLUMNS, *(_cells(tried, found, peaks) for tried in found.tried)]
    failed = [f"left out: {tried.setting}: {tried.failed}" for tried in found.tried if tried.failed]
    return "\n".join([*_aligned(rows), *failed, about, "", _sentence(found, peaks)])


def _cells(tried: Tried, found: Found, peaks: Peaks) -> tuple[str, ...]:
    name = str(tried.setting) + (" (default)" if tried.setting == found.start else "")
    if tried.speed is None or tried.of_ceiling is None:
        return name, "left out", "-", "-", "-", "-"
    speed = "1" if tried.setting == found.start else _interval(tried.speed)
    share = f"{100 * tried.of_ceiling.value:.1f} %"
    return name, speed, share, _seconds(tried.setup_s), _memory(tried, found, peaks), str(tried.blocks)


def _memory(tried: Tried, found: Found, peaks: Peaks) -> str:
    peak = peaks.get(tried.setting)
    if peak is None:
        return "-"
    more = _more(tried.setting, found, peaks)
    beside = f" ({round(more / _MIB):+d})" if more is not None and tried.setting != found.start else ""
    return f"{peak / _MIB:.0f} MiB{beside}"


def _more(setting: Setting, found: Found, peaks: Peaks) -> int | None:
    """Return how many bytes a setting takes beyond the default."""
    its, of_default = peaks.get(setting), peaks.get(found.start)
    return None if its is None or of_default is None else its - of_default


def _more_setup(found: Found) -> float | None:
    setups = {tried.setting: tried.setup_s for tried in found.tried}
    its, of_default = setups.get(found.best), setups.get(found.start)
    return None if its is None or of_default is None else its - of_default


def _sentence(found: Found, peaks: Peaks) -> str:
    if found.gain:
        return (
            f"best: {found.best}: {_interval(found.gain)} times the default's speed{_price(found, peaks)};"
            f" set it by {_remedy(found.best)}"
        )
    again = found.unconfirmed
    doubt = f" ({again} was, until it was measured once more)" if again else ""
    share = found.tried[0].of_ceiling if found.tried else None
    if share and share.value >= ENOUGH:
        return f"the default trains at {100 * share.value:.1f} % of the ceiling: no setting can bring more{doubt}"
    reached = f", which trains at {100 * share.value:.1f} % of the ceiling" if share else ""
    return (
        f"no setting is measurably faster than the default{doubt}{reached};"
        " what holds it back is something else: --loader-profile stages"
    )


def _price(found: Found, peaks: Peaks) -> str:
    more, setup = _more(found.best, found, peaks), _more_setup(found)
    parts = [] if more is None else [f"{abs(more) / _MIB:.0f} MiB {'more' if more > 0 else 'less'}"]
    parts += [f"{setup:.1f} s more setup"] if setup is not None and setup >= 0.05 else []
    return f" for {' and '.join(parts)}" if parts else ""


def _remedy(setting: Setting) -> str:
    options = ", ".join(f"{name!r}: {value!r}" for name, value in setting.options)
    words = [] if setting.workers is None else [f"num_workers={setting.workers}"]
    words += [f"options={{{options}}}"] if options else []
    asked = f"Request({', '.join(words)})"
    plain = setting.workers and _OF_DATALOADER.issuperset(dict(setting.options))
    return asked + (f", in a DataLoader of your own by DataLoader(..., {setting})" if plain else "")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return [line.rstrip() for line in lines]


def _interval(ratio: Ratio) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f} s"
