"""What comes beyond the edges: after the end of an epoch, and of requests that make no sense."""

from __future__ import annotations

from loaderproof.suite.conformance.scenarios import plain, refusals
from loaderproof.suite.judged import Judged, Place


def test_exhausted_iterator_stays_exhausted(subject: Judged) -> None:
    """An iterator that has come to its end raises StopIteration each time that it is asked again.

    Why: whatever looks for the end twice, such as `zip`, a prefetcher or a retry, gets the samples of
    another epoch, or an exception in place of the end.

    Causes: an iterator that starts itself anew when it is empty, or that is closed by its end and
    complains of that.

    Remedy: write `__iter__` as a generator, or keep a flag and raise StopIteration while it is set.
    """
    scenario = plain(subject)
    for turn, came in enumerate(subject.run("edges:past_the_end", scenario)):
        if came != "StopIteration":
            subject.fail(
                Place(scenario, 0),
                expected="StopIteration, each time that next() is called after the end",
                got=f"{came}, at call {turn + 1} after the end",
                hint="an iterator that begins again when it is empty, or that complains of being closed",
            )


def test_bad_arguments_are_refused(subject: Judged) -> None:
    """No batch comes of a request that makes no sense: batch size 0 or -1, -1 workers, rank 2 of 2.

    Why: a slip in a configuration, such as a rank counted from 1, trains on the wrong data for days
    instead of stopping at once.

    Causes: `max(1, batch_size)` or `batch_size or default`, a rank taken modulo the world size, a
    slice `order[rank::world_size]`, which takes any rank.

    Remedy: raise a ValueError when the loader is opened that names the argument and its value.
    """
    for asked, scenario in refusals(subject).items():
        came = subject.run("edges:first_batch", scenario)
        if came:
            subject.fail(
                Place(scenario, 0),
                expected=f"an exception for {asked}, when it is opened or at the first batch",
                got=f"a batch of {came} samples",
                hint="the argument is not checked, or it is replaced by one that makes sense",
            )
