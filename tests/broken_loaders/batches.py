"""Loaders whose batches look wrong or hold something wrong."""

from __future__ import annotations

import numpy as np
import torch
from honest import DATA, WITH_WORKERS, Honest, fails
from torch import Tensor

from loaderproof.loaders import Promise


@fails("test_shapes", DATA)
class ChannelsLast(Honest):
    """Images come as (N, H, W, C): the permute is missing."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return torch.from_numpy(pixels) / 255


@fails("test_shapes", "test_layout", DATA)
class SidesSwapped(Honest):
    """Images come as (N, C, W, H)."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels).transpose(1, 2)


@fails("test_shapes")
class LabelColumn(Honest):
    """Labels come as (N, 1)."""

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return images, labels.unsqueeze(1)


@fails("test_shapes")
class GreySqueezed(Honest):
    """Images of one channel lose it."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels).squeeze(0)


@fails("test_shapes")
class SingleSqueezed(Honest):
    """A batch of one sample loses its first dimension."""

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return (images, labels) if len(places) > 1 else (images[0], labels[0])


@fails("test_shapes", rows=["C22"])
class EmptyBatch(Honest):
    """An empty batch comes at the end."""

    def batches(self, places: list[int]) -> list[list[int]]:
        return [*super().batches(places), []]

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places or [0])
        return images[: len(places)], labels[: len(places)]


@fails("test_dtypes", rows=["E1"])
class Float64(Honest):
    """Images become float64, as Python's floats do."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return torch.from_numpy(pixels.transpose(2, 0, 1) / 255)


@fails("test_dtypes")
class Int32Labels(Honest):
    """Labels are left in the 32 bits of a file format."""

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return images, labels.to(torch.int32)


@fails("test_dtypes", "test_labels_belong_to_their_samples", DATA, rows=["E4"])
class ByteLabels(Honest):
    """Labels are kept in 8 bits and come so."""

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return images, labels.to(torch.uint8)


@fails("test_dtypes", "test_range")
class RawBytes(Honest):
    """Images come as uint8 from 0 to 255, though nothing of the kind is declared."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return torch.from_numpy(pixels).permute(2, 0, 1)


@fails("test_range", "test_values", DATA, rows=["E6"])
class Unscaled(Honest):
    """Values run from 0 to 255: only uint8 images would have been scaled."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels) * 255


@fails("test_range", "test_values", DATA)
class ScaledTwice(Honest):
    """Values are divided by 255 twice."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels) / 255


@fails("test_range", "test_values", DATA)
class ScaledBy256(Honest):
    """Values are divided by 256, so that white comes out grey."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels) * 255 / 256


@fails("test_range", "test_values", DATA)
class Normalised(Honest):
    """Values run from -1 to 1."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels) * 2 - 1


@fails("test_range", "test_values", DATA)
class NormalisedByChannel(Honest):
    """A mean and a deviation of each channel are taken off, as for ImageNet."""

    def image(self, pixels: np.ndarray) -> Tensor:
        mean, deviation = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
        image = super().image(pixels)
        return (image - mean[: len(image), None, None]) / deviation[: len(image), None, None]


@fails("test_range", "test_values", DATA)
class NotANumber(Honest):
    """One value is NaN."""

    def image(self, pixels: np.ndarray) -> Tensor:
        image = super().image(pixels)
        image[0, 0, 0] = torch.nan
        return image


@fails("test_values", rows=["E2"])
class ThroughHalf(Honest):
    """Values pass through 16 bits, and nothing says so."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels).half().float()


@fails("test_values", DATA)
class Coarse(Honest):
    """Values are rounded to 32 steps by a lossy format, and nothing says so."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return (super().image(pixels) * 32).round() / 32


@fails("test_layout", DATA, rows=["E7"])
class ReshapedNotPermuted(Honest):
    """The shape is right, but got by reshape: pixels of all channels are mixed up."""

    def image(self, pixels: np.ndarray) -> Tensor:
        height, width, channels = pixels.shape
        return torch.from_numpy(pixels).reshape(channels, height, width) / 255


@fails("test_layout", DATA)
class ChannelsSwapped(Honest):
    """Red and blue change places, as with OpenCV."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels).flip(0)


@fails("test_layout", DATA)
class Mirrored(Honest):
    """Left and right change places."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return super().image(pixels).flip(2)


@fails("test_layout", rows=["E7"])
class TransposedIfSquare(Honest):
    """Rows and columns change places, which no shape shows where there are as many of each."""

    def image(self, pixels: np.ndarray) -> Tensor:
        image = super().image(pixels)
        return image.transpose(1, 2) if pixels.shape[0] == pixels.shape[1] else image


@fails("test_values")
class StretchedToItsRange(Honest):
    """Each image is stretched until it holds both black and white."""

    def image(self, pixels: np.ndarray) -> Tensor:
        image = super().image(pixels)
        low, high = torch.aminmax(image)
        return (image - low) / (high - low)


@fails()
class DividedByTheRangeOfItsType(Honest):
    """Each image is divided by what its type can hold, whatever it does hold."""

    def image(self, pixels: np.ndarray) -> Tensor:
        return torch.from_numpy(pixels).permute(2, 0, 1) / np.iinfo(pixels.dtype).max


@fails("test_labels_belong_to_their_samples", DATA)
class LabelsOffByOne(Honest):
    """Each sample has the label of the next."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        return super().sample(place)[0], super().sample((place + 1) % len(self.source))[1]


@fails("test_labels_belong_to_their_samples", DATA, rows=["F1"])
class LabelsListedApart(Honest):
    """Images and labels are paired by their place in two listings of different order."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        listing = sorted(range(len(self.source)), key=str)
        return super().sample(place)[0], super().sample(listing[place])[1]


@fails("test_labels_belong_to_their_samples", DATA)
class LabelsNotShuffled(Honest):
    """Images are shuffled, labels are not."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.images = super().permutation() if self.request.shuffle else super().order()

    def sample(self, place: int) -> tuple[Tensor, int]:
        return super().sample(place)[0], super().sample(self.images[place])[1]


@fails("test_labels_belong_to_their_samples", DATA, rows=["E4"])
class LabelsCut(Honest):
    """Labels pass through 8 bits."""

    def label(self, label: int) -> int:
        return label % 256


@fails("test_labels_belong_to_their_samples", DATA, rows=["F3"])
class ClassesSortedAsText(Honest):
    """Class 100 comes before class 2, as folders do."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.classes = sorted(map(str, range(self.source.num_classes)))

    def label(self, label: int) -> int:
        return self.classes.index(str(label))


@fails(
    "test_workers_change_no_content",
    "test_every_sample_once",
    DATA,
    rows=["C1"],
    promises=WITH_WORKERS - {Promise.LENGTH, Promise.DROP_LAST},
)
class CopyInEachWorker(Honest):
    """Each worker reads everything."""

    def order(self) -> list[int]:
        return [place for place in super().order() for _ in range(max(1, self.request.num_workers))]


@fails(
    "test_workers_change_no_content",
    "test_every_sample_once",
    DATA,
    rows=["C19"],
    promises=WITH_WORKERS - {Promise.LENGTH, Promise.DROP_LAST},
)
class OneWorkerWorks(Honest):
    """The first worker reads its share, the others read nothing."""

    def order(self) -> list[int]:
        return super().order()[:: max(1, self.request.num_workers)]


@fails(
    "test_workers_change_no_content",
    "test_labels_belong_to_their_samples",
    DATA,
    rows=["H11"],
    promises=WITH_WORKERS,
)
class WorkersShareAFile(Honest):
    """Workers share one position in the file of labels, so each reads what the other was to read."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        beside = (place + 1) % len(self.source) if self.request.num_workers else place
        return super().sample(place)[0], super().sample(beside)[1]


@fails("test_labels_belong_to_their_samples")
class LabelsReversedIfTheRestIsDropped(Honest):
    """Gives each batch its labels backwards where drop_last is asked for."""

    def batch(self, places: list[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().batch(places)
        return images, labels.flip(0) if self.request.drop_last else labels
