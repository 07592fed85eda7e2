"""The sources of truth, by the names that `--loader-data` takes."""

from __future__ import annotations

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.probe import SHAPE, CLASSES, probe


def load(spec: str) -> dict[str, Source]:
    """Return the source of each split for a name such as `glyphs:1000` or `probe:23`."""
    kind, _, rest = spec.partition(":")
    if kind == "probe":
        parts = rest.split(":") if rest else ["23"]
        count = int(parts[0])
        shape = tuple(int(side) for side in parts[1].split("x")) if len(parts) > 1 else SHAPE
        classes = int(parts[2]) if len(parts) > 2 else CLASSES
        return {split: probe(count, split, shape, classes) for split in ("train", "test")}
    raise ValueError(spec)
