"""What differential runs found out about one loader. Plain data, known in both processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from loaderproof.suite.diagnosis.stacks import Hot
from loaderproof.suite.statistics import Ratio
from loaderproof.suite.timeline import Timing

CEILING, REPLAY, PINNED = "ceiling", "replay", "replay from pinned memory"
WARM, COLD, PLAIN, ALONE = "warm", "cold", "without workers", "alone"


def steady_s(made: Timing) -> float:
    """Return the mean time of a step: without the first batch, and without the wait for the end."""
    return (made.seconds - made.first_batch_s - made.ending_s) / made.batches


def epoch_s(made: Timing, batches: int) -> float:
    """Return how long an epoch of so many batches takes, of which a pass made the first ones or all."""
    return made.first_batch_s + steady_s(made) * batches + made.ending_s


@dataclass(frozen=True)
class Role:
    """What one process did while the loader ran alone, as shares of the time; it may have done nothing.

    Attributes:
        running: some thread was computing, or ready to.
        device: none was, and some thread waited for a disk, a network or a clock.
        cpu: cores in use, over all its threads.
        demand: cores that its threads would have used, had there been enough.
    """

    running: float
    device: float
    cpu: float
    demand: float

    @property
    def active(self) -> float:
        """Share of the time in which it did not wait for other processes."""
        return self.running + self.device

    @property
    def needed(self) -> float:
        """The same without the waits for cores that others had."""
        granted = min(self.cpu / self.demand, 1.0) if self.demand else 1.0
        return self.running * granted + self.device


@dataclass(frozen=True)
class Activity:
    """What a loader's processes did while it ran alone and nobody was slower.

    Attributes:
        seconds: how long they were looked at.
        main: the process that takes the batches.
        workers: those that it started.
        threads_cpu: cores that threads of the main process used beside its main thread.
        late_ms: how long a thread that wanted to run waited for the interpreter's lock; mean, in ms.
        files: data files that were open.
    """

    seconds: float
    main: Role
    workers: list[Role]
    threads_cpu: float
    late_ms: float
    files: list[str]


@dataclass
class Evidence:
    """Everything that the verdict on one loader rests on.

    Attributes:
        loader: label of the case.
        device: name of the accelerator.
        workers: that the loader was asked for.
        batches: in an epoch.
        cores: that this process may use.
        passes: for each arm one pass a block.
        activity: None where the kernel does not tell.
        speeds: of other numbers of workers, as multiples of this one's.
        hot: functions in which loading spends its time, the first of them first; empty where nobody looked.
    """

    loader: str
    device: str
    workers: int
    batches: int
    cores: float
    passes: dict[str, list[Timing]] = field(default_factory=dict)
    activity: Activity | None = None
    speeds: dict[int, Ratio] = field(default_factory=dict)
    hot: list[Hot] = field(default_factory=list)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.passes.get(WARM, ()))

    @property
    def granted(self) -> float:
        """How much processor time the loader's processes got of what they wanted and could have had, 0 to 1.

        What is missing, programs that are no part of the loader had.
        """
        roles = [self.activity.main, *self.activity.workers] if self.activity else []
        wanted = min(sum(role.demand for role in roles), self.cores)
        return min(sum(role.cpu for role in roles) / wanted, 1.0) if wanted else 1.0
