"""What the adapters have in common: the order of an epoch, its end, and going on amid it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from loaderproof.loaders._randomness import Purpose, seeds
from loaderproof.loaders._requests import number_of_batches, share
from loaderproof.loaders._resuming import Position, Progress
from loaderproof.loaders.contract import Request, Uneven

if TYPE_CHECKING:
    from torch import Tensor

    from loaderproof.loaders.contract import Batch

Rest: TypeAlias = "Callable[[int, int], Iterable[Batch]]"


class Order:
    """The order of the samples, each epoch another one if they are shuffled; a rank has its share of it.

    Seed and epoch alone decide it: any epoch is found at once, and all ranks find the same.
    Dealing out comes after the shuffle, so that each epoch brings a rank other samples.

    Args:
        samples: how many there are.
        request: says whether to shuffle, the seed, and the rank.
    """

    uneven = Uneven.PADDED
    """Ranks that wait for each other after each batch need equally many. As torch's own
    DistributedSampler does, the first samples of an epoch fill up the last round."""

    def __init__(self, samples: int, request: Request) -> None:
        self._samples, self._request = samples, request

    def __len__(self) -> int:
        return share(self._samples, self._request, self.uneven)

    def turns(self) -> Tensor:
        """Return when each sample of this rank comes among those of all ranks (int64, its share)."""
        import torch

        return self._request.rank + self._request.world_size * torch.arange(len(self))

    def epoch(self, number: int) -> Tensor:
        """Return the places in the source of this rank's samples (int64, its share)."""
        whole = self._whole(number)
        return whole if self._request.world_size == 1 else whole[self.turns() % max(1, self._samples)]

    def _whole(self, number: int) -> Tensor:
        import torch

        if not self._request.shuffle:
            return torch.arange(self._samples)
        (seed,) = seeds(self._request.seed, Purpose.ORDER, number)
        return torch.randperm(self._samples, generator=torch.Generator().manual_seed(seed))


class ClosingLoader:
    """Epochs over an iterable that keeps threads or processes for as long as it is referred to.

    Args:
        batches: gives an epoch each time that it is iterated.
        samples: how many an epoch has.
        request: says how to batch.
    """

    def __init__(self, batches: Iterable[Batch], samples: int, request: Request) -> None:
        self._batches = batches
        self._length = number_of_batches(samples, request)
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        epoch = self._epoch()
        self._begun.add(epoch)
        return epoch

    def close(self) -> None:
        """End the epochs that are still going on, and let go of what they were read from."""
        for epoch in list(self._begun):
            epoch.close()
        self._batches = ()

    def _epoch(self) -> Iterator[Batch]:
        return _each(self._batches)


class ResumingLoader(ClosingLoader):
    """Epochs that can be left and gone on with, by a loader of the same request in another process.

    Args:
        rest: takes an epoch and a number of batches, and returns those of the epoch behind so many.
        samples: how many there are in the source.
        order: of the samples.
        request: says how to batch.
    """

    def __init__(self, rest: Rest, samples: int, order: Order, request: Request) -> None:
        super().__init__((), len(order), request)
        self._rest = rest
        self._progress = Progress(samples, len(self), request)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; without, each pass is the epoch after the last one begun."""
        self._progress.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return plain data that says how many batches of which epoch were handed out."""
        return self._progress.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass give the rest of the epoch that the state was taken in.

        Raises:
            ValueError: the state does not fit this loader.
        """
        self._progress.load_state_dict(state)

    def close(self) -> None:
        """End the epochs that are still going on, and let go of what they were read from."""
        super().close()
        self._rest = _nothing

    def _epoch(self) -> Iterator[Batch]:
        return _counted(self._rest, self._progress.begin())


def _each(batches: Iterable[Batch]) -> Iterator[Batch]:
    yield from batches


def _counted(rest: Rest, position: Position) -> Iterator[Batch]:
    for batch in rest(position.epoch, position.batch):
        position.batch += 1
        yield batch


def _nothing(epoch: int, start: int) -> Iterable[Batch]:
    del epoch, start
    return ()
