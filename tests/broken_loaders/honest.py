"""Right loaders: the one that broken ones replace a step of, and others that no test may refuse."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from loaderproof.loaders import Loader, Promise, Request, Source, Variant, promised
from loaderproof.loaders.function import adapter

NO_WORKERS = promised(Promise.WORKERS, Promise.SHARDING, Promise.RESUMING, Promise.AUGMENTATION)
WITH_WORKERS = NO_WORKERS | {Promise.WORKERS}
BUFFER = 300
# Whatever is wrong with the content of a small probe is wrong with the whole data too.
DATA = "test_every_sample_of_the_data_once"

Make = Callable[[Source, Request], Loader]


def fails(
    *tests: str, rows: Iterable[str] = (), promises: Iterable[Promise] = NO_WORKERS, **declared: Any
) -> Callable[[Make], Make]:
    """Make a function adapter of a class or function `(source, request)`, and say what it breaks.

    Args:
        tests: the conformance tests that it must fail; all others it must pass.
        rows: the publicly reported faults that it stands for.
        promises: what it claims.
        declared: further fields of its description.
    """

    def declare(make: Make) -> Make:
        @adapter(promises=promises, **declared)
        def opened(source: Source, request: Request) -> Loader:
            return make(source, request)

        opened.fails, opened.rows, opened.__doc__ = tests, tuple(rows), make.__doc__  # type: ignore[attr-defined]
        return opened

    return declare


class Honest:
    """Reads a source sample by sample, in steps that can be replaced one by one."""

    def __init__(self, source: Source, request: Request) -> None:
        if request.batch_size < 1 or request.num_workers < 0 or request.rank >= request.world_size:
            raise ValueError(f"no loader can do this: {request}")
        self.source, self.request = source, request
        self.generator = torch.Generator().manual_seed(request.seed)
        self.epoch = -1

    def __len__(self) -> int:
        return len(self.batches(list(range(len(self.source)))))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.epoch += 1
        for places in self.batches(self.order()):
            yield self.batch(places)

    def order(self) -> list[int]:
        """Return the places in the source of an epoch's samples."""
        return self.permutation() if self.request.shuffle else list(range(len(self.source)))

    def permutation(self) -> list[int]:
        """Return the order of a shuffled epoch."""
        return torch.randperm(len(self.source), generator=self.generator).tolist()

    def batches(self, places: list[int]) -> list[list[int]]:
        """Return the places of each batch."""
        size = self.request.batch_size
        chunks = [places[start : start + size] for start in range(0, len(places), size)]
        return [chunk for chunk in chunks if len(chunk) == size or not self.request.drop_last]

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        """Return the samples at some places."""
        # Not by map(), which takes a StopIteration of a sample for its end.
        images, labels = zip(*[self.sample(place) for place in places], strict=True)
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


class Samples:
    """The samples of a loader as a map-style data set."""

    def __init__(self, loader: Honest) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader.source)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        try:
            return self.loader.sample(place)
        except StopIteration as error:  # which a DataLoader takes for its end
            raise RuntimeError(f"sample {place} cannot be read") from error


def through_buffer(places: Iterable[int], size: int, generator: np.random.Generator) -> list[int]:
    """Return places in the order in which a shuffle buffer gives them out."""
    held: list[int] = []
    given: list[int] = []
    for place in places:
        held.append(place)
        if len(held) == size:
            given.append(held.pop(int(generator.integers(size))))
    return given + generator.permutation(held).tolist()


@fails(read_ahead=0)
class Plain(Honest):
    """Reads sample by sample."""


@fails(promises=WITH_WORKERS, read_ahead=2)
def workers(source: Source, request: Request) -> Loader:
    """Leaves batching, shuffling and processes to a DataLoader."""
    return DataLoader(
        Samples(Honest(source, request)),  # type: ignore[arg-type]
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        drop_last=request.drop_last,
        num_workers=request.num_workers,
        generator=torch.Generator().manual_seed(request.seed),
    )


@fails(promises=NO_WORKERS - {Promise.LENGTH})
class Lists(Honest):
    """Has no length, yields lists of tensors in channels-last memory, and prints a line for each."""

    __len__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        for images, labels in super().__iter__():
            sys.stdout.write(f"{len(labels)} samples\n")
            yield [images.contiguous(memory_format=torch.channels_last), labels]


@fails(image_dtype="uint8", label_dtype="int32")
class Bytes(Honest):
    """Delivers the dtypes that it declares."""

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return (images * 255).round().to(torch.uint8), labels.to(torch.int32)


@fails(tolerance=0.02)
class Lossy(Honest):
    """Delivers values within the tolerance that it declares."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return (super().image(pixels) * 32).round() / 32


@fails(promises=NO_WORKERS - {Promise.SEEDED_ORDER}, variants={"": Variant(shuffle_buffer=BUFFER)})
class Buffered(Honest):
    """Shuffles through a buffer of the size that it declares, with a generator that nobody seeds."""

    def permutation(self) -> list[int]:
        return through_buffer(range(len(self.source)), BUFFER, np.random.default_rng())


@fails()
class EpochHook(Honest):
    """Takes the order from the seed and from the epoch that it is told."""

    def set_epoch(self, epoch: int) -> None:
        """Take over which epoch comes."""
        self.generator.manual_seed(1_000 * self.request.seed + epoch)


@fails()
class Threaded(Honest):
    """Loads ahead in a thread that ends with its epoch, or when the epoch is left early."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        ready: queue.Queue[Any] = queue.Queue()
        left = threading.Event()
        thread = threading.Thread(target=self._load, args=(ready, left))
        thread.start()
        try:
            while (came := ready.get()) is not None:
                if isinstance(came, Exception):
                    raise came
                yield came
        finally:
            left.set()
            thread.join()

    def _load(self, ready: queue.Queue[Any], left: threading.Event) -> None:
        try:
            for batch in super().__iter__():
                ready.put(batch)
                if left.is_set():
                    break
        except Exception as error:  # noqa: BLE001  # it is raised again where the batches are taken
            ready.put(error)
        ready.put(None)
