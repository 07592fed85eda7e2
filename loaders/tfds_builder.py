"""The article's sixth question, data larger than memory: a builder's shards, read interleaved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaderproof.loaders._requests import options_of
from loaderproof.loaders._tensorflow import (
    PARALLEL_CALLS,
    PLAIN,
    as_torch,
    batched,
    dealt,
    epochs,
    import_tensorflow,
    shuffled,
)
from loaderproof.loaders._tfds import FORMAT, SPLIT, Buffered, TfdsAdapter, builder_of
from loaderproof.loaders.contract import Description, Loader, Request, Source, Variant

SHUFFLE_BUFFER = 10_000


@dataclass(frozen=True)
class Options(Buffered):
    """How the shards are read; the buffer holds encoded samples."""

    shuffle_buffer: int | None = SHUFFLE_BUFFER


class TfdsBuilder(TfdsAdapter):
    """A GeneratorBasedBuilder over any source, and tf.data over its shards."""

    description = Description(
        name="tfds_builder",
        summary="a TFDS builder's sharded TFRecords, interleaved: for data larger than memory",
        promises=PLAIN,
        requires=("tensorflow", "tensorflow_datasets", "torch"),
        extra="tf",
        variants={"": Variant(shuffle_buffer=SHUFFLE_BUFFER)},
        on_disk=FORMAT,
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return shuffled shards, interleaved, then a shuffle buffer; in order, one shard after another."""
        buffer = options_of(Options, request).buffer(len(source))
        builder = builder_of(directory)
        records = dealt(shuffled(_records(builder, request), buffer, request), request)

        def decoded(record: Any) -> tuple[Any, Any]:
            sample = builder.info.features.deserialize_example(record)
            return sample["image"], sample["label"]

        # Decoding comes behind the shuffle, whose buffer then holds the smaller, encoded samples.
        samples = records.map(decoded, num_parallel_calls=PARALLEL_CALLS, deterministic=True)
        return epochs(as_torch(batched(samples, request)), len(source), request)


def _records(builder: Any, request: Request) -> Any:
    """Return a tf.data.Dataset of encoded samples from all shards."""
    tf = import_tensorflow()
    files = [str(path) for path in builder.info.splits[SPLIT].filepaths]
    if not request.shuffle:
        return tf.data.TFRecordDataset(files)
    shards = shuffled(tf.data.Dataset.from_tensor_slices(files), len(files), request)
    return shards.interleave(
        tf.data.TFRecordDataset,
        cycle_length=len(files),
        num_parallel_calls=tf.data.AUTOTUNE,  # a number is refused if there are fewer files
        deterministic=True,
    )
