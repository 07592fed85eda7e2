"""What the adapters have in common: their options, the order of an epoch, and its end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from loaderproof.loaders.contract import Request

if TYPE_CHECKING:
    from torch import Tensor

Batch: TypeAlias = "tuple[Tensor, Tensor]"
Pick: TypeAlias = "Callable[[Tensor], Batch]"
Options = TypeVar("Options")


def options_of(kind: type[Options], request: Request) -> Options:
    """Return a request's options as the dataclass that an adapter keeps them in.

    Raises:
        ValueError: there is no such option.
    """
    known = [field.name for field in fields(cast("Any", kind))]
    unknown = [name for name in request.options if name not in known]
    if unknown:
        msg = f"no option {', '.join(map(repr, unknown))} here; there is {', '.join(known) or 'none'}"
        raise ValueError(msg)
    return cast("Options", cast("Any", kind)(**request.options))


def number_of_batches(samples: int, request: Request) -> int:
    """Return how many batches an epoch of so many samples has."""
    full, rest = divmod(samples, request.batch_size)
    return full + (rest > 0 and not request.drop_last)


class Order:
    """The order of the samples, each epoch another one if they are shuffled.

    The seed and the number of epochs begun decide it, whether those epochs were read to their
    end or not. To a DataLoader it is a sampler.

    Args:
        samples: how many there are.
        request: says whether to shuffle, and the seed.
    """

    def __init__(self, samples: int, request: Request) -> None:
        import torch

        self._samples = samples
        self._generator = torch.Generator().manual_seed(request.seed) if request.shuffle else None

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Iterator[int]:
        return iter(self.next_epoch().tolist())

    def next_epoch(self) -> Tensor:
        """Return the places in the source of all samples (int64, N), in the order of a new epoch."""
        import torch

        if self._generator is None:
            return torch.arange(self._samples)
        return torch.randperm(self._samples, generator=self._generator)


class IndexedLoader:
    """Batches that are picked out by index.

    Args:
        samples: how many there are.
        pick: takes places in the source (int64, N) and returns the batch, in memory of its own.
        request: says how to batch and shuffle.
    """

    def __init__(self, samples: int, pick: Pick, request: Request) -> None:
        self._order = Order(samples, request)
        self._pick = pick
        self._batch_size = request.batch_size
        self._length = number_of_batches(samples, request)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        order, size = self._order.next_epoch(), self._batch_size
        return (self._pick(order[start : start + size]) for start in range(0, self._length * size, size))


class ClosingLoader:
    """Epochs over an iterable that keeps threads or processes for as long as it is referred to.

    Args:
        batches: gives an epoch each time that it is iterated.
        samples: how many there are.
        request: says how to batch.
    """

    def __init__(self, batches: Iterable[Batch], samples: int, request: Request) -> None:
        self._batches = batches
        self._length = number_of_batches(samples, request)
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        epoch = self._epoch(self._batches)
        self._begun.add(epoch)
        return epoch

    def close(self) -> None:
        """End the epochs that are still going on, and let go of what they were read from."""
        for epoch in list(self._begun):
            epoch.close()
        self._batches = ()

    @staticmethod
    def _epoch(batches: Iterable[Batch]) -> Iterator[Batch]:
        yield from batches
