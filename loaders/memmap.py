"""All samples in one file, mapped into memory and read batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from loaderproof.loaders._epochs import IndexedLoader, options_of
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
    """Which file is read.

    Attributes:
        file: `npy` for NumPy's format, `pt` for PyTorch's; the same bytes in both.
    """

    file: Literal["npy", "pt"] = "npy"


class Memmap(Adapter):
    """A .npy or .pt file, mapped into memory."""

    description = Description(
        name="memmap",
        summary="uint8 images in one .npy or .pt file, mapped into memory",
        promises=promised(Promise.WORKERS),
        requires=("torch",),
        variants={"": Variant(), "pt": Variant(options={"file": "pt"})},
        on_disk="memmap-1",
    )

    def prepare(self, source: Source, directory: Path) -> None:
        """Write images (uint8, NHWC) and labels (int64, N) once as .npy and once as .pt."""
        import torch

        images = np.lib.format.open_memmap(
            directory / "images.npy", "w+", np.uint8, (len(source), *source.image_shape)
        )
        labels = np.empty(len(source), np.int64)
        for place, (image, label) in enumerate(source):
            images[place], labels[place] = image, label
        images.flush()
        np.save(directory / "labels.npy", labels)
        both = {"images": torch.from_numpy(images), "labels": torch.from_numpy(labels)}
        torch.save(both, directory / "samples.pt")

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return a loader that reads each batch from the file when it is asked for."""
        pick = _PICK[options_of(Options, request).file](directory)
        return IndexedLoader(len(source), pick, request)


def _from_npy(directory: Path) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    import torch

    images = np.load(directory / "images.npy", mmap_mode="r")
    labels = np.load(directory / "labels.npy")

    def pick(places: Tensor) -> tuple[Tensor, Tensor]:
        chosen = places.numpy()
        return _as_floats(torch.from_numpy(images[chosen])), torch.from_numpy(labels[chosen])

    return pick


def _from_pt(directory: Path) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    import torch

    both = torch.load(directory / "samples.pt", mmap=True, weights_only=True)
    images, labels = both["images"], both["labels"]

    def pick(places: Tensor) -> tuple[Tensor, Tensor]:
        return _as_floats(images.index_select(0, places)), labels.index_select(0, places)

    return pick


def _as_floats(images: Tensor) -> Tensor:
    """Return images (uint8, NHWC) as float32, NCHW, in [0, 1]."""
    import torch

    nchw = images.permute(0, 3, 1, 2)
    return nchw.to(torch.float32, memory_format=torch.contiguous_format).div_(255)


_PICK = {"npy": _from_npy, "pt": _from_pt}
