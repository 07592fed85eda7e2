"""Random augmentation as one would write it for PyTorch, drawn for each sample by itself.

PyTorch seeds what its workers draw from by their number: draws then depend on how many workers
there are, and what persistent workers draw depends on every epoch before. Here a sample's draws
are a function of the seed, the epoch and the sample's turn in it, whoever draws them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from loaderproof.loaders._randomness import Purpose, seeds

if TYPE_CHECKING:
    from torch import Tensor

BRIGHTNESS = 0.2
NOISE = 0.02


class Turn(NamedTuple):
    """A sample's turn in an epoch; workers that live on know the epoch by it alone.

    Attributes:
        place: of the sample in the source.
        epoch: counts from 0.
        number: in the epoch of all ranks, so that a sample that two of them get is drawn for twice.
    """

    place: int
    epoch: int
    number: int


def turns(places: Tensor, epoch: int, numbers: Tensor) -> Iterator[Turn]:
    """Return the turns of samples.

    Args:
        places: int64, N.
        epoch: counts from 0.
        numbers: int64, N.
    """
    return (
        Turn(place, epoch, number) for place, number in zip(places.tolist(), numbers.tolist(), strict=True)
    )


class Samples(Protocol):
    """A map-style data set."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return an image (float32, CHW, in [0, 1]) and its label."""


class Augmented:
    """A map-style data set of randomly changed samples, with their places and what was drawn for them.

    Args:
        samples: are not changed themselves.
        seed: of the request.
    """

    def __init__(self, samples: Samples, seed: int) -> None:
        self._samples, self._seed = samples, seed

    def __getitem__(self, turn: Turn) -> tuple[Tensor, int, dict[str, float]]:
        image, label = self._samples[turn.place]
        image, draws = augmented(image, seeds(self._seed, Purpose.SAMPLE, turn.epoch, turn.number, count=3))
        return image, label, {"id": turn.place, **draws}


def augmented(image: Tensor, seeds: list[int]) -> tuple[Tensor, dict[str, float]]:
    """Return an image flipped or not, brighter or darker, and noisy, and what was drawn for it.

    Args:
        image: float32, CHW, in [0, 1].
        seeds: for Python's, NumPy's and torch's generator.
    """
    import torch

    noise = torch.Generator().manual_seed(seeds[2])
    draws = {
        "random": random.Random(seeds[0]).random(),  # noqa: S311  # for pixels, not for secrets
        "numpy": float(np.random.default_rng(seeds[1]).random()),
        "torch": float(torch.rand((), generator=noise)),
    }
    if draws["random"] < 0.5:
        image = image.flip(-1)
    factor = 1 + BRIGHTNESS * (2 * draws["numpy"] - 1)
    grain = NOISE * draws["torch"] * torch.randn(image.shape, generator=noise)
    return (factor * image + grain).clamp_(0, 1), draws
