"""The article's fifth question, own data: from_tensor_slices over arrays, without TFDS."""

from __future__ import annotations

from pathlib import Path

from loaderproof.loaders._epochs import ClosingLoader
from loaderproof.loaders._tensorflow import Wrapped, batched, import_tensorflow, shuffled, untuned
from loaderproof.loaders.contract import Adapter, Description, Loader, Promise, Request, Source, promised


class TfSlices(Adapter):
    """tf.data over arrays in memory, handed to torch by DLPack."""

    description = Description(
        name="tf_slices",
        summary="tf.data.Dataset.from_tensor_slices over arrays in memory, without TFDS",
        promises=promised(Promise.WORKERS, Promise.SHARDING, Promise.RESUMING, Promise.AUGMENTATION),
        requires=("tensorflow", "torch"),
        extra="tf",
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return the pipeline of `tfds_numpy` over the source's own arrays."""
        tf = import_tensorflow()
        from torch.utils.dlpack import from_dlpack

        samples = tf.data.Dataset.from_tensor_slices(source.arrays())
        batches = untuned(batched(shuffled(samples, len(source), request), request))
        # Without TFDS, TensorFlow's arrays are copies or read-only; its tensors are neither.
        return ClosingLoader(Wrapped(batches, from_dlpack), len(source), request)
