"""Any data set of TensorFlow Datasets with images and labels.

It is read once, in a process of its own, and kept as arrays: whoever reads it later needs no
TensorFlow.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import xxhash

from loaderproof.loaders._tensorflow import import_tfds
from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources import child
from loaderproof.loaders.sources.arrays import ArraySource, read_arrays, write_arrays
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.portion import hold_out
from loaderproof.loaders.store import DamageError, cache_root, keep

TEST_SPLITS = ("test", "validation")
ORIGIN = "origin.json"


def load(rest: str) -> dict[str, Source]:
    """Return the source of each split of the data set `rest`, such as `mnist` or `emnist/letters:3.1.0`."""
    if not rest:
        msg = "no data set is named; give its name after the colon, as in tfds:mnist"
        raise SourceError(msg)
    folder = xxhash.xxh3_64_hexdigest(os.environ.get("TFDS_DATA_DIR", "").encode())
    target = cache_root() / "sources" / f"tfds-{quote(rest, safe='')}-{folder}"
    convert_there = partial(child.run, f"{__name__}:convert", rest)
    return keep(target, lambda directory: convert_there(str(directory)), partial(_read, name=f"tfds:{rest}"))


def _read(directory: Path, name: str) -> dict[str, Source]:
    sources = read_arrays(directory, name)
    try:
        path, then = json.loads((directory / ORIGIN).read_text())
    except (OSError, ValueError) as error:
        msg = f"{directory / ORIGIN}: {error}"
        raise DamageError(msg) from error
    if _written(Path(path)) not in {None, then}:
        msg = f"{path} was written anew since it was read"
        raise DamageError(msg)
    return sources


def _written(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def convert(name: str, directory: str) -> None:
    """Read a data set and write its arrays; runs where TensorFlow may be imported.

    Args:
        name: as TFDS takes it; prepared under its data folder, or to be had by it.
        directory: where the arrays go.

    Raises:
        SourceError: there is no such data set, TFDS cannot get it, or it is no set of labelled images
            of one shape.
    """
    try:
        import tensorflow_datasets as tfds

        builder = _builder(tfds, name)
        image, label = _fields(tfds, builder, name)
        import_tfds()  # with TensorFlow, which takes long and is not needed to refuse a wrong name
    except ModuleNotFoundError as error:
        msg = f"reading tfds:{name} takes TensorFlow Datasets ({error}): pip install 'loaderproof[tf]'"
        raise SourceError(msg) from error
    builder = _prepared(tfds, builder, name)
    num_classes = builder.info.features[label].num_classes
    arrays = {split: _arrays(tfds, builder, split, image, label) for split in _splits(builder, name)}
    whole = {split: ArraySource(f"tfds:{name}/{split}", *both, num_classes) for split, both in arrays.items()}
    write_arrays(Path(directory), _both(whole))
    info = Path(builder.data_path) / "dataset_info.json"
    (Path(directory) / ORIGIN).write_text(json.dumps([str(info), _written(info)]))


def _builder(tfds: Any, name: str) -> Any:
    try:
        return tfds.builder(name)
    except tfds.core.DatasetNotFoundError as error:
        near = difflib.get_close_matches(re.split("[/:]", name)[0], _names(tfds))
        hint = f"near names: {', '.join(near)}" if near else "TFDS_DATA_DIR names the folder of your own ones"
        msg = f"TensorFlow Datasets knows no {name!r}; {hint}"
        raise SourceError(msg) from error
    except Exception as error:  # for an unknown version it is an AssertionError
        msg = f"TensorFlow Datasets refuses {name!r}: {error}"
        raise SourceError(msg) from error


def _names(tfds: Any) -> list[str]:
    """Return what TFDS can get, and what lies in its folder."""
    own = Path(os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")).expanduser()
    return [*tfds.list_builders(with_community_datasets=False), *(path.name for path in own.glob("*"))]


def _prepared(tfds: Any, builder: Any, name: str) -> Any:
    """Return the builder of a data set that is on disk, put there now if it was not."""
    try:
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(try_download_gcs=False))
    except Exception as error:  # a builder is anybody's code
        another = _builder(tfds, name)
        if another.is_prepared():  # TFDS fails where another process was faster
            return another
        msg = f"TensorFlow Datasets could not prepare {name!r} in {str(builder.data_dir)!r}: {error}"
        raise SourceError(msg) from error
    return builder


def _fields(tfds: Any, builder: Any, name: str) -> tuple[str, str]:
    """Return the names of the features that hold the image and the label."""
    features = builder.info.features
    found = []
    for kind, usual in ((tfds.features.Image, "image"), (tfds.features.ClassLabel, "label")):
        names = [field for field, feature in features.items() if isinstance(feature, kind)]
        if usual not in names and len(names) != 1:
            has = ", ".join(f"{field}: {type(feature).__name__}" for field, feature in features.items())
            msg = (
                f"{name!r} has {len(names) or 'no'} features of type {kind.__name__}; it takes one, or one"
                f" called {usual!r}. It has {has}: choose a data set of labelled images"
            )
            raise SourceError(msg)
        found.append(usual if usual in names else names[0])
    return found[0], found[1]


def _splits(builder: Any, name: str) -> list[str]:
    """Return the split to train on, and that to test on if there is one."""
    there = {split: info.num_examples for split, info in builder.info.splits.items() if info.num_examples}
    if "train" not in there:
        msg = f"{name!r} has no samples to train on: its splits are {there}; there must be one called 'train'"
        raise SourceError(msg)
    return ["train", *[split for split in TEST_SPLITS if split in there][:1]]


def _arrays(tfds: Any, builder: Any, split: str, image: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    count = builder.info.splits[split].num_examples
    images, labels = np.empty(0), np.empty(count, np.int64)
    for index, example in enumerate(_examples(tfds, builder, split)):
        pixels = example[image]
        if not index:
            images = np.empty((count, *pixels.shape), pixels.dtype)
        if pixels.shape != images.shape[1:]:
            msg = (
                f"image {index} of {builder.name}/{split} has the shape {pixels.shape}, image 0 has"
                f" {images.shape[1:]}; all images must have one shape: choose a data set where they have"
            )
            raise SourceError(msg)
        images[index], labels[index] = pixels, example[label]
    return images, labels


def _examples(tfds: Any, builder: Any, split: str) -> Iterable[Mapping[str, Any]]:
    examples: Iterable[Mapping[str, Any]]
    if builder.info.file_format is tfds.core.FileFormat.ARRAY_RECORD:  # as_dataset does not read it
        examples = builder.as_data_source(split=split)
    else:
        config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        examples = tfds.as_numpy(builder.as_dataset(split=split, read_config=config))
    return examples


def _both(whole: dict[str, ArraySource]) -> dict[str, ArraySource]:
    """Return `train` and `test`; where there is one split, every sixth sample of it is for testing."""
    train, *others = whole.values()
    if others:
        return {"train": train, "test": others[0]}
    parts = dict(zip(("train", "test"), hold_out(len(train)), strict=True))
    return {
        split: ArraySource(train.name, train.images[part], train.labels[part], train.num_classes)
        for split, part in parts.items()
    }
