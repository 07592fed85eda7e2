"""The memory of a loader while it trains: allocations by memray, and what all its processes hold."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from loaderproof.suite import family
from loaderproof.suite.diagnosis.recordings import Allocated, Allocations, Held
from loaderproof.suite.experiments.profiled import training
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario

_MOST = 5
# Reading the memory of a process takes some milliseconds; so often it costs a few percent of a core.
_PAUSE_S = 0.1
# They hold nothing of the loader's.
_HELPERS = ("resource_tracker", "forkserver", "torch_shm_manager")


def allocations(bench: Workbench, scenario: Scenario, device: str, folder: str) -> list[Allocations]:
    """Train an epoch with memray beside it; its recordings go into a folder.

    Args:
        bench: of the loader.
        scenario: what it is asked for.
        device: accelerator, as `--loader-device` takes it.
        folder: an empty one.

    Returns:
        What the process held at its peak, and then the same of each worker that it forked.
    """
    memray: Any = importlib.import_module("memray")
    file = Path(folder) / "main.bin"
    with training(bench, scenario, device, memray.Tracker(file, follow_fork=True)) as run:
        run.epoch(iter)
    # memray puts the number of the process behind the name.
    forked = sorted(file.parent.glob(f"{file.name}.*"))
    return [_read(memray, file, worker=False), *_readable(memray, forked)]


def _readable(memray: Any, files: list[Path]) -> Iterator[Allocations]:
    for file in files:
        # A worker that was ended with a signal has not written its recording to the end.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            yield _read(memray, file, worker=True)


def _read(memray: Any, file: Path, *, worker: bool) -> Allocations:
    sizes: Counter[tuple[str, str, int]] = Counter()
    counts: Counter[tuple[str, str, int]] = Counter()
    with memray.FileReader(file) as reader:
        for one in reader.get_high_watermark_allocation_records(merge_threads=True):
            place = next(iter(one.stack_trace(max_stacks=1)), ("(outside of Python)", "", 0))
            sizes[place] += one.size
            counts[place] += one.n_allocations
        peak = reader.metadata.peak_memory
    greatest = [
        Allocated(function, path, line, size, counts[function, path, line])
        for (function, path, line), size in sizes.most_common(_MOST)
    ]
    return Allocations(str(file), worker, peak, greatest)


def held(bench: Workbench, scenario: Scenario, device: str, seconds: float) -> Held | None:
    """Train with no profiler, and look again and again at what all processes hold.

    Args:
        bench: of the loader.
        scenario: what it is asked for.
        device: accelerator, as `--loader-device` takes it.
        seconds: how long at least; an epoch that takes longer is trained to its end.

    Returns:
        None where the kernel does not tell.
    """
    before = _pss(psutil.Process())
    if before is None:
        return None
    seen: list[tuple[int, list[int]]] = [(before, [])]
    over = threading.Event()
    with training(bench, scenario, device) as run:
        watcher = threading.Thread(target=_watch, args=(seen, over))
        watcher.start()
        try:
            end = time.monotonic() + seconds
            while run.epoch(iter) and time.monotonic() < end:
                pass
        finally:
            over.set()
            watcher.join()
    return Held(
        before=before,
        main=max(main for main, _ in seen),
        workers=max(sum(others) for _, others in seen),
        tree=max(main + sum(others) for main, others in seen),
        processes=max(len(others) for _, others in seen),
        samples=len(seen) - 1,
    )


def _watch(seen: list[tuple[int, list[int]]], over: threading.Event) -> None:
    while not over.wait(_PAUSE_S):
        # What processes share is counted in parts: the parts of different moments do not add up.
        while (look := _look()) is None and not over.is_set():
            pass
        if look:
            seen.append(look)


def _look() -> tuple[int, list[int]] | None:
    """Return what this process and the others hold; None if some of them began or ended meanwhile."""
    before = _others()
    main, others = _pss(psutil.Process()), [_pss(one) for one in before]
    if main is None or None in others or before != _others():
        return None
    return main, [size for size in others if size is not None]


def _others() -> list[psutil.Process]:
    return [one for one in family.relatives() if not _helps(one)]


def _helps(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        return any(name in " ".join(process.cmdline()) for name in _HELPERS)
    return True


def _pss(process: psutil.Process) -> int | None:
    """Return the proportional set size of a process in bytes; None if it is gone, or the kernel does not tell."""
    with contextlib.suppress(psutil.Error, OSError):
        return getattr(process.memory_full_info(), "pss", None)
    return None
