"""What comes back from a loader's process. Read in pytest's own process, so nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from loaderproof.suite.fingerprint import Coverage
from loaderproof.suite.observation import Observation


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
