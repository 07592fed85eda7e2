"""What a consumer on a CUDA device does to a loader: works later than it asks, or sooner than the rest.

A CUDA stream does its work in order and apart from other streams. Here one of the two sides is held
by a kernel that only lets time pass, so that a loader which does not wait where it must is caught every
time, and not by chance. Sources: "CUDA semantics" in the documentation of PyTorch, on streams, on
`record_stream` and on pinned memory; "API synchronization behavior" in that of the CUDA runtime.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor

from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.workbench import Endless, Workbench, ending, start_epoch
from loaderproof.suite.observation import Observation, Scenario

DEVICE, PINNED, PAGEABLE = "device", "pinned", "pageable"
# torch takes its streams in turn from pools of this size, one for each priority.
_POOL: Final = 32
_PRIORITIES: Final = (0, -1)
_CYCLES: Final = 2_000_000
# Longer than a pass takes, so that the race is still open when the last batch has come; but short
# enough for drivers that end a kernel of several seconds on a device with a display.
_TIMES: Final = 4
_SHORTEST_S, _LONGEST_S = 0.2, 1.5


class Gpu:
    """The first CUDA device, with a stream for the consumer and all others that a loader may use."""

    def __init__(self) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.device = torch.device("cuda", 0)
        self._stream = _stream(self.device)
        pools = [_stream(self.device, priority) for priority in _PRIORITIES for _ in range(_POOL)]
        streams = {one.cuda_stream: one for one in (*pools, torch.cuda.default_stream(self.device))}
        streams.pop(self._stream.cuda_stream, None)
        self._others = list(streams.values())
        # A device that was idle begins with a slow clock.
        self._cycles_per_s = max(self._rate() for _ in range(10))

    @contextmanager
    def consuming(self) -> Iterator[None]:
        """Make the consumer's stream the current one."""
        with torch.cuda.stream(self._stream):
            yield

    def hold_consumer(self, seconds: float) -> None:
        """Let the consumer's stream do nothing for some time."""
        self._hold([self._stream], seconds)

    def hold_others(self, seconds: float) -> None:
        """Let every other stream that torch has do nothing for some time."""
        self._hold(self._others, seconds)

    def copy(self, tensor: Tensor) -> Tensor:
        """Queue a copy of a tensor to new memory of the device, on the current stream, and return at once.

        A tensor in pageable memory has been read when this returns; from pinned memory and from the
        device's own it is read when the stream comes to it.
        """
        return tensor.clone() if tensor.is_cuda else tensor.to(self.device, non_blocking=True)

    def wait(self) -> None:
        """Wait until every stream has done everything."""
        torch.cuda.synchronize(self.device)

    def allocated(self) -> int:
        """Return the bytes that tensors of this process take on the device."""
        return torch.cuda.memory_allocated(self.device)

    def _hold(self, streams: Iterable[torch.cuda.Stream], seconds: float) -> None:
        for stream in streams:
            with torch.cuda.stream(stream):
                _spin(int(seconds * self._cycles_per_s))

    def _rate(self) -> float:
        """Return how many cycles of the device's clock take a second."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            begin.record()
            _spin(_CYCLES)
            end.record()
        end.synchronize()
        milliseconds: float = begin.elapsed_time(end)
        return _CYCLES / milliseconds * 1e3


def _stream(device: torch.device, priority: int = 0) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority)  # type: ignore[no-untyped-call]


def _spin(cycles: int) -> None:
    # Not public, but what torch's own tests of streams use; a matrix product would keep the whole device busy.
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]  # noqa: SLF001


def found(bench: Workbench, scenario: Scenario) -> bool:
    """Tell whether torch sees a CUDA device here."""
    del bench, scenario
    return torch.cuda.is_available()


def consumed_late(bench: Workbench, scenario: Scenario) -> tuple[Observation, str]:
    """Queue copies of all batches behind a long kernel, and let go of each batch at once.

    Returns:
        What the copies hold, and where the batches lay: on the device, in pinned or in pageable memory.
    """
    return _consumed(bench, scenario, Gpu.hold_consumer, keep=False)


def consumed_at_once(bench: Workbench, scenario: Scenario) -> tuple[Observation, str]:
    """Copy each batch as soon as it is handed out, while every other stream is held by a long kernel.

    Returns:
        As `consumed_late`.
    """
    return _consumed(bench, scenario, Gpu.hold_others, keep=True)


def device_memory(bench: Workbench, scenario: Scenario) -> list[int]:
    """Copy the batches of many epochs to the device and drop them; return the bytes in use after each."""
    gpu = Gpu()
    taken = []
    with bench.opened(scenario) as loader:
        for number in range(scenario.epochs):
            start_epoch(loader, number)
            for batch in ending(loader, len(bench.source(scenario))):
                _copied(batch, gpu.copy)
            gpu.wait()
            gc.collect()  # what only waits for a collection is no leak
            taken.append(gpu.allocated())
    return taken


def _consumed(
    bench: Workbench, scenario: Scenario, hold: Callable[[Gpu, float], None], *, keep: bool
) -> tuple[Observation, str]:
    """Read an epoch with nothing held, and another while one side is held for longer than that took.

    The first also has torch take memory for the copies and load its kernels, which may wait for the
    whole device, and so for what is held.
    """
    catalogue, source = bench.catalogue(scenario), bench.source(scenario)
    seen = Observation(scenario, catalogue.labels, source.image_shape, None, owed=catalogue.owed)
    gpu, limit = Gpu(), 2 * len(source) + 4
    with bench.opened(scenario) as loader, gpu.consuming():
        start_epoch(loader, 0)
        began = time.perf_counter()
        _copies(loader, gpu, limit, keep=False)
        seconds = _TIMES * (time.perf_counter() - began)
        gpu.wait()
        start_epoch(loader, 1)
        hold(gpu, min(max(seconds, _SHORTEST_S), _LONGEST_S))
        copies, kept, lying = _copies(loader, gpu, limit, keep=keep)
        gpu.wait()
        del kept
    seen.epochs.append(recorder.Recorder(catalogue, scenario).epoch(0, copies))
    return seen, lying


def _copies(loader: Iterable[Any], gpu: Gpu, limit: int, *, keep: bool) -> tuple[list[Any], list[Any], str]:
    """Copy the batches of an epoch; return the copies, the batches if they are kept, and where they lay."""
    copies: list[Any] = []
    kept: list[Any] = []
    lying = PAGEABLE
    # No generator in between: it would hold the last batch while the loader makes the next one.
    for batch in loader:
        lying = _place(batch[0])
        copies.append(_copied(batch, gpu.copy))
        if keep:
            kept.append(batch)
        del batch
        if len(copies) > limit:
            msg = f"an epoch did not end after {limit} batches"
            raise Endless(msg)
    return copies, kept, lying


def _copied(batch: Any, copy: Callable[[Tensor], Tensor]) -> list[Any]:
    """Return a batch of copies."""
    return [
        {name: copy(value) for name, value in part.items()} if isinstance(part, Mapping) else copy(part)
        for part in batch
    ]


def _place(images: Tensor) -> str:
    """Return where a tensor lies."""
    if images.is_cuda:
        return DEVICE
    return PINNED if images.is_pinned() else PAGEABLE
