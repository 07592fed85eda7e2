"""Right loaders: the one that broken ones replace a step of, and others that no test may refuse."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from loaderproof.loaders import ALL_PROMISES, Loader, Promise, Request, Source, Variant, adapter, promised

NO_WORKERS = promised(Promise.WORKERS)


class Honest:
    """Reads a source sample by sample, in steps that can be replaced one by one."""

    def __init__(self, source: Source, request: Request) -> None:
        self.source, self.request = source, request
        self.generator = torch.Generator().manual_seed(request.seed)
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.batches(list(range(len(self.source)))))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for places in self.batches(self.order()):
            yield self.batch(places)
        self.epoch += 1

    def order(self) -> list[int]:
        """Return the places in the source of an epoch's samples."""
        return self.permutation() if self.request.shuffle else list(range(len(self.source)))

    def permutation(self) -> list[int]:
        """Return the order of a shuffled epoch."""
        return torch.randperm(len(self.source), generator=self.generator).tolist()

    def batches(self, places: list[int]) -> list[list[int]]:
        """Return the places of each batch."""
        chunks = [places[start:][: self.request.batch_size] for start in range(0, len(places), self.request.batch_size)]
        return [chunk for chunk in chunks if len(chunk) == self.request.batch_size or not self.request.drop_last]

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        """Return the samples at some places."""
        images, labels = zip(*map(self.sample, places), strict=True)
        return torch.stack(images), torch.tensor(labels)

    def sample(self, place: int) -> tuple[Tensor, int]:
        """Return one sample."""
        pixels, label = self.source[place]
        return self.image(pixels), self.label(label)

    def image(self, pixels: np.ndarray) -> Tensor:
        """Return one image, made from pixels (uint8, HWC)."""
        return torch.from_numpy(pixels).permute(2, 0, 1) / 255

    def label(self, label: int) -> int:
        """Return one label, made from the source's."""
        return label


def fails(
    *tests: str, rows: Iterable[str] = (), promises: Iterable[Promise] = NO_WORKERS, **declared: Any
) -> Callable[[Callable[[Source, Request], Loader]], Callable[[Source, Request], Loader]]:
    """Make a function adapter of a class or function `(source, request)`, and say what becomes of it.

    Args:
        tests: the conformance tests that it must fail; all others it must pass.
        rows: the faults of the catalogue that it stands for.
        promises: what it claims.
        declared: further fields of its description.
    """

    def declare(make: Callable[[Source, Request], Loader]) -> Callable[[Source, Request], Loader]:
        @adapter(promises=promises, **declared)
        def broken(source: Source, request: Request) -> Loader:
            return make(source, request)

        broken.fails, broken.rows, broken.__doc__ = tests, tuple(rows), make.__doc__  # type: ignore[attr-defined]
        return broken

    return declare


@fails()
class Plain(Honest):
    """Reads sample by sample."""


class Samples:
    """A map-style data set with the images and labels of another loader."""

    def __init__(self, loader: Honest) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader.source)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return self.loader.sample(place)


@fails(promises=ALL_PROMISES)
def workers(source: Source, request: Request) -> Loader:
    """Leaves batching, shuffling and worker processes to a DataLoader."""
    return DataLoader(
        Samples(Honest(source, request)),  # type: ignore[arg-type]
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        drop_last=request.drop_last,
        num_workers=request.num_workers,
        generator=torch.Generator().manual_seed(request.seed),
    )


@fails(promises=promised(Promise.WORKERS, Promise.LENGTH))
def without_length(source: Source, request: Request) -> Loader:
    """Has no length, yields lists, prints a line for each batch, and strides are not contiguous."""

    class Lists:
        def __init__(self) -> None:
            self.loader = Honest(source, request)

        def __iter__(self) -> Iterator[list[Tensor]]:
            for images, labels in self.loader:
                sys.stdout.write(f"{len(labels)} samples\n")
                yield [images.contiguous(memory_format=torch.channels_last), labels]

    return Lists()  # type: ignore[return-value]


@fails(image_dtype="uint8", label_dtype="int32")
class Bytes(Honest):
    """Delivers the dtypes that it declares."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return images, labels.to(torch.int32)


@fails(tolerance=0.02)
class Lossy(Honest):
    """Delivers values within the tolerance that it declares."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return (super().image(pixels) * 32).round() / 32


@fails(promises=NO_WORKERS - {Promise.SEEDED_ORDER}, variants={"": Variant(shuffle_buffer=300)})
class Buffer(Honest):
    """Shuffles through a buffer of the size that it declares, with a generator of its own."""

    def permutation(self) -> list[int]:
        generator = np.random.default_rng()
        coming = iter(range(len(self.source)))
        held = [place for place, _ in zip(coming, range(300), strict=False)]
        ...


@fails()
class EpochHook(Honest):
    """Takes the order from the seed and from the epoch that it is told."""

    def set_epoch(self, epoch: int) -> None:
        """Take over the epoch that comes."""
        self.generator.manual_seed(1_000 * self.request.seed + epoch)
