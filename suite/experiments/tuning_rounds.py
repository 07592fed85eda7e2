"""Loaders of several settings, open at the same time: trained on in turn, and their memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from loaderproof.loaders.contract import Loader
from loaderproof.model.accelerator import accelerator
from loaderproof.model.training import Batches, Trainer
from loaderproof.suite.answers import Setup
from loaderproof.suite.experiments.rounds import ceiling, timed_pass
from loaderproof.suite.experiments.workbench import Workbench, close, ending, start_epoch
from loaderproof.suite.observation import Scenario
from loaderproof.suite.timeline import Timing

_KIB = 1024
_LOOK_S = 0.02
# The first epoch brings what is made once; the second, beside it, what is held then.
_MEMORY_EPOCHS = 2


class Settings:
    """The loaders, the device that they feed in turn, and the ceiling beside them.

    Attributes:
        loader: itself; who closes what was timed last closes this.
    """

    def __init__(self, bench: Workbench, scenario: Scenario, device: str) -> None:
        source = bench.fresh_source(scenario)
        self.device = accelerator(device)
        self.trainer = Trainer(source.image_shape, source.num_classes, self.device, scenario.request.seed)
        self.ceiling = ceiling(bench, scenario, self.device)
        self.samples = len(source)
        self.loader = self
        self._open: dict[int, Loader] = {}
        self._epochs: dict[int, int] = {}

    def open(self, number: int, bench: Workbench, scenario: Scenario) -> Setup:
        """Open one more loader."""
        source = bench.fresh_source(scenario)
        prepared = bench.prepare(source)
        began = time.perf_counter()
        self._open[number] = bench.open(source, scenario.request)
        opened = time.perf_counter() - began
        self._epochs[number] = 0
        return Setup(prepared.seconds, opened, self.samples, len(self.ceiling), self.device.name)

    def train(self, number: int) -> Timing:
        """Train on the next epoch of a loader."""
        loader = self._open[number]
        start_epoch(loader, self._epochs[number])
        self._epochs[number] += 1
        return self.run(ending(loader, len(self.ceiling)))

    def run(self, batches: Batches) -> Timing:
        """Train on batches."""
        gc.collect()  # so that no setting pays for the one before it
        return timed_pass(batches, self.device, self.trainer.step)

    def close(self) -> None:
        """Close all loaders."""
        for loader in self._open.values():
            close(loader)
        self._open = {}


def warm_up(bench: Workbench, scenario: Scenario, device: str) -> str:
    """Do everything once that is done once in a process, and return the name of the device."""
    start(bench, scenario, device)
    setup, _ = open_loader(bench, 0, scenario)
    finish(bench)
    return setup.device


def start(bench: Workbench, scenario: Scenario, device: str) -> None:
    """Get the device and the ceiling ready."""
    finish(bench)
    bench.timed = Settings(bench, scenario, device)


def open_loader(bench: Workbench, number: int, scenario: Scenario) -> tuple[Setup, Timing]:
    """Open the loader of one setting beside the others, and train on its very first epoch."""
    setup = bench.timed.open(number, bench, scenario)
    first = bench.timed.train(number)
    gc.freeze()  # what a library brought with it need not be looked through before every epoch
    return setup, first


def train(bench: Workbench, number: int) -> Timing:
    """Train on the next epoch of one setting."""
    made: Timing = bench.timed.train(number)
    return made


def train_on_ceiling(bench: Workbench) -> Timing:
    """Train on the ceiling's batches."""
    made: Timing = bench.timed.run(bench.timed.ceiling)
    return made


def finish(bench: Workbench) -> None:
    """Close what is open."""
    if isinstance(bench.timed, Settings):
        bench.timed.close()
        bench.timed = None
        gc.unfreeze()


def memory(bench: Workbench, scenarios: list[Scenario], device: str) -> list[int | None]:
    """Train on each scenario's loader, one after the other, and measure the most memory that each held.

    Args:
        bench: opens the loaders; in a process in which nothing was timed.
        scenarios: what the loaders are asked for; the first one once before, for what is loaded and
            made once in a process.
        device: name of the accelerator.

    Returns:
        The largest proportional set size of all processes together, in bytes, from before each
        loader was opened until it was closed; None where the kernel does not tell, or it failed.
    """
    peaks = [_peak_of(bench, scenario, device) for scenario in [scenarios[0], *scenarios]]
    return peaks[1:]


def _peak_of(bench: Workbench, scenario: Scenario, device: str) -> int | None:
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # gives back what the allocator kept of the loader before
    with looking() as peak:
        settings = Settings(bench, scenario, device)
        try:
            settings.open(0, bench, scenario)
            for _ in range(_MEMORY_EPOCHS):
                settings.train(0)
        except Exception:  # noqa: BLE001 - that it fails was said where it was timed
            return None
        finally:
            settings.close()
    return peak[0] or None


@contextlib.contextmanager
def looking() -> Iterator[list[int]]:
    """Keep the largest size of this process and its children in a list of one number."""
    peak, done = [0], threading.Event()

    def look() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], _held())
            done.wait(_LOOK_S)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _held() -> int:
    me = psutil.Process()
    return sum(_proportional_size(process.pid) for process in [me, *me.children(recursive=True)])


def _proportional_size(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 if it is gone, or the kernel does not tell."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * _KIB
    return 0
