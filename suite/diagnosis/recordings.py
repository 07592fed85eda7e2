"""What profilers bring back from a loader's own process; plain data, known on both sides."""

from __future__ import annotations

from dataclasses import dataclass

# Said wherever a trace is shown, and in the trace itself.
UNSEEN = "torch.profiler sees one process: nothing of what worker processes do is in the trace."


@dataclass(frozen=True)
class Recording:
    """What py-spy recorded.

    Attributes:
        raw: collapsed stacks, a line each: frames with semicolons between them, then how often it was seen.
        said: what py-spy printed to stderr; where it recorded nothing, its reason.
        pid: of the loader's own process; the others are what it started.
        rate: samples of every thread in a second.
        steps: training steps that were made meanwhile.
        device: name of the accelerator.
    """

    raw: str
    said: str
    pid: int
    rate: int
    steps: int
    device: str


@dataclass(frozen=True)
class Operation:
    """One operation of torch, over all its calls.

    Attributes:
        name: of the operation.
        calls: how many.
        self_cpu_us: microseconds on the CPU, without the operations that it called.
        self_device_us: microseconds on the device; 0 without one.
    """

    name: str
    calls: int
    self_cpu_us: float
    self_device_us: float


@dataclass(frozen=True)
class Trace:
    """What torch.profiler recorded.

    Attributes:
        steps: training steps in it.
        operations: those that took longest first.
        device: name of the accelerator.
    """

    steps: int
    operations: list[Operation]
    device: str


@dataclass(frozen=True)
class Allocated:
    """Memory that one function held when its process held most.

    Attributes:
        function: its name.
        file, line: where it allocated.
        size: bytes.
        count: of allocations.
    """

    function: str
    file: str
    line: int
    size: int
    count: int


@dataclass(frozen=True)
class Allocations:
    """What memray recorded of one process.

    Attributes:
        file: of the recording.
        worker: whether it is a process that the loader forked.
        peak: bytes that were allocated and not freed, at the most.
        functions: the greatest at that moment first.
    """

    file: str
    worker: bool
    peak: int
    functions: list[Allocated]


@dataclass(frozen=True)
class Held:
    """Memory of a process tree, as the kernel counts it: proportional set size (PSS), in bytes.

    Attributes:
        before: of the loader's own process before the loader was opened.
        main: of the loader's own process, at the most.
        workers: of all processes that it started together, at the most.
        tree: of all together, at the most.
        processes: that were started, at the most.
        samples: how often all were looked at.
    """

    before: int
    main: int
    workers: int
    tree: int
    processes: int
    samples: int
