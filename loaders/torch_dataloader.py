"""Plain PyTorch, the article's first system: a map-style data set and a DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderproof.loaders._epochs import ClosingLoader, Order, options_of
from loaderproof.loaders.contract import (
    Adapter,
    Description,
    Loader,
    Promise,
    Request,
    Source,
    Variant,
    promised,
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
        promises=promised(Promise.SHARDING, Promise.RESUMING, Promise.AUGMENTATION),
        requires=("torch",),
        variants={"": Variant(), "persistent": Variant(options={"persistent_workers": True}, min_workers=1)},
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return a DataLoader over the source itself."""
        import torch
        from torch.utils.data import DataLoader

        options = options_of(Options, request)
        ahead = {
            "persistent_workers": options.persistent_workers,
            "prefetch_factor": options.prefetch_factor,
        }
        batches: DataLoader[Any] = DataLoader(
            Samples(source, by_torchvision if options.torchvision else to_tensor),  # type: ignore[arg-type]  # a data set is whatever has len and indices
            batch_size=request.batch_size,
            sampler=Order(len(source), request),
            drop_last=request.drop_last,
            num_workers=request.num_workers,
            pin_memory=options.pin_memory and torch.cuda.is_available(),  # without CUDA torch warns
            # Decides the workers' seeds; without one of its own it would draw from torch's global one.
            generator=torch.Generator().manual_seed(request.seed),
            **(ahead if request.num_workers else {}),  # type: ignore[arg-type]  # refused without workers
        )
        return ClosingLoader(batches, len(source), request)


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
        image, label = self._source[index]
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
