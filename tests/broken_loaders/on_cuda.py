"""Loaders whose faults show on a CUDA device alone; anywhere else they are right, and fail nothing."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np
import torch
from honest import Honest, fails
from soak import EveryEighth
from torch import Tensor

from loaderproof.loaders import Request, Source

ARRIVE = "test_batches_arrive_as_handed_out"
READY = "test_device_batches_are_ready"
FLAT = "test_device_memory_stays_flat"
CUDA = torch.cuda.is_available()
Batch = tuple[Tensor, Tensor]


class Pooled(Honest):
    """Lends each batch pinned memory of a pool, which is given back when nobody holds the batch."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.pool: list[tuple[Tensor, Any]] = []

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        memory = self.taken(images.shape)
        memory.copy_(images)
        lent = memory.numpy()[:]  # lives as long as any tensor on this memory
        weakref.finalize(lent, self.give_back, memory).atexit = False
        return torch.from_numpy(lent), labels

    def taken(self, shape: torch.Size) -> Tensor:
        """Return memory that can be written to."""
        for place, (memory, event) in enumerate(self.pool):
            if memory.shape == shape and (event is None or event.query()):
                return self.pool.pop(place)[0]
        return torch.empty(shape, pin_memory=CUDA)

    def give_back(self, memory: Tensor) -> None:
        """Take memory back into the pool."""
        self.pool.append((memory, self.read_by_now()))

    def read_by_now(self) -> Any:
        """Return an event to wait for before memory is filled again, or None."""
        raise NotImplementedError


@fails(ARRIVE)
class ReusedWhileCopied(Pooled):
    """Does not ask whether the device has read the memory."""

    def read_by_now(self) -> None:
        return None


@fails()
class ReusedWhenCopied(Pooled):
    """Waits until the device has read the memory."""

    def read_by_now(self) -> Any:
        return torch.cuda.current_stream().record_event() if CUDA else None


class OnTheDevice(Honest):
    """Copies each batch to the device on a stream of its own."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.stream = torch.cuda.Stream() if CUDA else None

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        if self.stream is None:
            return images, labels
        with torch.cuda.stream(self.stream):
            sent = tuple(one.pin_memory().to("cuda", non_blocking=True) for one in (images, labels))
        self.hand_over(sent, self.stream)
        return sent

    def hand_over(self, sent: Batch, stream: torch.cuda.Stream) -> None:
        """Have the consumer's stream wait for the copy, and the memory for the consumer."""
        torch.cuda.current_stream().wait_stream(stream)
        for one in sent:
            one.record_stream(torch.cuda.current_stream())


@fails()
class HandedOver(OnTheDevice):
    """Waits for the copy and for the consumer."""


@fails(READY)
class ForTheDefaultStream(OnTheDevice):
    """Takes it that the consumer's stream is the default one."""

    def hand_over(self, sent: Batch, stream: torch.cuda.Stream) -> None:
        torch.cuda.default_stream().wait_stream(stream)
        for one in sent:
            one.record_stream(torch.cuda.current_stream())


@fails(ARRIVE)
class NotRecorded(OnTheDevice):
    """Does not say that the consumer's stream uses the memory, too."""

    def hand_over(self, sent: Batch, stream: torch.cuda.Stream) -> None:
        del sent
        torch.cuda.current_stream().wait_stream(stream)


@fails(FLAT)
class KeepsOnTheDevice(EveryEighth):
    """Keeps a tensor on the device in every eighth epoch."""

    kept: ClassVar[list[Tensor]] = []

    def slip(self) -> None:
        if CUDA:
            self.kept.append(torch.zeros(1_000, device="cuda"))


@fails()
class MovesOnTheDevice(Honest):
    """Holds more memory of the device in some epochs than in others."""

    held: Tensor | None = None

    def order(self) -> list[int]:
        if CUDA:
            size = int(np.random.default_rng(self.epoch).integers(1, 2**20))
            self.held = torch.zeros(size, device="cuda")
        return super().order()
