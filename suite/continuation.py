"""A run that is interrupted, and how it goes on. Read in pytest's own process, so nothing here needs torch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

Places = list[int]
Draws = dict[str, list[float]]


@dataclass(frozen=True)
class Cut:
    """A moment of a run at which its state was taken.

    Attributes:
        epoch: counts from 0.
        batches: handed out in this epoch.
        complete: whether these are all batches of the epoch.
        moment: `before` any iteration, `during` a pass, or `after` its end was reached.
    """

    epoch: int
    batches: int
    complete: bool = False
    moment: str = "during"

    @property
    def boundary(self) -> bool:
        """Whether it lies between two epochs: an empty pass may come before the next one."""
        return self.complete or (self.epoch > 0 and self.batches == 0)

    @property
    def next_epoch(self) -> int:
        """The epoch of the first samples after it."""
        return self.epoch + self.complete

    def __str__(self) -> str:
        if self.moment == "before":
            return "before any iteration"
        if self.moment == "after":
            return f"after the end of epoch {self.epoch}"
        handed = f"all {self.batches}" if self.complete else str(self.batches)
        return f"after {handed} batch{'es' * (self.batches != 1)} of epoch {self.epoch}"


@dataclass(frozen=True)
class Packed:
    """A state on its way to another loader.

    Attributes:
        json: as text; None if it does not survive that.
        pickled: as Python writes it, for a state that is not plain; None if that fails, too.
        strange: what in it is not plain data; None if all is.
    """

    json: str | None = None
    pickled: bytes | None = None
    strange: str | None = None

    @property
    def portable(self) -> bool:
        """Whether another loader can get it."""
        return self.json is not None or self.pickled is not None


@dataclass(frozen=True)
class Saved:
    """The state at a cut; or, instead of it, why it could not be taken."""

    cut: Cut
    state: Packed = field(default_factory=Packed)
    error: str | None = None


@dataclass
class Run:
    """A run that was not interrupted, of which states were taken on the way.

    Attributes:
        epochs: the places of the samples of each batch of each epoch.
        draws: what was drawn for the samples of each epoch, by name.
        saved: the states, in the order in which they were taken.
    """

    epochs: list[list[Places]]
    draws: list[Draws]
    saved: list[Saved]

    def epoch(self, number: int) -> Places:
        """Return the places of the samples of an epoch."""
        return list(itertools.chain.from_iterable(self.epochs[number]))

    def before(self, cut: Cut) -> Places:
        """Return what came before a cut in its epoch."""
        return list(itertools.chain.from_iterable(self.epochs[cut.epoch][: cut.batches]))

    def after(self, cut: Cut) -> list[Places]:
        """Return what came after a cut: the rest of its epoch if there is one, then every whole epoch."""
        done = 0 if cut.complete else len(self.before(cut))
        whole = [self.epoch(number) for number in range(cut.next_epoch, len(self.epochs))]
        return [whole[0][done:], *whole[1:]]

    @property
    def telling(self) -> list[Saved]:
        """Return the states after one batch of the first epoch, and in the middle of the second."""
        middle = len(self.epochs[1]) // 2 if len(self.epochs) > 1 else 0
        within = (one for one in self.saved if one.cut.moment == "during" and not one.cut.boundary)
        return [one for one in within if (one.cut.epoch, one.cut.batches) in {(0, 1), (1, middle)}]

    def drawn(self, epoch: int) -> dict[int, tuple[float, ...]]:
        """Return what was drawn for each sample of an epoch."""
        return by_place(self.epoch(epoch), self.draws[epoch])


@dataclass
class Continued:
    """How a run went on from a state.

    Attributes:
        cut: where the state was taken.
        passes: the places of the samples of each pass, without an empty one at a boundary.
        draws: what was drawn for the samples of each pass, by name.
        raised: the exception that ended it; None if there was none.
        refused: whether the exception has a message and came before any sample.
    """

    cut: Cut
    passes: list[Places] = field(default_factory=list)
    draws: list[Draws] = field(default_factory=list)
    raised: str | None = None
    refused: bool = False

    @property
    def rest(self) -> Places:
        """What came in the first pass."""
        return self.passes[0] if self.passes else []


@dataclass
class Interrupted:
    """A run, and how others went on from its states."""

    run: Run
    continued: list[Continued]


@dataclass
class Handled:
    """What became of a state in the hands of its loader and of its owner.

    Attributes:
        cut: where it was taken.
        by_iterating: whether it changed while its loader went on.
        by_loading: whether it changed in the loader that loaded it; None if loading failed.
        edited: the whole epoch of a loader of which a state was taken at the cut and emptied.
        taken_again: the same epoch up to the cut, and how it goes on from a state taken after that.
    """

    cut: Cut
    by_iterating: bool
    by_loading: bool | None
    edited: Continued
    taken_again: Continued


def by_place(places: Places, draws: Draws) -> dict[int, tuple[float, ...]]:
    """Return what was drawn for each sample."""
    return dict(zip(places, zip(*(draws[name] for name in sorted(draws)), strict=True), strict=False))
