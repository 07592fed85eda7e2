"""Plain PyTorch, the article's first system: a map-style data set and a DataLoader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from loaderproof.loaders._epochs import ClosingLoader, Order, options_of
from loaderproof.loaders.contract import ALL_PROMISES, Adapter, Description, Loader, Request, Source, Variant

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Options:
    """How the DataLoader is set up.

    Attributes:
        persistent_workers: whether workers live on from one epoch to the next.
        prefetch_factor: batches that each worker loads ahead.
        pin_memory: whether batches lie in pinned memory, as in the article; only where there is CUDA.
    """

    persistent_workers: bool = False
    prefetch_factor: int = 2
    pin_memory: bool = True


class TorchDataLoader(Adapter):
    """torch.utils.data.DataLoader over a map-style data set."""

    description = Description(
        name="torch_dataloader",
        summary="torch.utils.data.DataLoader over a map-style data set: the article's plain PyTorch",
        promises=ALL_PROMISES,
        requires=("torch",),
        variants={"": Variant(), "persistent": Variant(options={"persistent_workers": True})},
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
        batches = DataLoader(
            Samples(source),  # type: ignore[arg-type]  # a data set is whatever has len and indices
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
    """The samples of a source as torchvision's ToTensor gives them: float32, CHW, in [0, 1]."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        import torch

        image, label = self._source[index]
        chw = image.transpose(2, 0, 1).astype(np.float32, order="C")
        return torch.from_numpy(chw).div_(255), label
