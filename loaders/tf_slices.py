"""The article's fifth question, own data: from_tensor_slices over arrays, without TFDS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaderproof.loaders._requests import options_of
from loaderproof.loaders._tensorflow import AUGMENTING, Wrapped, batched, epochs, import_tensorflow, untuned
from loaderproof.loaders._tf_augmentation import arranged
from loaderproof.loaders.contract import Adapter, Description, Loader, Request, Source


@dataclass(frozen=True)
class Options:
    """There is nothing to set up."""


class TfSlices(Adapter):
    """tf.data over arrays in memory, handed to torch by DLPack."""

    description = Description(
        name="tf_slices",
        summary="tf.data.Dataset.from_tensor_slices over arrays in memory, without TFDS",
        promises=AUGMENTING,
        requires=("tensorflow", "torch"),
        extra="tf",
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return the pipeline of `tfds_numpy` over the source's own arrays."""
        options_of(Options, request)
        batches = self.pipeline(source, request)
        from torch.utils.dlpack import from_dlpack

        # Without TFDS, TensorFlow's arrays are copies or read-only; its tensors are neither.
        return epochs(Wrapped(batches, from_dlpack), len(source), request)

    @staticmethod
    def pipeline(source: Source, request: Request) -> Any:
        """Return a tf.data.Dataset of batches."""
        samples = import_tensorflow().data.Dataset.from_tensor_slices(source.arrays())
        return untuned(batched(arranged(samples, len(source), request), request))
