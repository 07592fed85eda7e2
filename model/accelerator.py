"""Where training steps run: this CPU, a GPU, or the clock of a GPU that is not there."""

from __future__ import annotations

import itertools
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]

DEFAULT_STEP: Final = "2ms"
QUEUE_DEPTH: Final = 2
_UNIT_NS: Final = {"us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class DeviceSteps:
    """What a device did, step by step; nanoseconds, int64, shape (steps,).

    Attributes:
        idle_ns: before each step, since the end of the one before it; 0 before the first.
        computing_ns: from each step's begin to its end.
    """

    idle_ns: NDArray[np.int64]
    computing_ns: NDArray[np.int64]


class Accelerator(ABC):
    """What the training loop needs of a device.

    Attributes:
        name: stands beside every figure taken on it.
        device: where its tensors lie.
        emulated: whether it only takes the time of a step and computes nothing.
    """

    name: str
    device: torch.device
    emulated: bool = False

    def put(self, tensor: Tensor) -> Tensor:
        """Return the tensor on the device, itself if it lies there already."""
        return tensor.to(self.device)

    @abstractmethod
    def run(self, step: Step, images: Tensor, labels: Tensor) -> Tensor | None:
        """Start one step on a batch that lies on the device.

        Returns:
            What the step returns, perhaps before it is computed; None if nothing is computed.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything that was started is done."""

    def reset(self) -> None:  # noqa: B027 - a device without a queue need remember nothing
        """Forget the steps that were run; called when everything is done."""

    def steps(self, begun_ns: Sequence[int], returned_ns: Sequence[int]) -> DeviceSteps:
        """Return what the device did since the last `reset`; asked for when everything is done.

        Here it is what the host saw, as on a device without a queue; others know better.

        Args:
            begun_ns: when `run` was called, a reading for each step.
            returned_ns: when it returned.
        """
        begun, returned = np.asarray(begun_ns, np.int64), np.asarray(returned_ns, np.int64)
        return DeviceSteps(_gaps(begun, returned), returned - begun)


class Cpu(Accelerator):
    """The machine's own processor; a step is done when `run` returns."""

    name = "cpu"
    device = torch.device("cpu")

    def run(self, step: Step, images: Tensor, labels: Tensor) -> Tensor:
        """Compute one step."""
        return step(images, labels)

    def synchronize(self) -> None:
        """Return at once: nothing is ever left to wait for."""


class Cuda(Accelerator):
    """The first CUDA device that torch sees; steps are queued and run while the CPU goes on."""

    def __init__(self) -> None:
        """Take the device.

        Raises:
            RuntimeError: torch sees none.
        """
        if not torch.cuda.is_available():
            msg = (
                f"torch {torch.__version__} (built for CUDA: {torch.version.cuda}) sees no CUDA device;"
                " install a driver and a torch build that match,"
                " or choose --loader-device auto, cpu or emulated:2ms"
            )
            raise RuntimeError(msg)
        self.device = torch.device("cuda", 0)
        self.name = f"cuda {torch.cuda.get_device_name(self.device)}"
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # used again in each pass
        self._count = 0

    def put(self, tensor: Tensor) -> Tensor:
        """Return the tensor on the device; from pinned memory it may still be on its way."""
        return tensor.to(self.device, non_blocking=tensor.is_pinned())

    def run(self, step: Step, images: Tensor, labels: Tensor) -> Tensor:
        """Queue the kernels of one step between two events; wait only if CUDA's own queue is full.

        The device stamps an event when its stream comes to it: the first when the batch is there
        and the step before is done, the second after the step's last kernel. Where kernels are
        launched more slowly than they run, the device's pauses in between count as computing:
        they are the step's own.
        """
        if self._count == len(self._events):
            self._events.append((_event(), _event()))
        begin, end = self._events[self._count]
        self._count += 1
        begin.record()
        result = step(images, labels)
        end.record()
        return result

    def synchronize(self) -> None:
        """Wait for every queued kernel."""
        torch.cuda.synchronize(self.device)

    def reset(self) -> None:
        """Forget the steps that were run; their events are recorded anew."""
        self._count = 0

    def steps(self, begun_ns: Sequence[int], returned_ns: Sequence[int]) -> DeviceSteps:  # noqa: ARG002
        """Return the times between the events, which the device took itself.

        Neighbours are compared, as the time between two events is a float32 in milliseconds:
        over a long pass it would be rounded to microseconds.
        """
        events = self._events[: self._count]
        pairs = itertools.pairwise(events)
        idle = [0.0] * bool(events) + [end.elapsed_time(begin) for (_, end), (begin, _) in pairs]
        computing = [begin.elapsed_time(end) for begin, end in events]
        return DeviceSteps(*(np.rint(np.asarray(ms) * 1e6).astype(np.int64) for ms in (idle, computing)))


class Emulated(Accelerator):
    """A device of fixed speed that computes nothing: a clock with a queue like a GPU's.

    A step begins when the device is free and its batch is there, and every step takes the same
    time, whatever the size of the batch. The caller goes on at once while the queue has room; else
    it sleeps until the oldest step is done, to a moment fixed beforehand, so that waking late makes
    no step longer while another is queued.

    Attributes:
        step_ns: time of one step, in nanoseconds.
    """

    device = torch.device("cpu")
    emulated = True

    def __init__(
        self,
        step_ns: int,
        *,
        depth: int = QUEUE_DEPTH,
        clock: Callable[[], int] = time.perf_counter_ns,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Make an idle device.

        Args:
            step_ns: time of one step, in nanoseconds, at least 1.
            depth: how many steps may be started and not done, at least 1.
            clock: returns the time now, in nanoseconds.
            sleep: waits for a number of seconds.

        Raises:
            ValueError: a step takes no time, or the queue holds no step.
        """
        if step_ns < 1 or depth < 1:
            msg = f"an emulated step of {step_ns!r} ns in a queue of {depth!r}: both must be at least 1"
            raise ValueError(msg)
        self.step_ns = step_ns
        self.name = f"emulated {step_ns / 1e6:g} ms step"
        self._clock = clock
        self._sleep = sleep
        self._ends = deque([clock()] * depth, maxlen=depth)  # of the last steps, done or not
        self._begins: list[int] = []  # of all steps since the last `reset`

    def put(self, tensor: Tensor) -> Tensor:
        """Return a copy, as a transfer would make one.

        A loader may hand out memory that is filled only when it is read, such as a mapped file;
        the copy makes it do that work here as it would before a real device.
        """
        if tensor.dtype == torch.bfloat16:  # NumPy does not know it
            return tensor.clone()
        # On one core: torch would wake its pool of threads for each batch, and wait for all of them.
        return torch.from_numpy(tensor.detach().cpu().numpy().copy())

    def run(self, step: Step, images: Tensor, labels: Tensor) -> None:  # noqa: ARG002 - it computes nothing
        """Queue one step; sleep first if the queue is full."""
        # The batch waits at the device's door: it is let in when there is room, not when this process
        # wakes up and learns of it.
        begin = max(self._clock(), self._ends[-1])
        self._sleep_until(self._ends[0])
        self._begins.append(begin)
        self._ends.append(begin + self.step_ns)

    def synchronize(self) -> None:
        """Sleep until the last queued step is done."""
        self._sleep_until(self._ends[-1])

    def reset(self) -> None:
        """Forget when the steps began."""
        self._begins.clear()

    def steps(self, begun_ns: Sequence[int], returned_ns: Sequence[int]) -> DeviceSteps:  # noqa: ARG002
        """Return when the device was busy by its own clock, whenever the host learned of it."""
        begins = np.asarray(self._begins, np.int64)
        return DeviceSteps(_gaps(begins, begins + self.step_ns), np.full_like(begins, self.step_ns))

    def _sleep_until(self, deadline: int) -> None:
        while (now := self._clock()) < deadline:
            self._sleep((deadline - now) / 1e9)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _gaps(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    gaps = np.zeros_like(begins)
    gaps[1:] = begins[1:] - ends[:-1]
    return gaps


def accelerator(spec: str) -> Accelerator:
    """Return the accelerator for a value of `--loader-device`.

    Args:
        spec: `cpu`, `cuda`, `emulated:STEP` with a step such as `2ms`, `300us` or `0.5s`, or
            `auto`: `cuda` where torch sees such a device, else `emulated:2ms`.

    Raises:
        ValueError: the value is none of these.
        RuntimeError: `cuda`, and torch sees no CUDA device.
    """
    kind, _, step = spec.partition(":")
    if spec == "auto":
        return Cuda() if torch.cuda.is_available() else Emulated(_nanoseconds(DEFAULT_STEP))
    if spec == "cuda":
        return Cuda()
    if spec == "cpu":
        return Cpu()
    if kind == "emulated":
        return Emulated(_nanoseconds(step))
    msg = f"--loader-device {spec!r} is unknown: give auto, cuda, cpu, or emulated:STEP such as emulated:2ms"
    raise ValueError(msg)


def _nanoseconds(step: str) -> int:
    """Return the length of a step such as `2ms`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", step, re.ASCII)
    step_ns = round(float(match[1]) * _UNIT_NS[match[2]]) if match else 0
    if step_ns < 1:
        msg = (
            f"--loader-device 'emulated:{step}': {step!r} is no step time;"
            " give a number above 0 and a unit, us, ms or s, such as emulated:2ms"
        )
        raise ValueError(msg)
    return step_ns
