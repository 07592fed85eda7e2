"""Loaders that are right, or wrong in one plain way, each described in a way of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from loaderproof.loaders import Deviation, Loader, Promise, Request, Source, Variant, promised
from loaderproof.loaders.function import adapter

ISSUE = "https://example.org/issues/1"
NO_WORKERS = promised(Promise.WORKERS, Promise.SHARDING, Promise.RESUMING, Promise.AUGMENTATION)


class Right:
    """A DataLoader in this process, which can be told to be slow or to be off in its length."""

    def __init__(self, source: Source, request: Request) -> None:
        self.request = request
        samples: Any = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
        self.loader: DataLoader[Any] = DataLoader(
            samples,
            batch_size=request.batch_size,
            shuffle=request.shuffle,
            drop_last=request.drop_last,
            generator=torch.Generator().manual_seed(request.seed),
        )

    def __len__(self) -> int:
        return len(self.loader) + int(str(self.request.options.get("too_long", 0)))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        pause_s = float(os.environ.get("PAUSE_S", "0"))
        for batch in self.loader:
            time.sleep(pause_s)
            yield batch


@adapter(promises=NO_WORKERS)
def right(source: Source, request: Request) -> Loader:
    """Break nothing; write down that it was opened, and in which process."""
    if "NOTE" in os.environ:
        Path(os.environ["NOTE"]).write_text(str(os.getpid()))
    return Right(source, request)


@adapter(promises=NO_WORKERS - {Promise.SHUFFLE, Promise.DROP_LAST})
def modest(source: Source, request: Request) -> Loader:
    """Promise less."""
    return Right(source, request)


@adapter(
    promises=NO_WORKERS,
    variants={"": Variant(), "long": Variant(options={"too_long": 1})},
    deviations=[Deviation("test_len_counts_batches", "one too many", ISSUE, variants=("long",))],
)
def deviating(source: Source, request: Request) -> Loader:
    """Know one failure, of one variant."""
    return Right(source, request)


@adapter(promises=NO_WORKERS, deviations=[Deviation("test_len_counts_batches", "mended since", ISSUE)])
def stale(source: Source, request: Request) -> Loader:
    """Declare a failure that there is not."""
    return Right(source, request)


@adapter(promises=NO_WORKERS, deviations=[Deviation("test_len_counts_batch", "who knows", ISSUE)])
def misspelt(source: Source, request: Request) -> Loader:
    """Declare a failure of a test that there is not."""
    return Right(source, request)


@adapter(
    promises=NO_WORKERS,
    deviations=[Deviation("test_len_counts_batches", "who knows", ISSUE, variants=("short",))],
)
def of_no_variant(source: Source, request: Request) -> Loader:
    """Declare a failure of a variant that there is not."""
    return Right(source, request)


@adapter(promises=NO_WORKERS)
def crashing(source: Source, request: Request) -> Loader:
    """End the process where single samples are asked for."""
    if request.batch_size == 1:
        os._exit(3)
    return Right(source, request)


def dying(source: Source, request: Request) -> Loader:
    """End the process of whoever opens it, and say nothing of itself."""
    os._exit(4)


@adapter(name="my [own] loader", promises=NO_WORKERS)
def oddly_named(source: Source, request: Request) -> Loader:
    """Have no length, and a name that is no word."""
    return iter([])


@adapter(promises=NO_WORKERS, requires=["no_such_library"])
def needy(source: Source, request: Request) -> Loader:
    """Need what is not installed."""
    raise AssertionError
