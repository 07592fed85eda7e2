"""The contract: what the suite hands to a loader, and what a loader hands back.

The suite makes a `Source` and a `Request`. Whoever has a loader writes an `Adapter`, whose
`open` turns the two into a `Loader`. A plain function `(source, request) -> loader` will do too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    Batch = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Mapping[str, Tensor]]


class Source(ABC):
    """The truth: the samples of one split, in their order. The suite makes it, adapters read it.

    Attributes:
        name: what was asked for and which split, for example `glyphs/train`.
        image_shape: height, width, channels; the same for every sample.
        num_classes: labels lie in `range(num_classes)`.
    """

    name: str
    image_shape: tuple[int, int, int]
    num_classes: int

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """Return the image (uint8, HWC) and the label of one sample.

        Raises:
            IndexError: past either end, so that a source can be iterated.
        """

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hexadecimal digest of all samples; equal sources have equal fingerprints."""

    def key(self, index: int) -> str:
        """Return the file name of one sample, without its ending, for formats that name their samples.

        No two samples share one. It may hold dots, blanks, slashes and letters beyond ASCII.
        """
        return f"{index:08d}"

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yield every sample in order."""
        return (self[index] for index in range(len(self)))

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all images (uint8, NHWC) and all labels (int64, N) in memory."""
        images = np.empty((len(self), *self.image_shape), np.uint8)
        labels = np.empty(len(self), np.int64)
        for index, (image, label) in enumerate(self):
            images[index], labels[index] = image, label
        return images, labels


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one loader is asked to deliver.

    Attributes:
        split: `train` or `test`; the source holds that split's samples already.
        batch_size: samples in every batch but the last of an epoch.
        shuffle: whether each epoch comes in a random order; else in the source's order.
        seed: decides every random choice of the loader.
        drop_last: whether a last batch that is not full is left out.
        num_workers: processes or threads that load ahead; 0 loads in the caller's.
        rank, world_size: which of how many equal parts of each epoch is wanted; ranks share the seed.
        augment: whether samples are changed at random, and batches carry ids and draws.
        options: settings of this adapter alone, as its variants name them.
    """

    split: str = "train"
    batch_size: int = 64
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = False
    num_workers: int = 0
    rank: int = 0
    world_size: int = 1
    augment: bool = False
    options: Mapping[str, object] = field(default_factory=dict)


class Loader(Protocol):
    """What `open` returns: each `iter()` is one epoch of `(images, labels)` batches.

    Images are float32 tensors of shape (N, C, H, W) with values in [0, 1]; labels are int64
    tensors of shape (N,); both unless the description says otherwise. A batch may have a third
    part, a dict of tensors of shape (N,): `id`, the place of each sample in the source (int64), and
    under any other name what was drawn at random for it. A loader may also have:

    - `__len__()`: the number of batches in an epoch;
    - `set_epoch(epoch)`: called by the suite before each epoch, counting from 0;
    - `state_dict()`: plain data that says how many batches of which epoch were handed out;
    - `load_state_dict(state)`: called on a fresh loader, after `set_epoch` with the number of the epoch
      that the state is of. The first pass then gives the rest of that epoch, and the following ones
      the epochs after it; where nothing is left of it, an empty pass or the next epoch at once;
    - `close()`: called once at the end; afterwards nothing of the loader may be left.
    """

    def __iter__(self) -> Iterator[Batch]:
        """Start an epoch."""


class Promise(StrEnum):
    """A property that an adapter claims beyond what every loader owes."""

    LENGTH = "length"
    DROP_LAST = "drop_last"
    SOURCE_ORDER = "source_order"
    SHUFFLE = "shuffle"
    RESHUFFLING = "reshuffling"
    SEEDED_ORDER = "seeded_order"
    WORKERS = "workers"
    PRIVATE_RANDOMNESS = "private_randomness"
    SHARDING = "sharding"
    RESUMING = "resuming"
    AUGMENTATION = "augmentation"


ALL_PROMISES = frozenset(Promise)


class Uneven(StrEnum):
    """What becomes of an epoch that does not divide by the number of ranks."""

    EXACT = "exact"
    """Every sample comes once; some ranks have one more than others."""
    PADDED = "padded"
    """Every rank has equally many; fewer samples than ranks come twice."""
    DROPPED = "dropped"
    """Every rank has equally many; fewer samples than ranks are left out."""


class OnError(StrEnum):
    """What a loader does with a sample that cannot be read."""

    RAISE = "raise"
    SKIP = "skip"
    """It leaves the sample out and counts it in its attribute `skipped`."""


@dataclass(frozen=True)
class Deviation:
    """A known failure of a loader: the named test must fail, or the deviation is out of date.

    Attributes:
        test: name of the conformance test, without its parameters.
        reason: why the loader does not pass.
        link: where its maintainers or documentation say so.
        variants: the variants that it holds for; empty for all.
        min_workers: it holds from so many workers on.
    """

    test: str
    reason: str
    link: str
    variants: tuple[str, ...] = ()
    min_workers: int = 0


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to set a loader up.

    Attributes:
        options: go into `Request.options`.
        shuffle_buffer: samples that take part in each random choice; None for all of them.
        min_workers: the variant makes sense from so many workers on.
    """

    options: Mapping[str, object] = field(default_factory=dict)
    shuffle_buffer: int | None = None
    min_workers: int = 0


@dataclass(frozen=True, kw_only=True)
class Tunable:
    """One option that a sweep of settings may change: its values change how fast the same samples come.

    Attributes:
        values: worth trying beside the default; plain data.
        min_workers: the option has an effect from so many workers on.
        cuda: it has one on a CUDA device alone.
    """

    values: tuple[object, ...]
    min_workers: int = 0
    cuda: bool = False


@dataclass(frozen=True, kw_only=True)
class Description:
    """Everything that is known of an adapter before it runs; plain data.

    Attributes:
        name: how the adapter is called in options and tables.
        summary: one line for the list of loaders.
        promises: what it claims beyond what every loader owes.
        requires: modules that must be importable.
        extra: the extra of this distribution that installs them.
        variants: named ways to set it up; the one called "" is the default.
        deviations: its known failures.
        on_disk: name and version of the format that `prepare` writes; adapters of one format
            share what is written. None if `prepare` writes nothing.
        image_dtype, label_dtype: names of the torch dtypes that it delivers.
        tolerance: largest difference of a pixel from the source, in units of the range [0, 1].
        uneven: how ranks share an epoch that does not divide by their number.
        on_error: what becomes of a sample that cannot be read.
        read_ahead: batches that each worker (without workers: the loader) reads ahead of its
            consumer at the most; None if nothing is promised.
        own_data: whether it reads data of its own, and gets no source.
        batch_size: of the batches that it gives whatever size is asked for; None if it heeds that.
        splits: that it can be asked for; one that reads data of its own may have fewer.
        tunable: options that a sweep of settings tries, by name, in the order in which it does.
    """

    name: str
    summary: str = ""
    promises: frozenset[Promise] = frozenset()
    requires: tuple[str, ...] = ()
    extra: str | None = None
    variants: Mapping[str, Variant] = field(default_factory=lambda: {"": Variant()})
    deviations: tuple[Deviation, ...] = ()
    on_disk: str | None = None
    image_dtype: str = "float32"
    label_dtype: str = "int64"
    tolerance: float = 0.0
    uneven: Uneven = Uneven.EXACT
    on_error: OnError = OnError.RAISE
    read_ahead: int | None = None
    own_data: bool = False
    batch_size: int | None = None
    splits: tuple[str, ...] = ("train", "test")
    tunable: Mapping[str, Tunable] = field(default_factory=dict)


class Adapter(ABC):
    """Turns a source and a request into a loader of one library."""

    description: ClassVar[Description]

    def prepare(self, source: Source, directory: Path) -> None:
        """Write the source in this adapter's on-disk format into an empty directory.

        Called once for each source; an error or interruption discards what was written.
        """

    @abstractmethod
    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return a loader over what `prepare` wrote into the directory, or over the source."""


def promised(*but: Promise) -> frozenset[Promise]:
    """Return all promises but the given ones."""
    return ALL_PROMISES - set(but)
