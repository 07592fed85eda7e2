"""Adapters that have the samples at hand and pick batches out of them by index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from loaderproof.loaders._epochs import Order, ResumingLoader
from loaderproof.loaders._requests import number_of_batches
from loaderproof.loaders.contract import Adapter, Loader, Promise, Request, Source, promised

if TYPE_CHECKING:
    from torch import Tensor

Pair: TypeAlias = "tuple[Tensor, Tensor]"
Pick: TypeAlias = "Callable[[Tensor], Pair]"

INDEXED = promised(Promise.WORKERS, Promise.AUGMENTATION)


class IndexedAdapter(Adapter):
    """An adapter that is done once it can pick a batch."""

    @abstractmethod
    def pick(self, source: Source, directory: Path, request: Request) -> Pick:
        """Return what takes places in the source (int64, N) and gives a batch, in memory of its own."""

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return a loader that picks each batch when it is asked for."""
        pick = self.pick(source, directory, request)
        order, size = Order(len(source), request), request.batch_size
        end = size * number_of_batches(len(order), request)

        def rest(epoch: int, start: int) -> Iterator[Pair]:
            places = order.epoch(epoch)
            return (pick(places[at : at + size]) for at in range(start * size, end, size))

        return ResumingLoader(rest, len(source), order, request)
