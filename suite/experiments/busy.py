"""A thread that does what threads of a training program do while a loader starts its workers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch

# Large enough for torch to compute with all its threads.
_MANY = 2**17
_PAUSE_S = 0.0005


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Compute, draw and log beside whatever is done meanwhile.

    Nothing global is drawn from: whoever forks while another thread draws from NumPy's global
    generator inherits its lock, and no loader is to blame for that.
    """
    over, begun = threading.Event(), threading.Event()
    thread = threading.Thread(target=_work, args=(over, begun), name="loaderproof-busy", daemon=True)
    # In this thread, too: a pool of OpenMP belongs to the thread that forks later.
    torch.rand(_MANY).mul_(2).sum()
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _work(over: threading.Event, begun: threading.Event) -> None:
    values, generator = torch.rand(_MANY), np.random.default_rng(0)
    log = logging.getLogger("loaderproof.busy")
    log.addHandler(logging.NullHandler())  # without any handler it would be printed
    while not over.is_set():
        values.mul_(0.5).add_(1.0)
        generator.random(1_000)
        begun.set()  # so that workers are started while something is being logged
        log.warning("a step of the training is over")
        time.sleep(_PAUSE_S)  # a thread that never waits would slow the loader down several times over
