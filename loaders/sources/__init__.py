"""The sources of truth, by the names that `--loader-data` takes.

| name | what it is |
|---|---|
| `glyphs[:N]` | drawn figures, 60,000 and 10,000; or the first N and N // 6 of them |
| `probe[:N[:HxWxC[:CLASSES]]]` | small and made to bring faults out |
| `mnist[:DIR]`, `fashion-mnist[:DIR]` | from a folder, the cache or Debian's package, else downloaded |
| `idx:DIR` | a folder with files in MNIST's format |
| `folder:DIR` | PNG or JPEG files, a folder for each class |
| `tfds:NAME` | a data set of TensorFlow Datasets |
| `object:MODULE:ATTR`, `object:FILE.py:ATTR` | an object that gives `(image, label)` for an index |

Where `folder`, `tfds` and `object` find no test split, every sixth sample is held out for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources import folder, glyphs, idx, mnist, object, probe, tfds  # noqa: A004  # as it is called
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.sources.portion import first
from loaderproof.loaders.store import StoreError

KINDS: dict[str, Callable[[str], dict[str, Source]]] = {
    "fashion-mnist": partial(mnist.load, "fashion-mnist"),
    "folder": folder.load,
    "glyphs": glyphs.load,
    "idx": idx.load,
    "mnist": partial(mnist.load, "mnist"),
    "object": object.load,
    "probe": probe.load,
    "tfds": tfds.load,
}


def load(spec: str) -> dict[str, Source]:
    """Return the source of each split, `train` and `test`.

    Args:
        spec: what `--loader-data` takes.

    Raises:
        SourceError: there is no such kind of data, or what it names is missing, damaged or unclear.
        StoreError: the cache cannot be written.
    """
    try:
        return _matched(_load(spec))
    except SourceError as error:
        msg = f"--loader-data {spec}: {error}"
        raise SourceError(msg) from error
    except StoreError:
        raise
    except OSError as error:
        msg = f"--loader-data {spec}: {error}; it must be there, and readable for this user"
        raise SourceError(msg) from error


def _load(spec: str) -> dict[str, Source]:
    kind, colon, rest = spec.partition(":")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS)
        known = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(KINDS)}"
        msg = f"there is no kind of data called {kind!r}; {known}"
        raise SourceError(msg)
    if colon and not rest:
        msg = "nothing follows the colon; leave it out or say what shall follow"
        raise SourceError(msg)
    return KINDS[kind](rest)


def _matched(sources: dict[str, Source]) -> dict[str, Source]:
    """Check that one network can take both splits."""
    shapes = {split: source.image_shape for split, source in sources.items()}
    if len(set(shapes.values())) > 1:
        msg = f"the splits have images of different shapes (HWC): {shapes}; make them equal"
        raise SourceError(msg)
    return sources


__all__ = ["KINDS", "SourceError", "first", "load"]
