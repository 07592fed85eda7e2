"""A loader that waits for each batch, as for a slow disk, so that workers help on any machine."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from loaderproof.loaders import Loader, Promise, Request, Source, Tunable
from loaderproof.loaders.function import adapter

PAUSE_S = 0.05


def _collate(samples: list[Any]) -> Any:
    time.sleep(PAUSE_S)
    return default_collate(samples)


@adapter(
    promises=[Promise.WORKERS, Promise.SHUFFLE],
    tunable={"mood": Tunable(values=("raising", "dying", "short"))},
)
def waiting(source: Source, request: Request) -> Loader:
    """Wait in the workers; fail in one way or another with each value of the option."""
    mood = request.options.get("mood")
    if mood == "raising":
        raise ValueError("this setting is refused\nfor a reason")
    if mood == "dying":
        os._exit(3)
    samples: Any = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
    return DataLoader(
        samples,
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        drop_last=mood == "short",
        num_workers=request.num_workers,
        collate_fn=_collate,
    )


def without_settings(source: Source, request: Request) -> Loader:
    """Take nothing of the request but the size of batches."""
    samples: Any = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
    return DataLoader(samples, batch_size=request.batch_size)
