"""Data of one's own: an object in a module or a file, that is indexed for samples.

The object has a length and gives `(image, label)` for each index, as a data set of torch does; or
it is a function of the split (`train` or `test`) that returns such an object. An image is a uint8
array (HWC, or HW if grey), a PIL image, or a torch tensor (CHW; uint8, or float in [0, 1]).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from loaderproof.loaders import _modules
from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import digest
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.portion import hold_out

SPLITS = ("train", "test")
WANTED = (
    "a sample is (image, label): a uint8 array (height x width x channels), a PIL image, or a torch tensor"
    " (channels x height x width; uint8, or float in [0, 1]); and a whole number"
)
HALF_A_STEP = 0.5 / 255


class ObjectSource(Source):
    """Samples of somebody's own object, converted when they are asked for.

    Args:
        name: what was asked for and which split.
        samples: has a length and gives (image, label) for an index.
        origin: what `load` was called with, for copies in other processes.
        whole: the source that this one was held out from, if it was.

    Attributes:
        rounding: largest change of a value, in units of the range, by taking it for one of 256 steps;
            0 for samples that come in such.
    """

    def __init__(self, name: str, samples: Any, origin: tuple[str, str], whole: Source | None = None) -> None:
        self.name = name
        self.samples = samples
        self.origin = origin
        self.whole = whole or self
        if len(samples) < 1:
            msg = f"{name} has no samples"
            raise SourceError(msg)
        self.rounding = HALF_A_STEP if _is_float(_pair(samples, 0, name)[0]) else 0.0
        self.image_shape = self._sample(0)[0].shape

    @cached_property
    def num_classes(self) -> int:  # type: ignore[override]  # all labels have to be read to know it
        """One more than the largest label, or as many as the object names in its `classes`."""
        named = getattr(self.samples, "classes", ())
        return max(1 + max(label for _, label in self), len(named) if hasattr(named, "__len__") else 0)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        image, label = self._sample(range(len(self))[index])
        if image.shape != self.image_shape:
            msg = (
                f"sample {index} of {self.name} has the shape {image.shape} (height, width, channels), sample 0"
                f" {self.image_shape}; all must have one: resize or crop in the object"
            )
            raise SourceError(msg)
        return image, label

    def _sample(self, index: int) -> tuple[np.ndarray, int]:
        image, label = _pair(self.samples, index, self.name)
        where = f"sample {index} of {self.name}"
        return as_image(image, where), _as_label(label, where)

    @cached_property
    def fingerprint(self) -> str:
        return digest(self, self)

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        return (self[index] for index in range(len(self)))

    def __deepcopy__(self, memo: object) -> ObjectSource:
        """Return itself: it hands out copies, so nobody can damage it."""
        return self

    def __reduce__(self) -> tuple[Callable[..., Source], tuple[str, str]]:
        """Let another process read the object anew: what a person's module holds may not be pickled."""
        return _again, self.origin


class _Part:
    """Some samples of another object."""

    def __init__(self, samples: Any, places: np.ndarray) -> None:
        self.samples, self.places = samples, places
        self.classes = getattr(samples, "classes", ())

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Any:
        return self.samples[int(self.places[index])]


def load(rest: str) -> dict[str, Source]:
    """Return the source of each split of `module:attribute` or `path.py:attribute`.

    Raises:
        SourceError: there is no such object, or it does not give samples.
    """
    found = _found(rest)
    name = f"object:{rest}"
    if not _is_samples(found):
        if not callable(found):
            msg = f"it is {_kind(found)}; give an object with len() and an index, or a function of the split"
            raise SourceError(msg)
        splits = {split: _made(found, split) for split in SPLITS}
        return {
            split: ObjectSource(f"{name}/{split}", samples, (rest, split))
            for split, samples in splits.items()
        }
    whole = ObjectSource(name, found, (rest, ""))
    parts = (
        dict(zip(SPLITS, hold_out(len(found)), strict=True)) if len(found) > 1 else {"train": np.arange(1)}
    )
    return {
        split: ObjectSource(f"{name}/{split}", _Part(found, places), (rest, split), whole)
        for split, places in parts.items()
    }


def _again(rest: str, split: str) -> Source:
    sources = load(rest)
    return sources[split] if split else sources["train"].whole  # type: ignore[attr-defined]  # it is ours


def _found(rest: str) -> Any:
    place, attribute = _modules.parts(rest)
    try:
        module = _modules.load(place)
    except _modules.NoModuleError as error:
        why = str(error) or f"there is no module {place!r}"
        msg = f"{why}; write object:module:attribute or object:path/to/file.py:attribute"
        raise SourceError(msg) from None
    if not hasattr(module, attribute):
        msg = (
            f"there is no {attribute!r} in {module.__file__}{_modules.near_in(module, attribute)}; name the object"
            " that holds the samples after the last colon"
        )
        raise SourceError(msg)
    return getattr(module, attribute)


def _is_samples(found: Any) -> bool:
    return not inspect.isclass(found) and hasattr(found, "__len__") and hasattr(found, "__getitem__")


def _made(function: Any, split: str) -> Any:
    try:
        found = function(split)
    except Exception as error:  # it is anybody's code
        msg = (
            f"calling it with {split!r} raised {type(error).__name__}: {error}; it must take the split alone"
        )
        raise SourceError(msg) from error
    if not _is_samples(found):
        msg = f"called with {split!r} it returned {_kind(found)}; it must return an object with len() and an index"
        raise SourceError(msg)
    return found


def _pair(samples: Any, index: int, name: str) -> tuple[Any, Any]:
    sample = samples[index]
    if not isinstance(sample, (tuple, list)) or len(sample) != 2:
        msg = f"sample {index} of {name} is {_kind(sample)}; {WANTED}. Wrap the object in one whose index gives that"
        raise SourceError(msg)
    return sample[0], sample[1]


def as_image(image: Any, where: str) -> np.ndarray:
    """Return an image as a new uint8 array of shape (height, width, channels).

    Args:
        image: array, PIL image or tensor.
        where: names it in errors.

    Raises:
        SourceError: it is none of these, or its values are out of range.
    """
    if _is_tensor(image):
        array = image.detach().cpu().numpy()
        return _as_bytes(array.transpose(1, 2, 0) if array.ndim == 3 else array, where, allowed="fu")
    if hasattr(image, "getbands"):
        image = image if image.mode in {"L", "RGB"} else image.convert("RGB")
    elif not isinstance(image, np.ndarray):
        msg = f"{where} has {_kind(image)} for its image; {WANTED}"
        raise SourceError(msg)
    return _as_bytes(np.array(image), where, allowed="u")


def _as_bytes(array: np.ndarray, where: str, allowed: str) -> np.ndarray:
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not array.size:
        msg = f"{where} has an image of shape {array.shape}; {WANTED}"
        raise SourceError(msg)
    if array.dtype == np.uint8:
        return np.array(array, order="C")
    if array.dtype.kind != "f" or "f" not in allowed:
        msg = f"{where} has an image of {array.dtype} values; {WANTED}"
        raise SourceError(msg)
    # Written so that NaN does not pass.
    if not (array.min() >= 0 and array.max() <= 1):
        msg = (
            f"{where} has values from {array.min():.4g} to {array.max():.4g}; the truth lies in [0, 1]: leave out the"
            " normalisation there, or multiply by the standard deviation and add the mean again"
        )
        raise SourceError(msg)
    made: np.ndarray = np.ascontiguousarray(np.rint(array * 255).astype(np.uint8))
    return made


def _as_label(label: Any, where: str) -> int:
    number = label.item() if getattr(label, "ndim", None) == 0 else label
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        msg = f"{where} has {_kind(label)} for its label; it takes a whole number from 0 on"
        raise SourceError(msg)
    return number


def _is_tensor(value: Any) -> bool:
    # By what it can do, so that torch need not be imported to recognise it.
    return hasattr(value, "detach") and hasattr(value, "is_floating_point")


def _is_float(image: Any) -> bool:
    return _is_tensor(image) and image.is_floating_point()


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    about = f" of shape {tuple(shape)}" if shape is not None else ""
    about = f" of length {len(value)}" if isinstance(value, (tuple, list, dict)) else about
    return f"{'the class ' + value.__name__ if inspect.isclass(value) else type(value).__name__}{about}"
