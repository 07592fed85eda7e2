"""The orders that the built-in loaders gave for one seed when they were recorded.

Run as `python -m loaderproof.suite.pinned` it records them anew, with the versions of what is installed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from loaderproof.loaders import registry
from loaderproof.loaders.contract import Promise
from loaderproof.suite.conformance.scenarios import COLOUR
from loaderproof.suite.observation import Observation, Scenario
from loaderproof.suite.session import Case, cases_of
from loaderproof.suite.subject import Subject

FILE = Path(__file__).with_name("golden") / "orders.json"
SEED = 1
_WORKERS = (0, 2)
_TIMEOUT_S = 120
# Distributions that bring a module of another name; the first that is installed counts.
_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "tensorflow_datasets": ("tensorflow-datasets",),
}


class OrderChanged(UserWarning):
    """A seed gives another order than with the libraries of some other day."""


@dataclass(frozen=True)
class Pinned:
    """What was recorded of one loader.

    Attributes:
        versions: of the libraries, by name of their module.
        orders: places in the source, for each epoch.
    """

    versions: dict[str, str]
    orders: list[list[int]]

    def complaint(self, orders: list[list[int]], versions: dict[str, str]) -> str | None:
        """Return what to tell whoever gets other orders today, or None.

        Args:
            orders: today's.
            versions: today's.
        """
        if orders == self.orders:
            return None
        epoch = next(
            k for k, (one, other) in enumerate(zip(orders, self.orders, strict=False)) if one != other
        )
        return (
            f"seed {SEED} gives another order than when it was recorded, first in epoch {epoch}: "
            f"{orders[epoch][:8]} instead of {self.orders[epoch][:8]}. Recorded with {_listed(self.versions)},"
            f" now {_listed(versions)}. Runs of then cannot be repeated with what is installed now; if that"
            " is as it must be, record anew: python -m loaderproof.suite.pinned"
        )


def recorded(file: Path = FILE) -> dict[str, Pinned]:
    """Return what was recorded, by label of the case."""
    return {label: Pinned(**entry) for label, entry in json.loads(file.read_text(encoding="utf-8")).items()}


def orders_of(seen: Observation) -> list[list[int]]:
    """Return the order of each epoch."""
    return [epoch.index.tolist() for epoch in seen.epochs]


def versions_of(case: Case) -> dict[str, str]:
    """Return the versions of the libraries that a loader needs, and of NumPy."""
    return {module: _version(module) for module in ("numpy", *case.description.requires)}


def _version(module: str) -> str:
    for name in _DISTRIBUTIONS.get(module, (module,)):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "an unknown version"


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def scenario_of(case: Case) -> Scenario:
    """Return what a loader is asked for: three epochs in a random order."""
    return Scenario(COLOUR, case.request(batch_size=4, shuffle=True, seed=SEED), epochs=3)


def record() -> dict[str, Any]:
    """Return what to record of every built-in loader that can run here and delivers all samples."""
    found = {}
    for spec in registry.BUILTIN:
        description = registry.load(spec).description
        if registry.missing(description) or Promise.SEEDED_ORDER not in description.promises:
            continue
        subject = Subject(spec, _TIMEOUT_S)
        try:
            for case in cases_of(spec, description, _WORKERS):
                seen = subject.run("watching:watch", scenario=scenario_of(case))
                orders = orders_of(seen)
                if all(sorted(order) == list(range(seen.count)) for order in orders):
                    found[case.label] = {"versions": versions_of(case), "orders": orders}
        finally:
            subject.close()
    return found


def text_of(found: dict[str, Any]) -> str:
    """Return what was recorded as JSON, an epoch a line."""
    blocks = []
    for label, entry in sorted(found.items()):
        orders = ",\n".join(f"      {json.dumps(order)}" for order in entry["orders"])
        blocks.append(
            f'  {json.dumps(label)}: {{\n    "versions": {json.dumps(entry["versions"])},\n'
            f'    "orders": [\n{orders}\n    ]\n  }}'
        )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> None:
    """Write the file anew."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text_of(record()), encoding="utf-8")


if __name__ == "__main__":
    main()
