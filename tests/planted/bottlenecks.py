"""Loaders whose bottleneck is known, as it was planted: in each, one step takes too long."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from loaderproof.loaders import Loader, Promise, Request, Source
from loaderproof.loaders.function import adapter

Sample = tuple[Tensor, int]
PROMISES = (Promise.LENGTH, Promise.WORKERS, Promise.SHUFFLE, Promise.DROP_LAST)
# On one core: what takes longer than it should, for each sample or batch.
SAMPLE_S, BATCH_S = 0.0003, 0.02
# A disk that turns, or a near network; for each sample.
STORAGE_S = 0.001
# For each batch, where a step takes 6 ms.
BALANCED_S = 0.004


class Plain(Dataset[Sample]):
    """Samples in memory; each step of making one can be replaced.

    Args:
        source: the samples.
    """

    def __init__(self, source: Source) -> None:
        images, labels = source.arrays()
        self.images, self.labels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255, labels.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> Sample:
        self.read(place)
        return self.transform(self.decode(self.images[place])), self.labels[place]

    def read(self, place: int) -> None:
        """Get the bytes."""

    def decode(self, image: Tensor) -> Tensor:
        """Return the image in the bytes."""
        return image

    def transform(self, image: Tensor) -> Tensor:
        """Return the image, augmented."""
        return image


Make = Callable[[Source, Request], Loader]


def planted(make: Make) -> Make:
    """Declare what all of them promise."""
    return adapter(promises=PROMISES)(make)


def loaded(data: Plain, request: Request, **more: Any) -> Loader:
    """Return a DataLoader as PyTorch's documentation shows it, with workers that live on."""
    return DataLoader(  # type: ignore[return-value]
        data,
        **{
            "batch_size": request.batch_size,
            "shuffle": request.shuffle,
            "drop_last": request.drop_last,
            "num_workers": request.num_workers,
            "persistent_workers": request.num_workers > 0,
            **more,
        },
    )


def burn(seconds: float) -> None:
    """Compute in C for some CPU time of this thread, without the interpreter's lock."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        zlib.decompress(PACKED)


PACKED = zlib.compress(np.random.default_rng(0).integers(0, 4, 40_000, np.uint8).tobytes())


def burn_in_python(seconds: float) -> None:
    """Compute in Python for some CPU time of this thread, holding the interpreter's lock."""
    until, value = time.thread_time() + seconds, 0
    while time.thread_time() < until:
        for number in range(500):
            value = (value * 31 + number) % 65_537


@planted
def storage(source: Source, request: Request) -> Loader:
    """Reads from storage that takes its time for each sample."""

    class Remote(Plain):
        def read(self, _place: int) -> None:
            time.sleep(STORAGE_S)

    return loaded(Remote(source), request)


@planted
def decode(source: Source, request: Request) -> Loader:
    """Decodes for long, in a library written in C."""

    class Packed(Plain):
        def decode(self, image: Tensor) -> Tensor:
            burn(SAMPLE_S)
            return image

    return loaded(Packed(source), request)


@planted
def collate(source: Source, request: Request) -> Loader:
    """Takes long to make a batch of samples."""

    def slowly(samples: list[Sample]) -> Any:
        burn(BATCH_S)
        return default_collate(samples)

    return loaded(Plain(source), request, collate_fn=slowly)


class Threads:
    """Makes samples in threads of the training process."""

    def __init__(self, data: Plain, request: Request) -> None:
        self.data, self.request = data, request
        self.pool = ThreadPoolExecutor(4)

    def __len__(self) -> int:
        return ceil(len(self.data) / self.request.batch_size)

    def __iter__(self) -> Iterator[Any]:
        places = np.random.default_rng(self.request.seed).permutation(len(self.data))
        size = self.request.batch_size
        ahead: list[Any] = []
        for start in range(0, len(places), size):
            ahead.append(
                [self.pool.submit(self.data.__getitem__, place) for place in places[start : start + size]]
            )
            if len(ahead) > 2:
                yield default_collate([sample.result() for sample in ahead.pop(0)])
        for batch in ahead:
            yield default_collate([sample.result() for sample in batch])

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown(cancel_futures=True)


@planted
def lock(source: Source, request: Request) -> Loader:
    """Augments in Python, in threads that wait for each other's lock."""

    class Augmented(Plain):
        def transform(self, image: Tensor) -> Tensor:
            burn_in_python(SAMPLE_S)
            return image

    return Threads(Augmented(source), request)


class Without:
    """Batches without what else came with them."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return ((images, labels) for images, labels, _ in self.batches)


PAYLOAD = bytes(24 * 2**20)


@planted
def queue(source: Source, request: Request) -> Loader:
    """Sends far more through the workers' queue than training needs."""

    def with_payload(samples: list[Sample]) -> Any:
        return [*default_collate(samples), PAYLOAD]

    return Without(loaded(Plain(source), request, collate_fn=with_payload))


@planted
def transfer(source: Source, request: Request) -> Loader:
    """Hands over large images, from memory."""
    images = torch.zeros(request.batch_size, 3, 224, 224)

    class Large:
        def __len__(self) -> int:
            return ceil(len(source) / request.batch_size)

        def __iter__(self) -> Iterator[Any]:
            left = len(source)
            while left > 0:
                size = min(left, request.batch_size)
                yield images[:size], torch.zeros(size, dtype=torch.int64)
                left -= size

    return Large()


@planted
def restart(source: Source, request: Request) -> Loader:
    """Starts its workers anew at each epoch, which takes them a while."""
    return loaded(Plain(source), request, persistent_workers=False, worker_init_fn=lambda _: time.sleep(0.25))


@planted
def straggler(source: Source, request: Request) -> Loader:
    """Has one worker that is slower than the others."""

    class Unlucky(Plain):
        def read(self, _place: int) -> None:
            info = get_worker_info()
            if info and info.id == 0:
                time.sleep(2 * SAMPLE_S)

    return loaded(Unlucky(source), request)


@planted
def every_eighth(source: Source, request: Request) -> Loader:
    """Needs much longer for one batch in eight, as when it opens the next file."""
    batches = iter(range(10**9))

    def opens_a_file(samples: list[Sample]) -> Any:
        if next(batches) % 8 == 7:
            time.sleep(5 * BATCH_S)
        return default_collate(samples)

    return loaded(Plain(source), request, collate_fn=opens_a_file)


@planted
def threads(source: Source, request: Request) -> Loader:
    """Computes with far more threads than there are cores."""
    torch.set_num_threads(32)
    large = torch.rand(2**16)

    class Parallel(Plain):
        def transform(self, image: Tensor) -> Tensor:
            large.mul(0.5).add_(1.0)
            return image

    return loaded(Parallel(source), request)


@planted
def nothing(source: Source, request: Request) -> Loader:
    """Has no bottleneck: it is just a little faster than the device."""
    images, labels = source.arrays()
    ready = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255

    class Balanced:
        def __len__(self) -> int:
            return ceil(len(source) / request.batch_size)

        def __iter__(self) -> Iterator[Any]:
            for start in range(0, len(source), request.batch_size):
                time.sleep(BALANCED_S)
                end = start + request.batch_size
                yield ready[start:end], torch.from_numpy(labels[start:end]).long()

    return Balanced()


@planted
def memory(source: Source, request: Request) -> Loader:
    """Has everything in memory: whatever the device needs, it does not wait for this."""
    return loaded(Plain(source), request)
