"""Turns the batches of a loader into observations, in the process of the loader."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import xxhash

from loaderproof.loaders.contract import Loader
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.records import FirstPass, Seen, Truth
from loaderproof.suite.fingerprint import Coverage, Fingerprint, mix, mixed
from loaderproof.suite.identities import Found
from loaderproof.suite.observation import Batch, Epoch, Scenario

# Batches whose hashes are finished together: small enough to need no memory, large enough that
# NumPy's cost for each call no longer counts.
_HASHED_AT_ONCE = 64
# Bytes of batches that are kept to see whether they stay as they were.
_KEPT = 64 * 2**20

_ID = "id"
Extras = Mapping[str, torch.Tensor]
_Record = tuple[Batch, Found, np.ndarray, dict[str, np.ndarray]]


class NotABatch(TypeError):
    """What came is no pair of tensors."""


class Recorder:
    """Watches the passes over one loader, keeping the first batches to see whether they stay as they were."""

    def __init__(self, catalogue: Catalogue | Truth | FirstPass, scenario: Scenario) -> None:
        self._catalogue = catalogue
        self._limit = 2 * len(catalogue.labels) + 4 * scenario.request.batch_size
        self._kept: list[tuple[Batch, tuple[torch.Tensor, torch.Tensor], str]] = []
        self._bytes_kept = 0

    def epoch(self, number: int, loader: Loader) -> Epoch:
        """Watch one whole pass, or as much of it as an endless one is worth."""
        records: list[_Record] = []
        came = 0
        for images, labels, extras in batches(loader):
            records.append(self._record(images, labels, extras))
            came += records[-1][0].size
            if came > self._limit or len(records) > self._limit:
                return self._as_epoch(number, records, ended=False)
        return self._as_epoch(number, records, ended=True)

    def _as_epoch(self, number: int, records: list[_Record], *, ended: bool) -> Epoch:
        epoch = _as_epoch(number, records, ended=ended)
        epoch.index = self._catalogue.balanced(epoch.index, epoch.label)
        return epoch

    def look_again(self) -> None:
        """Mark each batch that is not what it was when it came."""
        for batch, pair, was in self._kept:
            batch.changed = digest(pair) != was

    def _record(self, images: torch.Tensor, labels: torch.Tensor, extras: Extras) -> _Record:
        batch = Batch(
            tuple(images.shape),
            tuple(labels.shape),
            _name(images.dtype),
            _name(labels.dtype),
            *_range(images),
        )
        self._keep(batch, images, labels)
        array, flat = as_array(images), as_array(labels).reshape(-1)
        array = array if batch.size == len(array) else array[None]
        carried = {name: as_array(value) for name, value in extras.items()}
        by_id = _ID in carried
        found = self._catalogue.named(array, carried[_ID]) if by_id else self._catalogue.find(array)
        came = flat[: len(found.index)].astype(np.int64)
        found.index = self._catalogue.settled(found.index, came)
        return batch, found, came, carried

    def _keep(self, batch: Batch, images: torch.Tensor, labels: torch.Tensor) -> None:
        self._bytes_kept += images.nbytes
        if self._bytes_kept <= _KEPT:
            self._kept.append((batch, (images, labels), digest((images, labels))))


def pairs(loader: Loader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the images and labels of each batch of one epoch.

    Raises:
        NotABatch: something else than a pair of tensors came.
    """
    return ((images, labels) for images, labels, _ in batches(loader))


def batches(loader: Iterable[Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor, Extras]]:
    """Yield the images, the labels and what else each batch of one epoch carries.

    Raises:
        NotABatch: something else than a pair of tensors came, or than a dict of tensors beside it.
    """
    for number, batch in enumerate(loader):
        if isinstance(batch, (tuple, list)) and len(batch) == 3 and isinstance(batch[2], Mapping):
            images, labels = checked(tuple(batch[:2]), number)
            yield images, labels, _checked_extras(batch[2], len(images), number)
        else:
            yield *checked(batch, number), {}


def arrays(loader: Loader) -> Iterator[Seen]:
    """Yield the images, the labels and the ids of each batch of one epoch, or None for ids it does not carry."""
    for images, labels, extras in batches(loader):
        ids = as_array(extras[_ID]) if _ID in extras else None
        yield as_array(images), as_array(labels).reshape(-1).astype(np.int64), ids


def _checked_extras(extras: Mapping[str, Any], count: int, number: int) -> Extras:
    for name, value in extras.items():
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != (count,):
            msg = (
                f"batch {number} of {count} samples carries {_describe(value)} as {name!r};"
                f" expected a tensor of shape ({count},)"
            )
            raise NotABatch(msg)
    return extras


def checked(batch: Any, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch as a pair of tensors.

    Raises:
        NotABatch: it is something else.
    """
    if (
        isinstance(batch, (tuple, list))
        and len(batch) == 2
        and all(isinstance(one, torch.Tensor) for one in batch)
        and batch[0].ndim > 0
    ):
        return batch[0], batch[1]
    parts = ", ".join(_describe(one) for one in batch) if isinstance(batch, (tuple, list)) else ""
    msg = (
        f"batch {number} is {_describe(batch)}{f' of ({parts})' if parts else ''}; expected a pair"
        " (images, labels) of torch tensors. Unpack or convert in the adapter, for example with torch.from_numpy"
    )
    raise NotABatch(msg)


def covered(loader: Loader, fingerprint: Fingerprint, limit: float = math.inf) -> Coverage:
    """Watch one pass in constant memory, cut soon after `limit` samples."""
    return summed(_hashed(loader, fingerprint, limit))


def summed(parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> Coverage:
    """Return the coverage of samples whose image hashes and labels come in parts."""
    return sum((Coverage.of(mixed(*part)) for part in parts), Coverage())


def identities(loader: Loader, fingerprint: Fingerprint, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of the images (uint64) and the labels of one pass, cut soon after `limit` samples."""
    return joined(_hashed(loader, fingerprint, limit))


def joined(parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return image hashes (uint64) and labels (int64) that come in parts."""
    nothing = (np.empty(0, np.uint64), np.empty(0, np.int64))
    hashes, labels = zip(nothing, *parts, strict=True)
    return np.concatenate(hashes), np.concatenate(labels)


def recognised(
    loader: Loader, catalogue: Catalogue | Truth | FirstPass, limit: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the hashes of the images that each batch was found to hold, and its labels, as `identities` does.

    It is slower, but finds samples by their ids, and such whose values are not exact.
    """
    came = 0
    for images, labels, ids in arrays(loader):
        found = catalogue.find(images) if ids is None else catalogue.named(images, ids)
        came += len(labels)
        yield catalogue.images_at(found.index[: len(labels)]), labels
        if came > limit:
            return


def _hashed(
    loader: Loader, fingerprint: Fingerprint, limit: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the hashes of the images and the labels of many batches at once."""
    batches = (_summed(number, *pair, fingerprint) for number, pair in enumerate(pairs(loader)))
    came = 0
    while came <= limit and (chunk := list(itertools.islice(batches, _HASHED_AT_ONCE))):
        sums, labels = (np.concatenate(parts) for parts in zip(*chunk, strict=True))
        came += len(labels)
        yield mix(sums), labels


def _summed(
    number: int, images: torch.Tensor, labels: torch.Tensor, fingerprint: Fingerprint
) -> tuple[np.ndarray, np.ndarray]:
    # A copy: they are kept until many batches are hashed, and the loader may fill its buffer again.
    found = as_array(labels).reshape(-1).astype(np.int64)
    if len(found) != len(images):
        msg = f"batch {number} has {len(images)} images and {len(found)} labels; expected one label for each image"
        raise NotABatch(msg)
    pixels = fingerprint.read(as_array(images))
    if pixels[:1].size not in {0, fingerprint.values}:
        msg = f"batch {number} has images of {pixels[0].size} values; those of the source have {fingerprint.values}"
        raise NotABatch(msg)
    return fingerprint.sums(pixels), found


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's values as an array in CPU memory, without a copy where none is needed."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()  # NumPy has no such type
    return tensor.detach().cpu().numpy()


def _as_epoch(number: int, records: list[_Record], *, ended: bool) -> Epoch:
    def joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
        return np.concatenate(parts) if parts else np.empty(0, dtype)

    found = [record[1] for record in records]
    carried = [record[3] for record in records]
    names = set.intersection(*map(set, carried)) if carried else set()
    return Epoch(
        number,
        [record[0] for record in records],
        joined([one.index for one in found], np.int64),
        joined([record[2] for record in records], np.int64),
        joined([one.error for one in found], np.float64),
        joined([one.placed for one in found], bool),
        ended,
        {name: np.concatenate([extras[name] for extras in carried]) for name in sorted(names)},
    )


def digest(pair: tuple[torch.Tensor, torch.Tensor]) -> str:
    """Return a digest of the values of a batch."""
    made = xxhash.xxh3_64()
    for tensor in pair:
        made.update(np.ascontiguousarray(as_array(tensor)).data)
    return made.hexdigest()


def _range(images: torch.Tensor) -> tuple[float, float]:
    if images.numel() == 0:
        return 0.0, 0.0
    low, high = torch.aminmax(images)
    return float(low), float(high)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    kind = type(value).__name__
    return f"{kind} of length {len(value)}" if isinstance(value, (tuple, list, dict)) else kind
