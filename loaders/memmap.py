"""All samples in one file, mapped into memory and read batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from loaderproof.loaders._epochs import Order
from loaderproof.loaders._indexed import INDEXED, IndexedAdapter, Pair, Pick
from loaderproof.loaders._requests import options_of
from loaderproof.loaders.contract import Description, Request, Source, Tunable, Variant

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Options:
    """Which file is read.

    Attributes:
        file: `npy` for NumPy's format, `pt` for PyTorch's; the same bytes in both.
    """

    file: Literal["npy", "pt"] = "npy"


class Memmap(IndexedAdapter):
    """A .npy or .pt file, mapped into memory."""

    description = Description(
        name="memmap",
        summary="uint8 images in one .npy or .pt file, mapped into memory",
        promises=INDEXED,
        requires=("torch",),
        variants={"": Variant(), "pt": Variant(options={"file": "pt"})},
        on_disk="memmap-1",
        uneven=Order.uneven,
        read_ahead=0,
        tunable={"file": Tunable(values=("pt",))},
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

    def pick(self, source: Source, directory: Path, request: Request) -> Pick:
        """Read each batch from the file when it is asked for."""
        import torch

        images, labels = _READ[options_of(Options, request).file](directory)

        def pick(places: Tensor) -> Pair:
            chosen = places.numpy()
            # In NumPy, for the reason that `resident` gives.
            nchw = images[chosen].transpose(0, 3, 1, 2).astype(np.float32, order="C")
            nchw /= 255
            return torch.from_numpy(nchw), torch.from_numpy(labels[chosen])

        return pick


def _npy(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.load(directory / "images.npy", mmap_mode="r"), np.load(directory / "labels.npy")


def _pt(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    import torch

    both = torch.load(directory / "samples.pt", mmap=True, weights_only=True)
    return both["images"].numpy(), both["labels"].numpy()


_READ = {"npy": _npy, "pt": _pt}
