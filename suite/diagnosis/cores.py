"""How many cores there are for this process: by its affinity, and by the quota of its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def cores(groups: Path = _GROUPS, own: Path = _OWN) -> float:
    """Return how many cores this process may use at the same time; a quota may leave a part of one.

    Args:
        groups: where control groups are mounted.
        own: the file that names those of this process.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min([float(allowed), *_quotas(groups, own)])


def _quotas(groups: Path, own: Path) -> Iterator[float]:
    """Yield the quota of each control group that this process is in, of either version of them.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst.
    """
    for line in _lines(own):
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / "cpu" if controllers else groups
        here = root / path.lstrip("/")
        for folder in (here, *here.parents):
            yield from _quota(folder)
            if folder == root:
                break


def _quota(folder: Path) -> Iterator[float]:
    words = " ".join(_lines(folder / "cpu.max")).split()
    words = words or [*_lines(folder / "cpu.cfs_quota_us"), *_lines(folder / "cpu.cfs_period_us")]
    if len(words) == 2 and words[0] not in {"max", "-1"}:
        yield int(words[0]) / int(words[1])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
