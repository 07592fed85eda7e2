"""PyTorch's loader, and the same made slower by a known share of the time that each batch takes."""

import time
from pathlib import Path

from loaderproof.loaders import registry


class Slowed:
    """Hands out another loader's batches, each later by a share of the time that it took."""

    def __init__(self, loader, share):
        self._loader, self._share = loader, share

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        batches = iter(self._loader)
        while True:
            asked = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            # Busy as a slower loader would be; a pause would be longer than asked for.
            until = asked + (1 + self._share) * (time.perf_counter() - asked)
            while time.perf_counter() < until:
                pass
            yield batch


def slowed(share):
    """Return a loader that takes longer by a share."""

    def make(source, request):
        inner = registry.load("torch_dataloader").open(source, Path(), request)
        return Slowed(inner, share)

    return make


base, by_3, by_5, by_10, by_20 = (slowed(share) for share in (0.0, 0.03, 0.05, 0.10, 0.20))
