"""The memory of a loader over its epochs: of all its processes, apart from files and shared memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from loaderproof.suite import family
from loaderproof.suite.answers import Memory
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.runs import limited
from loaderproof.suite.experiments.workbench import Workbench, start_epoch
from loaderproof.suite.observation import Scenario

_KIB = 1024
# Pools are filled and caches made in the first epochs.
WARM_UP = 2
# So many epochs have to show the same before it is believed.
SUCCESSIVE = 5


def epochs(bench: Workbench, scenario: Scenario, least: int) -> Memory:
    """Read epochs from one loader and measure its memory after each.

    Args:
        bench: opens the loader.
        scenario: how many epochs at the least.
        least: bytes that count as growth. As long as each epoch brings more, up to twice as many follow.
    """
    held: list[int] = []
    batch, storage = 1, 0
    with bench.opened(scenario) as loader:
        for number in range(2 * scenario.epochs):
            start_epoch(loader, number)
            for images, _ in recorder.pairs(limited(bench, scenario, loader)):
                batch, storage = max((batch, storage), _sizes(images), key=lambda one: one[1] / one[0])
            if (now := anonymous_bytes()) is None:
                return Memory(None, batch, storage)
            held.append(now)
            if number + 1 >= scenario.epochs and not grows(held, least):
                break
    return Memory(held, batch, storage)


def grows(held: Sequence[int], least: int) -> bool:
    """Tell whether each epoch after the first ones brought so many bytes more."""
    later = held[WARM_UP - 1 :]
    return all(after - before >= least for before, after in itertools.pairwise(later))


def _sizes(images: torch.Tensor) -> tuple[int, int]:
    """Return the bytes of a batch, at least 1, and of the storage that it lies in."""
    return max(images.numel() * images.element_size(), 1), images.untyped_storage().nbytes()


def anonymous_bytes() -> int | None:
    """Return what all processes hold in anonymous memory, what they share counted once; None if unknown.

    Pages of files, which the kernel takes back when it needs them, do not count, nor does shared
    memory, which other tests look after.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # gives back what the allocator keeps for later
    sizes = [_anonymous_of(pid) for pid in (os.getpid(), *(one.pid for one in family.relatives()))]
    return None if sizes[0] is None else sum(size or 0 for size in sizes)


def _anonymous_of(pid: int) -> int | None:
    """Return the proportional set size of the anonymous memory of a process, in bytes."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("Pss_Anon:")).split()[1]) * _KIB
    return None
