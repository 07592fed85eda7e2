"""What loading is for."""

from __future__ import annotations

import pytest

from loaderproof.suite.judged import Judged, Place

TRAINING, TESTING = 3_200, 1_000
# Eight seeds of the resident loader reach 0.863 to 0.894 on glyphs and 0.714 to 0.776 on Fashion-MNIST, a
# standard deviation of 0.019. Two right loaders then differ by more than this once in ten thousand times,
# and one that loses its labels falls to 0.1.
TOLERANCE = 0.10


def test_network_learns_as_from_resident_data(subject: Judged) -> None:
    """One epoch of real training reaches the accuracy that it reaches on samples held in memory.

    Why: this is what loading is for. A fault that no other test looks for shows here if it harms training.

    Causes: labels apart from their samples, values off their range, or one part of the data over and over.

    Remedy: mend first what other tests of this loader report. If there is nothing, look at a batch as a
    picture with its label.
    """
    first = subject.session.first_of(subject.case.spec)
    if subject.case.label != first.label:
        pytest.skip(f"real training is slow, so that of {first.label} stands for all variants")
    training = subject.data_scenario("train", TRAINING, shuffle=True, seed=subject.seed)
    testing = subject.data_scenario("test", TESTING, batch_size=500)
    owed = subject.reference_accuracy(training, testing)
    got = subject.run("learning:accuracy", training, testing=testing, times=4)
    if got < owed - TOLERANCE:
        subject.fail(
            Place(training),
            expected=f"an accuracy of {owed:.1%}, as on resident data, less {TOLERANCE:.0%} at the most",
            got=f"{got:.1%}",
            hint="labels apart from their samples, values off their range, one part of the data over and over",
        )
