"""What is learned of own data before a loader is judged by it, in the loader's process."""

from __future__ import annotations

from loaderproof.loaders import sources
from loaderproof.suite.experiments.records import FirstPass
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario
from loaderproof.suite.own_data import Facts


class NothingCame(RuntimeError):
    """The first pass was empty."""


def facts(bench: Workbench, scenario: Scenario, splits: tuple[str, ...]) -> Facts:
    """Read the data once.

    Args:
        bench: holds the loader.
        scenario: over the training split.
        splits: that the loader can be asked for.

    Raises:
        NothingCame: there is no truth, and the loader delivered nothing to be compared with.
    """
    catalogue = bench.catalogue(scenario)
    count = len(catalogue.labels)
    if not isinstance(catalogue, FirstPass):
        train = sources.load(scenario.data)["train"]
        whole = getattr(train, "whole", train) is not train
        return Facts(count, tuple(split for split in splits if split == "train" or not whole))
    if not count:
        msg = "the first pass gave no batch of images with a label each, so there is nothing to go by"
        raise NothingCame(msg)
    return Facts(count, splits, catalogue.fresh, catalogue.again, catalogue.has_ids)
