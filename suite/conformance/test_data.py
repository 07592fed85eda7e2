"""The same on the data of the run, whole: coverage in constant memory, by a sum of hashes."""

from __future__ import annotations

import pytest

from loaderproof.suite.judged import Judged, Place

# Samples of each split in which strangers are looked for, for so many epochs.
FEW, EPOCHS = 500, 3
# A whole epoch of real data may take many times what one over a small probe takes.
PATIENCE = 10


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_sample_of_the_data_once(subject: Judged, split: str) -> None:
    """Every sample of the data comes exactly once in an epoch, with its label.

    Why: what is right on a small probe can be wrong on real data: a shard that is read twice, a file
    of another size, an index that no longer fits its type.

    Reports: webdataset/webdataset#158, huggingface/datasets#3423, ray-project/ray PR#65044

    Causes: a rest that is dropped or filled up, a shard that is read twice or never, labels that go
    astray, values or a layout that differ from the source's.

    Remedy: as the failures on the small probes say, if there are any; else compare the files that
    the loader reads with the data, and the counts that it keeps of them.
    """
    scenario = subject.data_scenario(split, shuffle=True, seed=subject.seed)
    if subject.case.description.tolerance and not subject.run("watching:carries_ids", scenario):
        pytest.skip(
            "its values are not exact, and its batches carry no ids: the small probes are told by values"
        )
    found = subject.run("watching:coverage", scenario, times=PATIENCE)
    if not found.complete:
        different = subject.run("watching:difference", scenario, times=PATIENCE)
        subject.fail(
            Place(scenario),
            expected=f"each of {found.owed.count} samples once",
            got=f"{found.came.count} samples; {different}",
            hint="values or layout that differ from the source's"
            if different.foreign and different.foreign == len(different.missing)
            else "a rest that is dropped or filled up, a shard that is read twice or never, labels gone astray",
        )


def test_train_and_test_are_disjoint(subject: Judged) -> None:
    """No sample of the test data comes in an epoch of training, nor the other way round, in any epoch.

    Why: a model that has seen its test data is as good in the report as it is bad in use.

    Reports: huggingface/datasets#5435, marin-community/marin PR#2700

    Causes: splits taken by position from an order that is drawn anew for each epoch, or one cache
    for both of them.

    Remedy: split before shuffling, once, by a fixed order; and keep a cache for each split.
    """
    if subject.case.description.tolerance:
        pytest.skip("its values are not exact, so its samples cannot be told by them")
    training, testing = (
        subject.data_scenario(split, FEW, EPOCHS, shuffle=True, seed=subject.seed)
        for split in ("train", "test")
    )
    for epoch, split, count in subject.run("edges:strangers", training, times=PATIENCE, other=testing):
        subject.fail(
            Place(testing if split == "test" else training, epoch),
            expected=f"no sample of the other split in {split}",
            got=f"{count} of them",
            hint="splits cut out of an order that is drawn anew, or one cache for both",
        )
