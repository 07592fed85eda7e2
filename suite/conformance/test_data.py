"""The same on the data of the run, whole: coverage in constant memory, by a sum of hashes."""

from __future__ import annotations

import pytest

from loaderproof.suite.judged import Judged, Place

# A whole epoch of real data may take many times what one over a small probe takes.
PATIENCE = 10


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_sample_of_the_data_once(subject: Judged, split: str) -> None:
    """Every sample of the data comes exactly once in an epoch, with its label."""
    if subject.case.description.tolerance:
        pytest.skip("its values are not exact, so whole data cannot be told by them; the small probes are")
    scenario = subject.data_scenario(split, shuffle=True, seed=subject.seed)
    found = subject.run("experiments:coverage", scenario, times=PATIENCE)
    if not found.complete:
        different = subject.run("experiments:difference", scenario, times=PATIENCE)
        subject.fail(
            Place(scenario),
            expected=f"each of {found.owed.count} samples once",
            got=f"{found.came.count} samples; {different}",
            hint="values or layout that differ from the source's"
            if different.foreign and different.foreign == len(different.missing)
            else "a rest that is dropped or filled up, a shard that is read twice or never, labels gone astray",
        )
