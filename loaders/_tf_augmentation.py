"""Random augmentation in tf.data, drawn for each sample by itself.

A generator that parallel calls share gives its numbers to whichever comes first. TensorFlow's
stateless operations draw from what they are given; each sample is given the number that tf.data
draws for its place in each epoch anew, before samples are shuffled, dealt out or shared by threads.
"""

from __future__ import annotations

from typing import Any

from loaderproof.loaders._tensorflow import PARALLEL_CALLS, dealt, import_tensorflow, shuffled
from loaderproof.loaders.contract import Request

BRIGHTNESS = 0.2


def arranged(samples: Any, buffer: int, request: Request) -> Any:
    """Return the rank's part of a shuffled tf.data.Dataset, augmented if that is asked for.

    Args:
        samples: of (image uint8 HWC, label).
        buffer: elements that each random choice is made from.
        request: says whether to shuffle and to augment, the seed, and the rank.
    """
    if not request.augment:
        return dealt(shuffled(samples, buffer, request), request)
    return _augmented(dealt(shuffled(_numbered(samples, request), buffer, request), request))


def _numbered(samples: Any, request: Request) -> Any:
    """Return a tf.data.Dataset of (sample, its place in the source, a number drawn in each epoch)."""
    data = import_tensorflow().data.Dataset
    drawn = data.random(seed=request.seed, rerandomize_each_iteration=True)
    return data.zip((samples, data.counter(), drawn))


def _augmented(samples: Any) -> Any:
    """Return a tf.data.Dataset of changed samples, with their places and what was drawn for them.

    Args:
        samples: what `_numbered` returned, with samples of (image uint8 HWC, label).
    """
    tf = import_tensorflow()

    def changed(sample: Any, place: Any, number: Any) -> tuple[Any, Any, dict[str, Any]]:
        image, label = sample
        seed = tf.stack((number, place))
        draw = tf.random.stateless_uniform((), seed)
        flipped = tf.image.stateless_random_flip_left_right(image, tf.random.fold_in(seed, 1))
        brighter = tf.image.adjust_brightness(flipped, BRIGHTNESS * (2 * draw - 1))
        return brighter, label, {"id": place, "tensorflow": draw}

    return samples.map(changed, num_parallel_calls=PARALLEL_CALLS, deterministic=True)
