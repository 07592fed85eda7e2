"""A loader whose samples are all there, and all right, and that no network learns from."""

from __future__ import annotations

from honest import NO_WORKERS, Honest, fails

from loaderproof.loaders import Promise

SHUFFLED = {Promise.SHUFFLE, Promise.RESHUFFLING, Promise.SEEDED_ORDER}


@fails("test_network_learns_as_from_resident_data", promises=NO_WORKERS - SHUFFLED)
class ClassAfterClass(Honest):
    """Promises no shuffle, and brings one class after the other."""

    def permutation(self) -> list[int]:
        labels = [label for _, label in self.source]
        return sorted(range(len(labels)), key=labels.__getitem__)
