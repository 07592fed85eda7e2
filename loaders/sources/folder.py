"""PNG and JPEG files, one folder for each class.

Pixels are taken as they are stored: a JPEG's note of how the camera was held is not heeded.
Every image is decoded once when the folder is first met, or has changed, so that no damaged one
surprises a loader; what was found then is kept in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import xxhash

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import digest
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.portion import hold_out
from loaderproof.loaders.sources.spec import folder
from loaderproof.loaders.store import DamageError, cache_root, keep

SPLITS = ("train", "test")
ENDINGS = {".jpeg", ".jpg", ".png"}
CHANNELS = {"L": 1, "RGB": 3}  # by Pillow's mode
FOUND = "found.json"

Sample = tuple[str, int]  # path from the root, label


class FolderSource(Source):
    """Images that are decoded when they are asked for.

    Args:
        name: what was asked for and which split.
        root: the folder that the files are named from.
        samples: the relative path and the label of each image, in order.
        classes: the name of each class, by label.
        image_shape: height, width, channels of every image.

    Raises:
        SourceError: when a sample is read that is no image, or one of another shape.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        samples: list[Sample],
        classes: list[str],
        image_shape: tuple[int, int, int],
    ) -> None:
        self.name = name
        self.root = root
        self.samples = samples
        self.classes = classes
        self.num_classes = len(classes)
        self.image_shape = image_shape

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        file, label = self.samples[index]
        image = decode(self.root / file)
        if image.shape != self.image_shape:
            msg = (
                f"{str(self.root / file)!r} has the shape {image.shape} (height, width, channels), but the"
                f" first image {self.image_shape}; all must have one: resize them, or convert grey to RGB"
            )
            raise SourceError(msg)
        return image, label

    @cached_property
    def fingerprint(self) -> str:
        return digest(self, self)


def load(rest: str) -> dict[str, Source]:
    """Return the source of each split.

    Args:
        rest: a folder that holds `train/CLASS/*.png` and `test/CLASS/*.png`, or `CLASS/*.png`, where
            every sixth image is for testing. Entries that begin with a dot are left out. Classes
            go by the order of their names, or of their numbers if all names are numbers.
    """
    root = folder(rest, "one folder of PNG or JPEG files for each class").absolute()
    classes, splits = _list(root)
    shape = decode(root / splits["train"][0][0]).shape
    sources = {
        split: FolderSource(f"folder:{rest}/{split}", root, samples, classes, shape)
        for split, samples in splits.items()
    }
    # What is in the files is asked of every image once, and again when a file is another one.
    place = cache_root() / "sources" / f"folder-{_stamp(sources)}"
    known = keep(place, lambda directory: _examine(sources, directory), _read)
    for split, source in sources.items():
        source.fingerprint = known[split]
    return dict(sources)


def _stamp(sources: dict[str, FolderSource]) -> str:
    """Return a digest of all that tells without decoding whether the sources are the same as before."""
    stamps = []
    for split, source in sources.items():
        for file, label in source.samples:
            state = (source.root / file).stat()
            stamps.append((split, str(source.root), file, label, state.st_size, state.st_mtime_ns))
    classes = sources["train"].classes
    return xxhash.xxh3_128_hexdigest(json.dumps([classes, stamps]).encode())


def _examine(sources: dict[str, FolderSource], directory: Path) -> None:
    fingerprints = {split: source.fingerprint for split, source in sources.items()}
    (directory / FOUND).write_text(json.dumps(fingerprints))


def _read(directory: Path) -> dict[str, str]:
    try:
        found = json.loads((directory / FOUND).read_text())
        return {split: found[split] for split in SPLITS}
    except (OSError, ValueError, LookupError, TypeError) as error:
        msg = f"{directory}: {error}"
        raise DamageError(msg) from error


def _list(root: Path) -> tuple[list[str], dict[str, list[Sample]]]:
    """Return the classes, and the samples of each split."""
    if all(_has_folders(root / split) for split in SPLITS):
        classes = _classes(root / "train")
        strangers = sorted(set(_classes(root / "test")) - set(classes))
        if strangers:
            msg = (
                f"{str(root)!r} has classes in 'test' that 'train' has not: {strangers[:5]}; add or move them"
            )
            raise SourceError(msg)
        return classes, {split: list(_samples(root, split, classes)) for split in SPLITS}
    classes = _classes(root)
    samples = list(_samples(root, ".", classes))
    parts = hold_out(len(samples))
    return classes, {split: [samples[i] for i in part] for split, part in zip(SPLITS, parts, strict=True)}


def _visible(directory: Path) -> list[Path]:
    """Return what is in a folder, but for hidden entries, which are tools' own and no class."""
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith("."))


def _has_folders(directory: Path) -> bool:
    return directory.is_dir() and any(entry.is_dir() for entry in _visible(directory))


def _classes(directory: Path) -> list[str]:
    names = [entry.name for entry in _visible(directory) if entry.is_dir()]
    if not names:
        has = ", ".join(entry.name for entry in _visible(directory)[:5]) or "nothing"
        msg = f"{str(directory)!r} has no folder for a class; it has {has}; give each class one"
        raise SourceError(msg)
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else names


def _samples(root: Path, split: str, classes: list[str]) -> Iterator[Sample]:
    for label, name in enumerate(classes):
        place = Path(split, name)
        if not (root / place).is_dir():
            continue  # a class need not occur in the test split
        files = _visible(root / place)
        for file in files:
            _check_entry(file)
            yield str(place / file.name), label
        if not files:
            msg = f"the folder of a class, {str(root / place)!r}, is empty; fill or remove it"
            raise SourceError(msg)


def _check_entry(entry: Path) -> None:
    if entry.is_dir():
        msg = (
            f"{str(entry)!r} is a folder inside the folder of a class; give DIR/CLASS/*.png, or"
            " DIR/train/CLASS/*.png and DIR/test/CLASS/*.png (both splits, by these names)"
        )
        raise SourceError(msg)
    if entry.suffix.lower() not in ENDINGS:
        msg = f"{str(entry)!r} in the folder of a class is no .png, .jpg or .jpeg file; convert or move it"
        raise SourceError(msg)


def decode(path: Path) -> np.ndarray:
    """Return the pixels of an image file: uint8, HWC, 1 or 3 channels.

    Raises:
        SourceError: it cannot be read, or it is neither grey nor RGB with 8 bits; or Pillow is missing.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        msg = f"reading image files takes Pillow ({error}): pip install 'loaderproof[vision]'"
        raise SourceError(msg) from error
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as image:
            image.load()
    except Exception as error:  # Pillow raises what its decoders raise
        msg = f"{str(path)!r} cannot be read as PNG or JPEG: {error}; replace or remove it"
        raise SourceError(msg) from error
    if image.mode not in CHANNELS:
        msg = (
            f"{str(path)!r} has the pixel format {image.mode!r}; only 8 bits of grey ('L') or RGB will do:"
            " convert the images, for example with Pillow's convert('RGB')"
        )
        raise SourceError(msg)
    pixels = np.array(image)
    return pixels.reshape(*pixels.shape[:2], CHANNELS[image.mode])
