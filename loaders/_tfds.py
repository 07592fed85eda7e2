"""A source as a TFDS data set on disk: one format for all adapters that read TFDS."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from loaderproof.loaders._tensorflow import import_tensorflow, import_tfds
from loaderproof.loaders.contract import Adapter, Source

FORMAT = "tfds-1"
SHARDS = 8
SPLIT = "samples"
_FOLDER = Path("source_builder", "1.0.0")


@dataclass(frozen=True)
class Buffered:
    """How a pipeline shuffles.

    Attributes:
        shuffle_buffer: samples that each random choice is made from; None for all.
    """

    shuffle_buffer: int | None = None

    def buffer(self, count: int) -> int:
        """Return how many samples each random choice is made from, of so many that there are."""
        return count if self.shuffle_buffer is None else self.shuffle_buffer


class TfdsAdapter(Adapter):
    """An adapter that reads what TFDS wrote."""

    def prepare(self, source: Source, directory: Path) -> None:
        """Have TFDS write the source as PNG images in sharded TFRecords, in the source's order."""
        tfds = import_tfds()
        config = tfds.download.DownloadConfig(
            try_download_gcs=False, num_shards=max(1, min(SHARDS, len(source)))
        )
        builder = _builder_class()(source, data_dir=directory)
        with contextlib.redirect_stdout(io.StringIO()):  # TFDS prints what it does, and has no switch for it
            builder.download_and_prepare(download_config=config)


def builder_of(directory: Path) -> Any:
    """Return the TFDS builder that reads what `prepare` wrote."""
    return import_tfds().builder_from_directory(directory / _FOLDER)


def in_memory(directory: Path) -> Any:
    """Return a tf.data.Dataset of (image, label), decoded and held in memory."""
    whole = builder_of(directory).as_dataset(split=SPLIT, batch_size=-1, as_supervised=True, **_in_order())
    return import_tensorflow().data.Dataset.from_tensor_slices(whole)


def from_disk(directory: Path) -> Any:
    """Return a tf.data.Dataset of (image, label), read and decoded anew in each epoch."""
    return builder_of(directory).as_dataset(split=SPLIT, as_supervised=True, **_in_order())


def _in_order() -> dict[str, Any]:
    return {
        "shuffle_files": False,
        "read_config": import_tfds().ReadConfig(interleave_cycle_length=1, try_autocache=False),
    }


@cache
def _builder_class() -> Any:
    """Return the class of the builder, which TFDS registers by its name and thus wants only once."""
    tfds = import_tfds()

    class SourceBuilder(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc,name-defined]  # no types
        """Any source as a TFDS data set."""

        VERSION = tfds.core.Version("1.0.0")

        def __init__(self, source: Source, **more: Any) -> None:
            self.source = source
            super().__init__(**more)

        def _info(self) -> Any:
            features = {
                "image": tfds.features.Image(shape=self.source.image_shape),
                "label": tfds.features.ClassLabel(num_classes=self.source.num_classes),
            }
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                supervised_keys=("image", "label"),
                disable_shuffling=True,  # TFDS would store the samples in the order of their hashes
            )

        def _split_generators(self, manager: Any) -> dict[str, Any]:
            del manager  # downloads nothing
            return {SPLIT: self._generate_examples()}

        def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
            for place, (image, label) in enumerate(self.source):
                yield place, {"image": image, "label": label}

    return SourceBuilder
