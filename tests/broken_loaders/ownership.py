"""Loaders that hand out memory that is not the consumer's, or touch what is not theirs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from honest import DATA, NO_WORKERS, Honest, Samples, fails
from torch import Tensor
from torch.utils.data import DataLoader

from loaderproof.loaders import Loader, Promise, Request, Source

Batch = tuple[Tensor, Tensor]

STAY = "test_batches_stay_as_handed_out"
OWNED = "test_batches_are_writable_and_owned"
RANDOM = "test_global_random_state_is_untouched"


@fails(STAY, OWNED, rows=["G1"])
class OneBuffer(Honest):
    """Fills the same tensor again for each batch."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        height, width, channels = source.image_shape
        self.buffer = torch.empty(request.batch_size, channels, height, width)

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        return self.buffer[: len(places)].copy_(images), labels


@fails(STAY, OWNED, rows=["G1"])
class LabelBuffer(Honest):
    """Fills the same labels again for each batch."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.buffer = torch.empty(request.batch_size, dtype=torch.int64)

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        return images, self.buffer[: len(places)].copy_(labels)


@fails(STAY, rows=["G1"])
class BuffersOfTheEpoch(Honest):
    """Has a buffer for each batch of an epoch, and fills them again in the next."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.buffers: list[Batch] = []

    def __iter__(self) -> Iterator[Batch]:
        for turn, batch in enumerate(super().__iter__()):
            self.buffers += [batch] if turn == len(self.buffers) else []
            yield tuple(old.copy_(new) for old, new in zip(self.buffers[turn], batch, strict=True))


@fails(STAY)
class ClearedAfterUse(Honest):
    """Clears a batch when the next is asked for."""

    def __iter__(self) -> Iterator[Batch]:
        for images, labels in super().__iter__():
            yield images, labels
            images.zero_()


@fails(OWNED, rows=["G2"])
class ReadOnlyLabels(Honest):
    """Labels lie in the bytes that were read."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        return images, torch.frombuffer(labels.numpy().tobytes(), dtype=torch.int64)


@fails(OWNED, rows=["G2"])
class ReadOnlyImages(Honest):
    """Images lie in an array that is not writable."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        array = images.numpy()
        array.setflags(write=False)
        return torch.from_numpy(array), labels


@fails(OWNED)
class Inference(Honest):
    """Batches are made in inference mode, which forbids to change them."""

    def batch(self, places: list[int]) -> Batch:
        with torch.inference_mode():
            return super().batch(places)


@fails(OWNED, rows=["G3"])
class ViewsOfACache(Honest):
    """Batches are slices of what the loader keeps."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.kept = super().batch(list(range(len(source))))

    def batch(self, places: list[int]) -> Batch:
        if self.request.shuffle:
            return super().batch(places)
        return tuple(kept[places[0] : places[-1] + 1] for kept in self.kept)


@fails(OWNED, rows=["G3"], image_dtype="uint8")
class ViewsOfTheSource(Honest):
    """Batches are slices of the source's own memory."""

    def batch(self, places: list[int]) -> Batch:
        _, labels = super().batch(places)
        images = self.source[places[0]][0].base.reshape(-1, *self.source.image_shape)
        chosen = images[places] if self.request.shuffle else images[places[0] : places[-1] + 1]
        return torch.from_numpy(chosen).permute(0, 3, 1, 2), labels


@fails("test_source_stays_unchanged", "test_range", "test_values", DATA, rows=["A5"])
class BrighterInPlace(Honest):
    """Makes images brighter where they lie, each time that they are read."""

    def image(self, pixels: np.ndarray) -> Tensor:
        np.maximum(pixels, 1, out=pixels)
        return super().image(pixels)


@fails("test_source_stays_unchanged")
class MedianInPlace(Honest):
    """Looks for the median of each image once by sorting its values where they lie."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.read = [Honest.sample(self, place) for place in range(len(source))]
        for pixels, _ in source:
            pixels.reshape(-1).sort()

    def sample(self, place: int) -> tuple[Tensor, int]:
        return self.read[place]


@fails(RANDOM)
class ShufflesWithRandom(Honest):
    """Shuffles with the generator of the module random, which it seeds."""

    def permutation(self) -> list[int]:
        random.seed(self.request.seed + 1_000 * self.epoch)
        return random.sample(range(len(self.source)), len(self.source))


@fails(RANDOM)
class SeedsNumpy(Honest):
    """Seeds NumPy's global generator when it is opened."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        np.random.seed(request.seed)  # noqa: NPY002  # that is the fault


@fails(RANDOM, promises=NO_WORKERS - {Promise.SEEDED_ORDER})
def bare_dataloader(source: Source, request: Request) -> Loader:
    """Is a DataLoader without a generator of its own, which draws from torch's."""
    return DataLoader(
        Samples(Honest(source, request)),  # type: ignore[arg-type]
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        drop_last=request.drop_last,
    )


@fails(OWNED, rows=["G3"])
class ViewsOfLabels(Honest):
    """Images are the consumer's own, and labels are slices of what the loader keeps."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.kept = torch.from_numpy(source.arrays()[1])

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        return images, labels if self.request.shuffle else self.kept[places[0] : places[-1] + 1]
