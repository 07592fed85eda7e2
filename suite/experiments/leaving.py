"""A script as its user writes it: uses a loader, and ends in one of several ways.

Started by `interpreter.py` as `python -m loaderproof.suite.experiments.leaving`; what to do comes on its
standard input.
"""

from __future__ import annotations

import faulthandler
import itertools
import pickle
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaderproof.suite.experiments.workbench import Workbench, close, ending, start_epoch

FOREVER_S = 3600
INCOMPLETE = 4


@dataclass
class Begun:
    """An epoch that has begun.

    Attributes:
        loader: gives it.
        batches: of it.
        samples: that it owes.
        ready: the file to make when it may be killed.
    """

    loader: Any
    batches: Iterator[Any]
    samples: int
    ready: Path


# What a script holds at its end.
held: list[Any] = []


def main() -> None:
    """Use the loader as the standard input says."""
    spec, scenario, limit_s, ready = pickle.load(sys.stdin.buffer)  # noqa: S301 - `interpreter.py` wrote it
    faulthandler.dump_traceback_later(limit_s)
    bench = Workbench(spec)
    source = bench.source(scenario)
    loader = bench.open(source, scenario.request)
    start_epoch(loader, 0)
    epoch = Begun(loader, ending(loader, len(source)), len(source), Path(ready))
    held.extend([bench, epoch])
    ACTS[sys.argv[1]](epoch)


def leave(epoch: Begun) -> None:
    """Take two batches and come to the end of the script."""
    held.extend(itertools.islice(epoch.batches, 2))


def wait(epoch: Begun) -> None:
    """Take two batches and wait to be killed."""
    held.extend(itertools.islice(epoch.batches, 2))
    epoch.ready.touch()
    time.sleep(FOREVER_S)


def finish(epoch: Begun) -> None:
    """Read the epoch to its end, close the loader, and tell by the exit code if samples are missing."""
    came = sum(len(labels) for _, labels, *_ in epoch.batches)
    close(epoch.loader)
    if came != epoch.samples:
        sys.exit(INCOMPLETE)


ACTS = {act.__name__: act for act in (leave, wait, finish)}

if __name__ == "__main__":
    main()
