"""Coverage of as many samples as no machine holds: speed, memory, and ranks that add up.

    python tests/benchmarks/coverage.py [--samples 1000000 1000000000] [--ranks 3]

The samples are ids, whose hashes stand for those of images. They come shuffled, each rank with
its share; the sums of the ranks must add up to that of all ids in order, and must not once one
sample is left out for another that comes twice.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Iterator

import numpy as np

from loaderproof.suite.fingerprint import Coverage, mix, mixed

CHUNK = 65_536
CLASSES = 1_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, nargs="+", default=[10**6, 10**9])
    parser.add_argument("--ranks", type=int, default=3)
    asked = parser.parse_args()
    print(f"{'samples':>13}  {'samples/s':>11}  {'peak memory':>11}  ranks add up  a swap is seen")
    for count in asked.samples:
        owed = covered(in_order(count))
        began = time.perf_counter()
        parts = [covered(shuffled(count, rank, asked.ranks)) for rank in range(asked.ranks)]
        speed = count / (time.perf_counter() - began)
        came = sum(parts, Coverage())
        swapped = Coverage(came.count, (came.total - of_one(0) + of_one(1)) % 2**64)
        print(
            f"{count:>13,}  {speed:>11,.0f}  {peak_mib():>7.1f} MiB  {came == owed!s:>12}  {swapped != owed!s:>14}"
        )


def covered(chunks: Iterator[np.ndarray]) -> Coverage:
    """Return the coverage of chunks of ids (uint64)."""
    return sum((Coverage.of(hashes(ids)) for ids in chunks), Coverage())


def hashes(ids: np.ndarray) -> np.ndarray:
    """Return the hashes of samples whose images and labels follow from their ids."""
    return mixed(mix(ids), (ids % np.uint64(CLASSES)).astype(np.int64))


def of_one(place: int) -> int:
    """Return the hash of one sample."""
    return int(hashes(np.array([place], np.uint64))[0])


def in_order(count: int) -> Iterator[np.ndarray]:
    """Yield all ids in order."""
    return (np.arange(start, min(start + CHUNK, count), dtype=np.uint64) for start in range(0, count, CHUNK))


def shuffled(count: int, rank: int, ranks: int) -> Iterator[np.ndarray]:
    """Yield the ids of one rank in another order: a step that shares no factor with their number visits all."""
    step = next(step for step in range(int(count * 0.618), 2 * count) if math.gcd(step, count) == 1)
    for places in in_order(count):
        mine = places[places % np.uint64(ranks) == rank]
        yield mine * np.uint64(step) % np.uint64(count)


def peak_mib() -> float:
    """Return the most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
