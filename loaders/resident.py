"""All samples as tensors in memory; nothing is left to do but to pick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loaderproof.loaders._epochs import Order
from loaderproof.loaders._indexed import INDEXED, IndexedAdapter, Pair, Pick
from loaderproof.loaders._requests import options_of
from loaderproof.loaders.contract import Description, Request, Source, Tunable, Variant

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Options:
    """Where the tensors lie.

    Attributes:
        on_device: whether in the memory of the CUDA device, where there is one.
    """

    on_device: bool = False


class Resident(IndexedAdapter):
    """Tensors in memory, batches by index."""

    description = Description(
        name="resident",
        summary="all samples as float32 tensors in memory, of the CPU or of the CUDA device",
        promises=INDEXED,
        requires=("torch",),
        variants={"": Variant(), "device": Variant(options={"on_device": True})},
        uneven=Order.uneven,
        tunable={"on_device": Tunable(values=(True,), cuda=True)},
    )

    def pick(self, source: Source, directory: Path, request: Request) -> Pick:
        """Turn the whole source into tensors, and pick from them."""
        import torch

        on_device = options_of(Options, request).on_device and torch.cuda.is_available()
        device = torch.device("cuda" if on_device else "cpu")
        raw, targets = source.arrays()
        chw = torch.from_numpy(raw).permute(0, 3, 1, 2).to(device)
        images = chw.to(torch.float32, memory_format=torch.contiguous_format).div_(255)
        labels = torch.from_numpy(targets).to(device)
        return (_on_device if on_device else _in_memory)(images, labels)


def _on_device(images: Tensor, labels: Tensor) -> Pick:
    def pick(places: Tensor) -> Pair:
        places = places.to(images.device)
        return images.index_select(0, places), labels.index_select(0, places)

    return pick


def _in_memory(images: Tensor, labels: Tensor) -> Pick:
    """Pick with NumPy, which copies rows in this thread.

    torch shares out so few rows among all cores, which takes longer, and very much longer when
    something else keeps the cores busy.
    """
    import torch

    rows, targets = images.numpy(), labels.numpy()

    def pick(places: Tensor) -> Pair:
        chosen = places.numpy()
        return torch.from_numpy(rows.take(chosen, 0)), torch.from_numpy(targets.take(chosen))

    return pick
