"""TensorFlow beside PyTorch, and the article's pipeline of tf.data.

TensorFlow is imported here and nowhere else: in the order that does not crash, and without a GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from loaderproof.loaders._epochs import ClosingLoader
from loaderproof.loaders._requests import share
from loaderproof.loaders.contract import Promise, Request, Uneven, promised

if TYPE_CHECKING:
    from torch import Tensor

    from loaderproof.loaders.contract import Batch

# tf.data saves an iterator with whatever lies in its buffers, in TensorFlow's own checkpoints: that is
# no plain data. Its threads are its own, whatever the number of workers.
AUGMENTING = promised(Promise.WORKERS, Promise.RESUMING)
PLAIN = AUGMENTING - {Promise.AUGMENTATION}

PARALLEL_CALLS = 4
PREFETCH = 5
# No log level hides what oneDNN says on every start; the pipelines are as fast without it.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}


def import_tensorflow() -> Any:
    """Return the module tensorflow, which gets no GPU and says less than it would."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    before = random.getstate()
    # TensorFlow before triton ends in a segmentation fault; torchvision imports triton if it is there.
    for first in ("torchvision", "triton"):
        with contextlib.suppress(ImportError):
            importlib.import_module(first)
            break
    import tensorflow as tf

    random.setstate(before)  # the import draws from the global generator, which is the caller's
    if tf.config.get_visible_devices("GPU"):
        tf.config.set_visible_devices([], "GPU")
    return tf


def import_tfds() -> Any:
    """Return the module tensorflow_datasets, which shows no progress bars."""
    import_tensorflow()
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    return tfds


def shuffled(samples: Any, buffer: int, request: Request) -> Any:
    """Return a tf.data.Dataset in another order each time, or as it is if no shuffle is asked for.

    The seed and the number of epochs begun decide the order.

    Args:
        samples: a tf.data.Dataset.
        buffer: elements that each random choice is made from.
        request: says whether to shuffle, and the seed.
    """
    if not request.shuffle:
        return samples
    return samples.shuffle(max(1, buffer), seed=request.seed, reshuffle_each_iteration=True)


def dealt(samples: Any, request: Request) -> Any:
    """Return the part of a tf.data.Dataset that is the rank's; the first ranks may have a sample more.

    Shuffled before, in the same order in all ranks, each epoch brings a rank other samples.
    """
    return samples.shard(request.world_size, request.rank) if request.world_size > 1 else samples


def filled(samples: Any) -> Any:
    """Return a cached tf.data.Dataset after one pass over it.

    An epoch that is left early, or read while another still reads ahead, would leave a part of the
    samples in the cache, and every later epoch would hold that part alone.
    """
    samples.reduce(0, lambda count, _: count + 1)
    return samples


def batched(samples: Any, request: Request, *, autotune: bool = False) -> Any:
    """Return the rest of the article's pipeline: batch, map, prefetch.

    Args:
        samples: a tf.data.Dataset of (image uint8 HWC, label), and maybe of more.
        request: says how to batch.
        autotune: whether tf.data chooses the parallel calls of map and the depth of prefetch.
    """
    tf = import_tensorflow()
    calls, depth = (tf.data.AUTOTUNE, tf.data.AUTOTUNE) if autotune else (PARALLEL_CALLS, PREFETCH)

    def channels_first(images: Any, *more: Any) -> tuple[Any, ...]:
        return tf.cast(tf.transpose(images, (0, 3, 1, 2)), tf.float32) / 255.0, *more

    batches = samples.batch(request.batch_size, drop_remainder=request.drop_last)
    return batches.map(channels_first, num_parallel_calls=calls, deterministic=True).prefetch(depth)


def untuned(batches: Any) -> Any:
    """Return a tf.data.Dataset whose numbers are all given, without the thread that tunes others.

    The end of each epoch waits for that thread to wake: up to a sixth of a second in epochs as
    short as those of 60,000 small samples, about as long as such an epoch itself.
    """
    options = import_tensorflow().data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)


def as_torch(batches: Any) -> Iterable[Batch]:
    """Return a tf.data.Dataset of batches as torch tensors, read as NumPy like the article's.

    TFDS hands out each batch in TensorFlow's own memory, writable and without a copy. That is
    safe because `batch` fills new memory each time; it would not be behind a cache of batches.
    """
    import torch

    return Wrapped(import_tfds().as_numpy(batches), torch.from_numpy)


def epochs(batches: Iterable[Batch], samples: int, request: Request) -> ClosingLoader:
    """Return a loader of what tf.data gives of so many samples after `dealt`."""
    return ClosingLoader(batches, share(samples, request, Uneven.EXACT), request)


class Wrapped:
    """Batches of another library as torch tensors.

    Args:
        batches: gives (images, labels), and maybe a dict, from the start each time that it is iterated.
        wrap: makes a tensor of each.
    """

    def __init__(self, batches: Iterable[Any], wrap: Callable[[Any], Tensor]) -> None:
        self._batches = batches
        self._wrap = wrap

    def __iter__(self) -> Iterator[Batch]:
        for images, labels, *more in self._batches:
            pair = self._wrap(images), self._wrap(labels)
            if more:
                yield *pair, {name: self._wrap(value) for name, value in more[0].items()}
            else:
                yield pair
