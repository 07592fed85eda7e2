"""The article's mixture, made right: TFDS and tf.data read as NumPy, with epochs and equal work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaderproof.loaders._requests import options_of
from loaderproof.loaders._tensorflow import AUGMENTING, as_torch, batched, epochs, filled, untuned
from loaderproof.loaders._tf_augmentation import arranged
from loaderproof.loaders._tfds import FORMAT, Buffered, TfdsAdapter, from_disk, in_memory
from loaderproof.loaders.contract import Description, Loader, Request, Source, Tunable, Variant

SMALL_BUFFER = 256


@dataclass(frozen=True)
class Options(Buffered):
    """How the pipeline is set up; the defaults are the article's.

    Attributes:
        cache: whether samples are kept by `cache()`, instead of in arrays.
        autotune: whether tf.data chooses the parallel calls of map and the depth of prefetch.
    """

    cache: bool = False
    autotune: bool = False


class TfdsNumpy(TfdsAdapter):
    """tf.data in threads of its own over what TFDS read."""

    description = Description(
        name="tfds_numpy",
        summary="TFDS in memory, tf.data, read as NumPy: the article's mixture with epochs and equal work",
        promises=AUGMENTING,
        requires=("tensorflow", "tensorflow_datasets", "torch"),
        extra="tf",
        variants={
            "": Variant(),
            "cache": Variant(options={"cache": True}),
            "autotune": Variant(options={"autotune": True}),
            "small_buffer": Variant(options={"shuffle_buffer": SMALL_BUFFER}, shuffle_buffer=SMALL_BUFFER),
        },
        on_disk=FORMAT,
        # No smaller shuffle buffer: that mixes less.
        tunable={"cache": Tunable(values=(True,)), "autotune": Tunable(values=(True,))},
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return the article's pipeline without its repeat: shuffle, batch, map, prefetch."""
        options = options_of(Options, request)
        batches = self.pipeline(len(source), directory, request, options)
        return epochs(as_torch(batches), len(source), request)

    @staticmethod
    def pipeline(count: int, directory: Path, request: Request, options: Options) -> Any:
        """Return a tf.data.Dataset of batches."""
        samples = filled(from_disk(directory).cache()) if options.cache else in_memory(directory)
        mixed = arranged(samples, options.buffer(count), request)
        batches = batched(mixed, request, autotune=options.autotune)
        return batches if options.autotune else untuned(batches)
