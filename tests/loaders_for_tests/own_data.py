"""A person's own data, and loaders over it: right ones, and some that are wrong in one plain way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from loaderproof.loaders import Request, Source
from loaderproof.loaders.function import adapter

COUNT, SHAPE = 90, (9, 14, 3)


class Pictures:
    """A map-style data set as people write them, which holds some samples more than once.

    Images are uint8, height x width x channels; 0 to 9 come again as 80 to 89, the last five of them with
    another label.
    """

    classes = tuple("abcdefghijkl")

    def __init__(self, split: str = "train") -> None:
        generator = np.random.default_rng({"train": 1, "test": 2}[split])
        self.images = generator.integers(0, 256, (COUNT, *SHAPE), np.uint8)
        self.labels = generator.integers(0, 10, COUNT)
        self.images[-10:], self.labels[-10:-5] = self.images[:10], self.labels[:5]
        self.labels[-5:] = (self.labels[5:10] + 1) % 10

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.images[index], int(self.labels[index])


pictures = Pictures()
nothing = 3


class Tensors:
    """The same as most training scripts have it: float32 CHW in [0, 1], changed by somebody or not."""

    def __init__(self, data: Any = pictures) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        image, label = self.data[index]
        return torch.from_numpy(image).permute(2, 0, 1) / 255, label


def right(request: Request) -> DataLoader[Any]:
    """Heed most of the request."""
    return of(Tensors(), request)


def of(data: Any, request: Request, **more: Any) -> DataLoader[Any]:
    """Return a DataLoader that heeds most of the request."""
    return DataLoader(
        data,
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        num_workers=request.num_workers,
        drop_last=request.drop_last,
        generator=torch.Generator().manual_seed(request.seed),
        **more,
    )


def split_wise(request: Request) -> DataLoader[Any]:
    """Heed the split, too."""
    return of(Tensors(Pictures(request.split)), request)


def heedless(request: Request) -> DataLoader[Any]:
    """Read nothing of the request: batches of one size, always shuffled."""
    return DataLoader(Tensors(), batch_size=16, shuffle=True)  # type: ignore[arg-type]  # of map style


class Normalised(Tensors):
    """Values around 0, as networks like them."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return (image - 0.45) / 0.22, label


def normalised(request: Request) -> DataLoader[Any]:
    """Deliver values outside of [0, 1]."""
    return of(Normalised(), request)


def noise_of(index: int) -> Tensor:
    """Return what a lossy format does to a sample: the same each time."""
    return torch.rand((3, *SHAPE[:2]), generator=torch.Generator().manual_seed(index)) * 0.5 - 0.25


class Lossy(Tensors):
    """Values far from the truth."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return (image + noise_of(index)).clamp(0, 1), label, {"id": index}


@adapter(tolerance=0.26)
def lossy_with_ids(request: Request) -> DataLoader[Any]:
    """Change values so much that only its ids tell which sample is which."""
    return of(Lossy(), request)


class Small(Tensors):
    """Images of half the size."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image[:, ::2, ::2], label, {"id": index}


@adapter(tolerance=0.01)
def resized_with_ids(request: Request) -> DataLoader[Any]:
    """Deliver images of another size than the truth's."""
    return of(Small(), request)


def lossy_over_source(source: Source, request: Request) -> DataLoader[Any]:
    """Change the values of samples that the suite made, and carry their ids."""
    return of(LossySource(source), request)


class LossySource(Tensors):
    """Noise on each sample, and its id."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        noise = torch.rand(image.shape, generator=torch.Generator().manual_seed(index)) * 0.5 - 0.25
        return (image + noise).clamp(0, 1), label, {"id": index}


adapter(tolerance=0.26)(lossy_over_source)


# Wrong in one way each.


class Shifted(Tensors):
    """Labels of the neighbour."""

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, self.data[(index + 1) % len(self.data)][1]


def label_off_by_one(request: Request) -> DataLoader[Any]:
    """Give each image the next one's label, in each epoch the same."""
    return of(Shifted(), request)


class Dark(Tensors):
    """Values of half their size."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image / 2, label


def half_as_bright(request: Request) -> DataLoader[Any]:
    """Scale values wrongly, in each epoch alike."""
    return of(Dark(), request)


class Flipping(Tensors):
    """Random augmentation that nobody asked for."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image + torch.rand(1), label


def always_augmenting(request: Request) -> DataLoader[Any]:
    """Change samples at random and carry no ids."""
    return of(Flipping(), request)


class Shards(IterableDataset[Any]):
    """Each worker leaves out the last of its samples."""

    def __iter__(self) -> Iterator[Any]:
        worker, data = get_worker_info(), Tensors()
        places = (
            range(len(data))
            if worker is None
            else range(worker.id, len(data) - worker.num_workers, worker.num_workers)
        )
        return (data[index] for index in places)


def losing_with_workers(request: Request) -> Iterator[Any]:
    """Lose a sample for each worker."""
    return DataLoader(Shards(), batch_size=request.batch_size, num_workers=request.num_workers)  # type: ignore[return-value]


class Forgetful:
    """A loader whose second epoch has one sample less."""

    def __init__(self, request: Request) -> None:
        self.request, self.epochs = request, 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        data, places = Tensors(), list(range(COUNT))
        del places[40 : 40 + min(self.epochs, 1)]
        self.epochs += 1
        yield from DataLoader(data, batch_size=self.request.batch_size, sampler=places)  # type: ignore[arg-type]


def forgetful(request: Request) -> Forgetful:
    """Leave out a sample in every epoch but the first."""
    return Forgetful(request)
