"""What comes back from a loader's process. Read in pytest's own process, so nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from loaderproof.suite.fingerprint import Coverage
from loaderproof.suite.observation import Epoch, Observation


@dataclass
class Written:
    """What came of writing into batches.

    Attributes:
        seen: the epoch after it.
        complaint: why a batch could not or must not be written to, or None.
        shared: pairs of batches of which the second changed when the first was written to.
        changed: places of the samples of the source that changed by writing.
    """

    seen: Observation
    complaint: str | None
    shared: list[tuple[int, int]]
    changed: list[int]


@dataclass
class Outcome:
    """How a poisoned epoch ended.

    Attributes:
        raised: whole text of the exception with its causes, or None if there was none.
        came: samples that came.
    """

    raised: str | None
    came: int


@dataclass(frozen=True)
class Covered:
    """What came in one epoch, and what was owed."""

    came: Coverage
    owed: Coverage

    @property
    def complete(self) -> bool:
        """Tell whether every sample came once, with its label."""
        return self.came == self.owed


@dataclass(frozen=True)
class Setup:
    """What it took to get ready; in seconds.

    Attributes:
        prepare_s: writing the on-disk format, when that was done.
        open_s: opening the loader.
        samples: in one epoch.
        batches: that an epoch of so many samples fills.
        device: name of the accelerator.
    """

    prepare_s: float
    open_s: float
    samples: int
    batches: int
    device: str


@dataclass(frozen=True)
class Run:
    """One run of the experiment.

    Attributes:
        seconds: of all epochs, training and testing; building is not in it, as in the article.
        build_s: seconds that it took to open both loaders.
        trained, tested: samples that came in each epoch.
        accuracy: on the test samples of the last epoch; None if nothing was computed.
        device: name of the accelerator.
    """

    seconds: float
    build_s: float
    trained: list[int]
    tested: list[int]
    accuracy: float | None
    device: str


@dataclass
class Pass:
    """One pass, or the exception that it ended with.

    Attributes:
        raised: whole text of the exception with its causes, or None if there was none.
        epoch: what came; None if there was an exception.
    """

    raised: str | None
    epoch: Epoch | None


@dataclass
class Killed:
    """What came after a worker had been killed.

    Attributes:
        workers: how many processes the loader had, of which one was killed.
        interrupted: the pass in which it happened.
        after: an epoch of a new loader; None if there was no worker to kill.
    """

    workers: int
    interrupted: Pass
    after: Epoch | None


@dataclass
class Skipped:
    """What came of a source with a sample that cannot be read, of a loader that leaves such out.

    Attributes:
        seen: the epoch.
        counted: what the loader's attribute `skipped` says; None if it has none.
    """

    seen: Observation
    counted: object


@dataclass
class Memory:
    """What memory an open loader holds.

    Attributes:
        epochs: bytes of anonymous memory of all its processes after each epoch; None where the kernel
            does not tell.
        batch, storage: bytes of the images of a batch, and of the storage that they lie in; those of
            the batch with the largest storage for its size.
    """

    epochs: list[int] | None
    batch: int
    storage: int


@dataclass
class Ended:
    """How an interpreter of its own ended in which a loader was used.

    Attributes:
        code: exit code, negative for a signal; None if it did not end in time.
        output: the last that it printed.
        processes: what was left running.
        memory: what was left in shared memory.
    """

    code: int | None
    output: str
    processes: list[str]
    memory: list[str]


@dataclass
class Held:
    """What the processes of a loader held after each epoch.

    Attributes:
        memory: bytes of anonymous memory of all of them; 0 where the kernel does not tell.
        descriptors, threads: of the loader's own.
        shared_memory: bytes that it has mapped of entries in /dev/shm.
    """

    memory: list[int]
    descriptors: list[int]
    threads: list[int]
    shared_memory: list[int]


@dataclass(frozen=True)
class Inherited:
    """What a loader held before its workers began, and by how much all grew in an epoch; in bytes."""

    opened: int
    growth: int
    workers: int


@dataclass(frozen=True)
class Restarted:
    """What came of killing a run.

    Attributes:
        began: whether it took its first batches.
        left: its processes that still ran some time after the kill.
        next: how the run after it ended.
    """

    began: bool
    left: list[str]
    next: Ended


@dataclass
class Among:
    """What an adapter made of its own files with strays among them.

    Attributes:
        strays: names of what was put into each of its folders.
        seen: one epoch; None if there was an exception.
        raised: whole text of the exception with its causes; empty if there was none.
    """

    strays: list[str]
    seen: Observation | None
    raised: str
