"""Plain PyTorch, the article's first system: a map-style data set and a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderproof.loaders._augmentation import Augmented, Turn, turns
from loaderproof.loaders._epochs import Order, ResumingLoader
from loaderproof.loaders._requests import options_of
from loaderproof.loaders.contract import (
    ALL_PROMISES,
    Adapter,
    Description,
    Deviation,
    Loader,
    Request,
    Source,
    Tunable,
    Variant,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Options:
    """How the DataLoader is set up.

    Attributes:
        persistent_workers: whether workers live on from one epoch to the next.
        prefetch_factor: batches that each worker loads ahead.
        pin_memory: whether batches lie in pinned memory, as in the article; only where there is CUDA.
        torchvision: whether each sample goes by way of PIL to torchvision's ToTensor, as in
            torchvision's own data sets, instead of straight to a tensor.
    """

    persistent_workers: bool = False
    prefetch_factor: int = 2
    pin_memory: bool = True
    torchvision: bool = False


class TorchDataLoader(Adapter):
    """torch.utils.data.DataLoader over a map-style data set."""

    description = Description(
        name="torch_dataloader",
        summary="torch.utils.data.DataLoader over a map-style data set: the article's plain PyTorch",
        promises=ALL_PROMISES,
        requires=("torch",),
        # Shown by `--loader-soak` alone.
        deviations=(
            Deviation(
                "test_kept_batches_hold_no_descriptors",
                "PyTorch shares tensors of workers by file descriptors, one for each, as long as they live",
                "https://github.com/pytorch/pytorch/issues/973",
                min_workers=1,
            ),
        ),
        variants={"": Variant(), "persistent": Variant(options={"persistent_workers": True}, min_workers=1)},
        uneven=Order.uneven,
        read_ahead=Options.prefetch_factor,
        tunable={
            "persistent_workers": Tunable(values=(True,), min_workers=1),
            "prefetch_factor": Tunable(values=(4, 8), min_workers=1),
            "pin_memory": Tunable(values=(False,), cuda=True),
        },
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return a DataLoader over the source itself."""
        import torch
        from torch.utils.data import DataLoader

        options = options_of(Options, request)
        samples: Any = Samples(source, by_torchvision if options.torchvision else to_tensor)
        order = Order(len(source), request)
        sampler = Sampler(order, request)
        data: Any = Augmented(samples, request.seed) if request.augment else samples
        batches: DataLoader[Any] = DataLoader(
            data,
            batch_size=request.batch_size,
            sampler=sampler,
            drop_last=request.drop_last,
            num_workers=request.num_workers,
            pin_memory=options.pin_memory and torch.cuda.is_available(),  # without CUDA torch warns
            # Decides the workers' seeds; without one of its own it would draw from torch's global one.
            generator=torch.Generator().manual_seed(request.seed),
            **(_ahead(options) if request.num_workers else {}),
        )

        passes = OneAtATime(batches) if request.num_workers and options.persistent_workers else batches

        def rest(epoch: int, start: int) -> Iterable[Any]:
            sampler.start = epoch, start
            return passes

        return ResumingLoader(rest, len(source), order, request)


def _ahead(options: Options) -> dict[str, Any]:
    """Return the settings that a DataLoader without workers refuses."""
    return {"persistent_workers": options.persistent_workers, "prefetch_factor": options.prefetch_factor}


class OneAtATime:
    """Passes over a DataLoader with persistent workers, which a new pass takes from the one before.

    A DataLoader lets the earlier pass go on then, with whatever batches the later one leaves it.

    Args:
        batches: the DataLoader.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self._latest: object = None

    def __iter__(self) -> Iterator[Any]:
        this = self._latest = object()
        for batch in self._batches:
            yield batch
            if self._latest is not this:
                msg = (
                    "another pass has begun, and persistent workers serve one at a time:"
                    " end this one before, or open the loader with persistent_workers=False"
                )
                raise RuntimeError(msg)


class Sampler:
    """What a DataLoader samples.

    It stands for DistributedSampler, whose order is that of seed + epoch (so that one seed's second
    epoch is the next seed's first), and which always begins with the first sample of an epoch.

    Args:
        order: of this rank's samples.
        request: says how to batch, and whether samples will be augmented.

    Attributes:
        start: the epoch that the next pass is of, and the number of its batches to leave out.
    """

    def __init__(self, order: Order, request: Request) -> None:
        self.start = 0, 0
        self._order, self._request = order, request

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[int | Turn]:
        epoch, batch = self.start
        places, done = self._order.epoch(epoch), batch * self._request.batch_size
        if not self._request.augment:
            return iter(places[done:].tolist())
        return turns(places[done:], epoch, self._order.turns()[done:])


class Samples:
    """The samples of a source as tensors.

    Args:
        source: the samples.
        convert: turns an image (uint8, HWC) into a tensor (float32, CHW) in [0, 1].
    """

    def __init__(self, source: Source, convert: Callable[[np.ndarray], Tensor]) -> None:
        self._source = source
        self._convert = convert

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        try:
            image, label = self._source[index]
        except StopIteration as error:  # would end the epoch in silence, as a DataLoader is an iterator
            msg = f"sample {index} raised StopIteration: {error}"
            raise RuntimeError(msg) from error
        return self._convert(image), label


def to_tensor(image: np.ndarray) -> Tensor:
    """Return what torchvision's ToTensor gives for the same image, without PIL and torchvision."""
    import torch

    return torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32, order="C")).div_(255)


def by_torchvision(image: np.ndarray) -> Tensor:
    """Return what torchvision's ToTensor gives for a PIL image, at what that costs."""
    from PIL import Image
    from torchvision.transforms.functional import to_tensor as converted

    tensor: Tensor = converted(Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image))
    return tensor
