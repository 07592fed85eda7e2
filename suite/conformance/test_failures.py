"""What a loader does when something goes wrong, and when it is over."""

from __future__ import annotations

import numpy as np
import pytest

from loaderproof.suite.conformance.scenarios import plain, shuffled
from loaderproof.suite.judged import Judged, Place

POISONED = 9


@pytest.mark.parametrize("error", ["ValueError", "KeyError", "OSError"])
def test_errors_surface(subject: Judged, error: str) -> None:
    """An exception while a sample is read reaches whoever iterates, with its message."""
    scenario = plain(subject)
    read = subject.run("experiments:watch", scenario).epochs[0].index
    if POISONED not in read and np.all(read >= 0):
        pytest.skip(f"sample #{POISONED} is not read at all, as test_every_sample_once reports")
    message = f"sample {POISONED} cannot be read: poison"
    outcome = subject.run("experiments:poison", scenario, place=POISONED, error=error, message=message)
    if outcome.raised is None or message not in outcome.raised:
        subject.fail(
            Place(scenario),
            expected=f"an exception that says {message!r}",
            got=f"{outcome.came} samples and no exception"
            if outcome.raised is None
            else f"another exception: {outcome.raised.splitlines()[-1]}",
            hint="an except that skips, retries or replaces, or a thread that dies alone",
        )


def test_nothing_is_left_behind(subject: Judged) -> None:
    """A loader that is used, left early and closed leaves no process, thread, descriptor or shared memory."""
    scenario = shuffled(subject)
    left = subject.run("experiments:left_behind", scenario)
    if left:
        subject.fail(
            Place(scenario),
            expected="what was there before",
            got="; ".join(left),
            hint="workers or threads that are not joined, files that are not closed; give the loader a close()",
        )
