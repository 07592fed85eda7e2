"""Where training steps run: this CPU, a GPU, or the clock of a GPU that is not there."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]

DEFAULT_STEP: Final = "2ms"
QUEUE_DEPTH: Final = 2
_UNIT_NS: Final = {"us": 1e3, "ms": 1e6, "s": 1e9}


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

    def put(self, tensor: Tensor) -> Tensor:
        """Return the tensor on the device; from pinned memory it may still be on its way."""
        return tensor.to(self.device, non_blocking=tensor.is_pinned())

    def run(self, step: Step, images: Tensor, labels: Tensor) -> Tensor:
        """Queue the kernels of one step; wait only if CUDA's own queue is full."""
        return step(images, labels)

    def synchronize(self) -> None:
        """Wait for every queued kernel."""
        torch.cuda.synchronize(self.device)


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
        now = self._sleep_until(self._ends[0])
        self._ends.append(max(now, self._ends[-1]) + self.step_ns)

    def synchronize(self) -> None:
        """Sleep until the last queued step is done."""
        self._sleep_until(self._ends[-1])

    def _sleep_until(self, deadline: int) -> int:
        while (now := self._clock()) < deadline:
            self._sleep((deadline - now) / 1e9)
        return now


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
