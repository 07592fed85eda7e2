"""The article's mixture, made right: TFDS and tf.data read as NumPy, with epochs and equal work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loaderproof.loaders._epochs import ClosingLoader, options_of
from loaderproof.loaders._tensorflow import as_torch, batched, filled, shuffled, untuned
from loaderproof.loaders._tfds import FORMAT, TfdsAdapter, from_disk, in_memory
from loaderproof.loaders.contract import Description, Loader, Promise, Request, Source, Variant, promised

SMALL_BUFFER = 256


@dataclass(frozen=True)
class Options:
    """How the pipeline is set up; the defaults are the article's.

    Attributes:
        cache: whether samples are kept by `cache()`, instead of in arrays.
        autotune: whether tf.data chooses the parallel calls of map and the depth of prefetch.
        shuffle_buffer: samples that each random choice is made from; None for all.
    """

    cache: bool = False
    autotune: bool = False
    shuffle_buffer: int | None = None


class TfdsNumpy(TfdsAdapter):
    """tf.data in threads of its own, whatever the number of workers: that is not promised."""

    description = Description(
        name="tfds_numpy",
        summary="TFDS in memory, tf.data, read as NumPy: the article's mixture with epochs and equal work",
        promises=promised(Promise.WORKERS, Promise.SHARDING, Promise.RESUMING, Promise.AUGMENTATION),
        requires=("tensorflow", "tensorflow_datasets", "torch"),
        extra="tf",
        variants={
            "": Variant(),
            "cache": Variant(options={"cache": True}),
            "autotune": Variant(options={"autotune": True}),
            "small_buffer": Variant(options={"shuffle_buffer": SMALL_BUFFER}, shuffle_buffer=SMALL_BUFFER),
        },
        on_disk=FORMAT,
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return the article's pipeline without its repeat: shuffle, batch, map, prefetch."""
        options = options_of(Options, request)
        samples = filled(from_disk(directory).cache()) if options.cache else in_memory(directory)
        buffer = len(source) if options.shuffle_buffer is None else options.shuffle_buffer
        batches = batched(shuffled(samples, buffer, request), request, autotune=options.autotune)
        return ClosingLoader(
            as_torch(batches if options.autotune else untuned(batches)), len(source), request
        )
