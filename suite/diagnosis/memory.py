"""What was found out about the memory of a loader, for a person; and memray's own pictures of it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from loaderproof.suite.diagnosis.frames import short
from loaderproof.suite.diagnosis.recordings import Allocations, Held

NOT_INSTALLED = "memray is not installed: pip install 'loaderproof[profile]' (there is none for Windows)"
NOT_TOLD = "the kernel tells the proportional memory (PSS) of a process on Linux only"
_NOT_FOLLOWED = (
    "no worker was recorded: memray follows processes that are forked, and sees nothing of those that are started anew"
    " or that were ended by a signal before their recording was written"
)
_MIB = 2**20
# Share of the peak below which a function is not named.
_WORTH = 0.01
_DRAWING_S = 120.0


def is_installed() -> bool:
    """Tell whether memray can be used here."""
    return importlib.util.find_spec("memray") is not None


def draw(recording: Path, picture: Path) -> str | None:
    """Have memray draw its flame graph.

    Args:
        recording: of one process.
        picture: HTML, written anew.

    Returns:
        Why there is none, in one sentence, or None.
    """
    words = ["-m", "memray", "flamegraph", "--force", "--output", str(picture), str(recording)]
    try:
        done = subprocess.run(
            [sys.executable, "-P", *words],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_DRAWING_S,
        )
    except subprocess.TimeoutExpired:
        return f"memray did not draw {picture.name} within {_DRAWING_S:g} s"
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return f"memray did not draw {picture.name}: {lines[-1] if lines else 'it said nothing'}"


def greatest_worker(found: Sequence[Allocations]) -> Allocations | None:
    """Return the recording of the worker that held most, which stands for all; None if there is none."""
    return max((one for one in found if one.worker), key=lambda one: one.peak, default=None)


def report_held(held: Held) -> str:
    """Return what the processes of a loader held."""
    growth = held.tree - held.before
    rows = [
        ("before the loader was opened", held.before, ""),
        ("main process", held.main, ""),
        ("workers", held.workers, f"in {held.processes} processes" if held.processes else ""),
        ("all together", held.tree, f"{growth / _MIB:+,.0f} MiB since before the loader was opened"),
    ]
    lines = [f"{name:<29}{size / _MIB:>9,.0f} MiB  {more}".rstrip() for name, size, more in rows]
    head = f"peak of the proportional memory (PSS), {held.samples} samples of a run without profiler"
    return "\n".join([head, *lines])


def report_allocations(found: Sequence[Allocations], workers: int) -> str:
    """Return which functions held the memory.

    Args:
        found: of all processes.
        workers: that the loader was asked to have.
    """
    main = [one for one in found if not one.worker]
    worker, count = greatest_worker(found), sum(one.worker for one in found)
    parts = [_of_process("main process", one) for one in main]
    parts += [_of_process(f"greatest of {count} workers", worker)] if worker else []
    parts += [_NOT_FOLLOWED] if workers and not worker else []
    return "\n\n".join(parts)


def _of_process(name: str, found: Allocations) -> str:
    lines = [f"{name}: at most {found.peak / _MIB:,.1f} MiB allocated since the loader was opened (memray)"]
    lines += [
        f"{one.size / _MIB:>9,.1f} MiB  {one.function}"
        + (f" ({short(one.file)}:{one.line})" if one.file else "")
        for one in found.functions
        if one.size >= _WORTH * found.peak
    ]
    return "\n".join(lines)
