"""MNIST's file format: one file of images and one of labels for each split, gzipped or not."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import ArraySource
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.spec import folder

PREFIXES = {"train": "train", "test": "t10k"}
DIMENSIONS = {"images": 3, "labels": 1}
UNSIGNED_BYTES = 0x08 << 8  # the third byte of the magic number; the fourth is the number of dimensions
GZIP = b"\x1f\x8b"
WHOLE = "get the file again, whole"


def load(rest: str) -> dict[str, Source]:
    """Return the source of each split from the four files in the folder `rest`."""
    directory = folder(rest, "train-images-idx3-ubyte, t10k-labels-idx1-ubyte and so on")
    return dict(read_folder(directory, f"idx:{rest}"))


def read_folder(
    directory: Path,
    name: str,
    num_classes: int | None = None,
    checksums: Mapping[str, str] | None = None,
) -> dict[str, ArraySource]:
    """Read both splits.

    Args:
        directory: holds `train-images-idx3-ubyte` and its like; `.gz` behind, or a dot before
            `idx`, are fine.
        name: what was asked for.
        num_classes: by default one more than the highest label of the training split.
        checksums: MD5 of each file's content, not gzipped, by the name that it has here.

    Raises:
        SourceError: a file is missing or damaged, or the files do not fit together.
    """
    sources: dict[str, ArraySource] = {}
    for split in PREFIXES:
        images, labels = (_read_part(directory, split, part, checksums or {}) for part in DIMENSIONS)
        num_classes = num_classes or int(labels.max()) + 1
        if len(images) != len(labels):
            msg = (
                f"{str(directory)!r} has {len(images)} images, but {len(labels)} labels for {split};"
                " the two files belong to different data sets: get both again"
            )
            raise SourceError(msg)
        sources[split] = ArraySource(f"{name}/{split}", images[..., None], labels, num_classes)
    return sources


def file_name(split: str, part: str) -> str:
    """Return how a file is called, for example `train-images-idx3-ubyte`."""
    return f"{PREFIXES[split]}-{part}-idx{DIMENSIONS[part]}-ubyte"


def _read_part(directory: Path, split: str, part: str, checksums: Mapping[str, str]) -> np.ndarray:
    name = file_name(split, part)
    path = find(directory, split, part)
    if path is None:
        here = ", ".join(sorted(entry.name for entry in directory.iterdir())[:8]) or "nothing"
        msg = (
            f"{str(directory)!r} has no {name}, gzipped or not; it has {here}; give the folder with all four"
        )
        raise SourceError(msg)
    content = _unpack(path)
    if name in checksums:
        _check(path, content, checksums[name])
    return parse(content, DIMENSIONS[part], str(path))


def find(directory: Path, split: str, part: str) -> Path | None:
    """Return the path of one of the four files, if it is there under one of its usual names."""
    name = file_name(split, part)
    names = [form + ending for form in (name, name.replace("-idx", ".idx")) for ending in ("", ".gz")]
    return next((directory / one for one in names if (directory / one).is_file()), None)


def _unpack(path: Path) -> bytes:
    """Read a file, gzipped or not, whatever its name says."""
    content = path.read_bytes()
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{str(path)!r} cannot be unpacked: {error}. It is truncated or damaged: {WHOLE}"
        raise SourceError(msg) from error


def _check(path: Path, content: bytes, expected: str) -> None:
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        msg = f"{str(path)!r} has another checksum (MD5 {found}) than the original ({expected}): {WHOLE}"
        raise SourceError(msg)


def parse(content: bytes, dimensions: int, path: str) -> np.ndarray:
    """Return the array in a file's content.

    Args:
        content: of the file, not gzipped.
        dimensions: 3 for images, 1 for labels.
        path: for messages.

    Returns:
        uint8, writable, at least one sample.

    Raises:
        SourceError: the content is not exactly one such array.
    """
    words = [int.from_bytes(content[at : at + 4], "big") for at in range(0, 4 * (dimensions + 1), 4)]
    if words[0] != UNSIGNED_BYTES + dimensions:
        msg = (
            f"{path!r} begins with the magic number {words[0]:#010x}, not {UNSIGNED_BYTES + dimensions:#010x}"
            f" (unsigned bytes, {dimensions} dimensions): it is another kind of file; {WHOLE}"
        )
        raise SourceError(msg)
    shape, start = words[1:], 4 * len(words)
    expected, found = start + int(np.prod(shape, dtype=object)), len(content)
    if expected != found:
        fault = "it is truncated" if found < expected else "something trails the data"
        msg = f"{path!r} has {found} bytes, but announces {expected} (shape {tuple(shape)}): {fault}; {WHOLE}"
        raise SourceError(msg)
    if not all(shape):
        msg = f"{path!r} is empty: its shape is {tuple(shape)}; there must be at least one sample"
        raise SourceError(msg)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
