"""What the tests of life and death take for granted: that undisturbed epochs are whole."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from loaderproof.suite.judged import Judged
from loaderproof.suite.observation import Epoch, Observation, Scenario

# What seems to be left is looked at many times before a loader is blamed for it.
PATIENCE = 4


def undisturbed(subject: Judged, scenario: Scenario) -> Observation:
    """Return what epochs look like that nothing disturbs; skip a loader whose epochs are never whole."""
    seen: Observation = subject.run("watching:watch", scenario)
    expect_whole(seen, seen.epochs)
    return seen


def expect_whole(seen: Observation, epochs: list[Epoch]) -> None:
    """Skip a loader whose epochs are not whole even if nothing disturbs them."""
    if not all(is_whole(seen, epoch) for epoch in epochs):
        pytest.skip("its epochs are not whole when nothing disturbs them, as other tests report")


def is_whole(seen: Observation, epoch: Epoch) -> bool:
    """Tell whether every sample came once, and then the end."""
    whole = np.repeat(np.arange(seen.count), seen.owed)
    return epoch.ended and np.array_equal(np.sort(epoch.index), whole)


def content(epoch: Epoch) -> Counter[tuple[int, int]]:
    """Return the samples of an epoch with their labels, in no order."""
    return Counter(zip(epoch.index.tolist(), epoch.label.tolist(), strict=False))


def difference(epoch: Epoch, other: Epoch) -> str:
    """Say by how much an epoch differs from what came undisturbed."""
    missing, more = content(other) - content(epoch), content(epoch) - content(other)
    end = "" if epoch.ended else ", and no end"
    return f"{len(epoch.index)} samples, {missing.total()} missing and {more.total()} too many or wrong{end}"


def workers_of(subject: Judged) -> int:
    """Return the number of workers; skip the case without any."""
    if subject.case.workers == 0:
        pytest.skip("this is the case without workers")
    return subject.case.workers


def once_for_each_number_of_workers(subject: Judged) -> None:
    """Skip all cases of a loader but the first with so many workers."""
    case = subject.case
    first = next(
        one for one in subject.session.cases() if (one.spec, one.workers) == (case.spec, case.workers)
    )
    if first.label != case.label:
        pytest.skip(f"a new interpreter takes seconds to start, so {first.label} stands for all variants")
