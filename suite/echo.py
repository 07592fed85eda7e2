"""Whether draws repeat others that they should know nothing of.

Draws may be fine, a number between 0 and 1, or coarse, a flip or none; some repeat by chance. So
each function compares how often one stream agrees with a second one to how often it agrees with a
third, which is drawn apart from both, and returns the chance that draws without a fault differ so
much (Fisher's exact test). Where all three are one and the same, a stream that repeats the whole of
another is no chance either, if it changes often enough.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loaderproof.suite.draws import Stream, hypergeometric

# What no right loader shows: no conformance test makes more than 100 comparisons, so that one of
# them goes wrong with probability 1e-9 at the most. tests/test_randomness.py measures that the
# chances are not understated.
RARE = 1e-11


def alike(same: int, other: int, of: int) -> float:
    """Return the chance that one of two equal rates shows so many more events than the other.

    Args:
        same: events among the first.
        other: events among the second.
        of: number of trials of each.
    """
    return 1.0 if same <= other else hypergeometric(same, same + other, of, 2 * of)


def in_order(one: Stream, other: Stream, apart: Stream) -> float:
    """Return the chance that a stream repeats another so well in the order in which they come.

    Args:
        one: the stream that might be repeated.
        other: the stream that might repeat it.
        apart: a stream of the same kind that is drawn apart from both.
    """
    streams = _thinned(one, other, apart)
    count = min(map(len, streams))
    values = np.stack([stream.values[:count] for stream in streams])
    if count and any(stream.by_batch for stream in (one, other, apart)):
        # A draw that batches share is one draw, and so is one that changes every few batches.
        new = np.concatenate([[True], np.any(values[:, 1:] != values[:, :-1], axis=0)])
        values = values[:, new]
    return _repeats(*values)


def by_id(one: Stream, other: Stream, apart: Stream) -> float:
    """Return the chance that a stream repeats another so well sample by sample; see `in_order`.

    A draw that batches share belongs to no sample, and is not judged here.
    """
    if any(stream.by_batch for stream in (one, other, apart)):
        return 1.0
    places = [np.unique(stream.ids, return_index=True) for stream in (one, other.thinned, apart)]
    common = np.intersect1d(np.intersect1d(places[0][0], places[1][0]), places[2][0])
    values = [
        stream.values[first[np.searchsorted(ids, common)]]
        for stream, (ids, first) in zip((one, other.thinned, apart), places, strict=True)
    ]
    return _repeats(*values)


def as_set(one: Stream, other: Stream, apart: Stream) -> float:
    """Return the chance that a stream holds so many values of another, in any order; see `in_order`."""
    if other.by_batch or apart.by_batch:
        return 1.0
    one, other, apart = _thinned(one, other, apart)
    count = min(len(other), len(apart))
    same, by_chance = (int(np.isin(stream.values[:count], one.values).sum()) for stream in (other, apart))
    return alike(same, by_chance, count)


def within(one: Stream, apart: Stream) -> float:
    """Return the chance that batches of a stream hold so many draws of the batches before them.

    Args:
        one: the stream.
        apart: a stream of the same kind that is drawn apart from it.
    """
    if one.by_batch or apart.by_batch:
        return 1.0
    one, apart = _thinned(one, apart)
    start = np.searchsorted(one.batch, one.batch)
    again, by_chance = (_first(stream.values, one.values) < start for stream in (one, apart))
    return alike(int(again.sum()), int(by_chance.sum()), len(one))


def depend(one: np.ndarray, other: np.ndarray) -> float:
    """Return the chance that so many samples that are high in one epoch are high in another, too.

    High is what lies above the middle.

    Args:
        one: N; some figure of each sample.
        other: N; the same figure in another epoch.
    """
    high, again = _upper(one), _upper(other)
    return hypergeometric(int((high & again).sum()), int(high.sum()), int(again.sum()), len(one))


def dealt(one: Stream, workers: int) -> Iterator[list[np.ndarray]]:
    """Yield the places that each worker may have had: batches in turn, samples in turn, or a part in one piece."""
    turns = np.arange(len(one))
    for turn in (one.batch, turns, turns * workers // max(1, len(one))):
        yield [np.flatnonzero(turn % workers == worker) for worker in range(workers)]


def _repeats(one: np.ndarray, other: np.ndarray, apart: np.ndarray) -> float:
    same, by_chance = int((one == other).sum()), int((one == apart).sum())
    # At least a coin was tossed wherever the stream changes.
    whole = 0.5 ** int((one[1:] != one[:-1]).sum()) if same == len(one) else 1.0
    return min(whole, alike(same, by_chance, len(one)))


def _thinned(*streams: Stream) -> list[Stream]:
    """Return all streams thinned if one of them needs it, so that they still go side by side."""
    thinned = [stream.thinned for stream in streams]
    if all(one is other for one, other in zip(thinned, streams, strict=True)):
        return list(streams)
    return [stream.part(np.diff(stream.batch, prepend=-1) != 0) for stream in streams]


def _first(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the place of the first of `values` that equals each of those wanted; behind all if none does."""
    known, first = np.unique(values, return_index=True)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, first[place], len(values) + len(wanted))


def _upper(values: np.ndarray) -> np.ndarray:
    """Return which values lie above the middle, or next to it where many are equal."""
    middle = np.median(values)
    above: np.ndarray = values > middle
    least: np.ndarray = values >= middle
    return above if abs(above.mean() - 0.5) <= abs(least.mean() - 0.5) else least
