"""What the built-in adapters deliver, observed in a process of its own, as TensorFlow needs one.

Run as `python adapter_facts.py OUTPUT.json`.
"""

import importlib.util
import json
import random
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from loaderproof.loaders import Adapter, Promise, Request, Source, Variant, registry
from loaderproof.loaders._tensorflow import import_tensorflow
from loaderproof.loaders.sources.probe import probe
from loaderproof.loaders.tf_slices import TfSlices
from loaderproof.loaders.tfds_numpy import Options as NumpyOptions
from loaderproof.loaders.tfds_numpy import TfdsNumpy

# Samples, batch size, drop_last.
IN_ORDER = (
    (1, 1, False),
    (1, 4, False),
    (1, 4, True),
    (23, 4, False),
    (23, 4, True),
    (23, 23, True),
    (23, 64, False),
)
SHUFFLED = {"small": (23, 4), "wide": (1000, 100)}
WORLD = 3
# What no loader can do.
SENSELESS: dict[str, dict[str, int]] = {
    "batch_size=0 ": {"batch_size": 0},
    "num_workers=-1 ": {"num_workers": -1},
    "world_size=0 ": {"world_size": 0},
    "rank=-1 ": {"rank": -1, "world_size": 2},
    "rank=2 ": {"rank": 2, "world_size": 2},
}


def main(output: str) -> None:
    """Write the facts about every built-in adapter, or what it raised."""
    found: dict[str, Any] = {}
    imported = process()
    for name in registry.BUILTIN:
        try:
            found[name] = facts(registry.load(name))
        except Exception:  # noqa: BLE001  # told by the test that reads it
            found[name] = {"error": traceback.format_exc()}
    Path(output).write_text(json.dumps({"adapters": found, "process": imported, "tuned": tuned()}))


def tuned() -> dict[str, bool]:
    """Tell for which pipelines of tf.data the thread that tunes them was not switched off."""
    source, request = probe(23), Request(batch_size=4)
    pipelines = {"tf_slices": TfSlices.pipeline(source, request)}
    with tempfile.TemporaryDirectory() as root:
        TfdsNumpy().prepare(source, Path(root))
        for name, variant in TfdsNumpy.description.variants.items():
            options = NumpyOptions(**variant.options)
            pipelines[f"tfds_numpy {name}"] = TfdsNumpy.pipeline(23, Path(root), request, options)
    return {name: pipeline.options().autotune.enabled is not False for name, pipeline in pipelines.items()}


def process() -> dict[str, Any]:
    """Import TensorFlow, and tell what that did to this process."""
    before = random_states()
    tf = import_tensorflow()
    return {
        "gpus": len(tf.config.get_visible_devices("GPU")),
        "randomness": before == random_states(),
        "triton_is_first": first_import("triton") < first_import("tensorflow"),
    }


def first_import(name: str) -> float:
    """Return the place of a module in the order of imports; -1 if it is not installed."""
    if importlib.util.find_spec(name) is None:
        return -1
    return list(sys.modules).index(name)


def facts(adapter: Adapter) -> dict[str, Any]:
    """Tell what each variant of an adapter delivers."""
    told: dict[str, Any] = {}
    sources = {count: probe(count, shape=(6, 5, 3), classes=10) for count in (1, 23, 1000)}
    with tempfile.TemporaryDirectory() as root:
        for count, source in sources.items():
            directory = Path(root, str(count))
            directory.mkdir()
            adapter.prepare(source, directory)
        for name, variant in adapter.description.variants.items():
            for workers in (0, 2) if Promise.WORKERS in adapter.description.promises else (0,):
                told[f"{name}/{workers}"] = Setup(adapter, variant, workers, sources, Path(root)).facts()
    return told


class Setup:
    """One adapter in one variant, with one number of workers."""

    def __init__(
        self, adapter: Adapter, variant: Variant, workers: int, sources: dict[int, Source], root: Path
    ) -> None:
        self.adapter, self.variant, self.workers = adapter, variant, workers
        self.sources, self.root = sources, root

    def open(self, count: int, **asked: Any) -> Any:
        request = Request(num_workers=self.workers, options=self.variant.options, **asked)
        return self.adapter.open(self.sources[count], self.root / str(count), request)

    def facts(self) -> dict[str, Any]:
        before = random_states()
        told = {
            "in_order": [self.in_order(*case) for case in IN_ORDER],
            "shuffled": {name: self.orders(*case, seed=1) for name, case in SHUFFLED.items()},
            "again": self.orders(*SHUFFLED["small"], seed=1),
            "other_seed": self.orders(*SHUFFLED["small"], seed=2),
            "after_break": self.orders(*SHUFFLED["small"], seed=1, broken=True),
            "left": self.left(),
            "refused": [self.refusal(asked) for asked in SENSELESS.values()],
        }
        if Promise.SHARDING in self.adapter.description.promises:
            told["ranks"] = [
                self.rank(rank, drop_last=drop) for drop in (False, True) for rank in range(WORLD)
            ]
        if Promise.AUGMENTATION in self.adapter.description.promises:
            told["augmented"] = self.augmented()
        return {**told, "randomness": before == random_states()}

    def in_order(self, count: int, batch_size: int, drop_last: bool) -> dict[str, Any]:  # noqa: FBT001
        loader = self.open(count, batch_size=batch_size, drop_last=drop_last)
        # Writing into batches must not change what comes in the second epoch.
        epochs = [observed(self.sources[count], loader, overwrite=True) for _ in range(2)]
        told = {"len": len(loader), "epochs": epochs}
        close(loader)
        return told

    def orders(self, count: int, batch_size: int, seed: int, *, broken: bool = False) -> list[list[int]]:
        loader = self.open(count, batch_size=batch_size, shuffle=True, seed=seed)
        if broken:
            next(iter(loader))
        found = [observed(self.sources[count], loader)["order"] for _ in range(2 if broken else 3)]
        close(loader)
        return found

    def refusal(self, asked: dict[str, int]) -> str | None:
        """Return what is said to a request that makes no sense; None if it is fulfilled."""
        request = Request(**{"num_workers": self.workers, "options": self.variant.options, **asked})
        try:
            close(self.adapter.open(self.sources[23], self.root / "23", request))
        except ValueError as error:
            return str(error)
        return None

    def rank(self, rank: int, *, drop_last: bool) -> dict[str, Any]:
        """Tell what one rank gets in two shuffled epochs."""
        asked = {"shuffle": True, "seed": 1, "drop_last": drop_last, "world_size": WORLD}
        loader = self.open(23, batch_size=4, rank=rank, **asked)
        epochs = [observed(self.sources[23], loader) for _ in range(2)]
        told = {"len": len(loader), "sizes": [epoch["sizes"] for epoch in epochs]}
        close(loader)
        return {**told, "orders": [epoch["order"] for epoch in epochs]}

    def augmented(self) -> dict[str, Any]:
        """Tell what was drawn, by the name of the run, and how the samples were changed."""
        asked = {"batch_size": 4, "augment": True}
        runs = {
            "plain": self.drawn(**asked),
            "again": self.drawn(**asked),
            "shuffled": self.drawn(shuffle=True, **asked),
            "other_seed": self.drawn(seed=1, **asked),
            **{f"rank {rank}": self.drawn(rank=rank, world_size=2, **asked) for rank in range(2)},
        }
        source = self.sources[1]
        loader = self.open(1, batch_size=1, augment=True)
        truth = source.arrays()[0].astype(np.float32).transpose(0, 3, 1, 2) / 255
        images = [next(iter(loader))[0].numpy() for _ in range(8)]
        close(loader)
        return {
            "runs": runs,
            "versions": len({image.tobytes() for image in images}),
            "range": [float(np.min(images)), float(np.max(images))],
            "change": float(max(np.abs(image.mean() - truth.mean()) for image in images)),
        }

    def drawn(self, **asked: Any) -> list[dict[str, list[float]]]:
        """Return what was drawn in two epochs, by its name, in the order of the samples in the source."""
        loader = self.open(23, **asked)
        epochs = []
        for _ in range(2):
            extras = [batch[2] for batch in loader]
            joined = {name: torch.cat([one[name] for one in extras]) for name in extras[0]}
            order = joined["id"].argsort()
            epochs.append({name: value[order].tolist() for name, value in joined.items()})
        close(loader)
        return epochs

    def left(self) -> list[int]:
        """Return the processes that are left of a loader that is closed amid an epoch."""
        loader = self.open(23, batch_size=4)
        epoch = iter(loader)
        next(epoch)
        close(loader)
        return [child.pid for child in psutil.Process().children()]


def observed(source: Source, loader: Any, *, overwrite: bool = False) -> dict[str, Any]:
    """Tell what came in one epoch."""
    images, labels = source.arrays()
    truth = torch.from_numpy(images).permute(0, 3, 1, 2).to(torch.float32).div_(255)
    places = {image.tobytes(): place for place, image in enumerate(images)}
    told: dict[str, Any] = {"sizes": [], "order": [], "error": 0.0, "labels": True, "kinds": []}
    for batch, targets in loader:
        batch, targets = batch.cpu(), targets.cpu()  # noqa: PLW2901  # the resident loader may use CUDA
        order = [places.get(image.tobytes(), -1) for image in as_bytes(batch)]
        told["sizes"].append(len(batch))
        told["order"] += order
        told["error"] = max(told["error"], float((batch - truth[order]).abs().max()))
        told["labels"] &= targets.tolist() == labels[order].tolist()
        told["kinds"].append([str(batch.dtype), str(targets.dtype), batch.is_contiguous()])
        if overwrite:
            batch.fill_(0.5)
            targets.fill_(7)
    return told


def as_bytes(batch: torch.Tensor) -> np.ndarray:
    """Return images as uint8, NHWC."""
    return np.ascontiguousarray((batch * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())


def close(loader: Any) -> None:
    """Close a loader that can be closed."""
    getattr(loader, "close", lambda: None)()


def random_states() -> list[Any]:
    """Return the state of every global generator."""
    return [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]  # noqa: NPY002


if __name__ == "__main__":
    main(sys.argv[1])
