"""Whether batches are complete when they are handed out; in the process of the loader."""

from __future__ import annotations

import itertools
import time

import torch

from loaderproof.suite.experiments.recorder import as_array, pairs
from loaderproof.suite.experiments.workbench import Workbench, start_epoch
from loaderproof.suite.observation import Scenario

# Long for a copy of a small batch, and for a thread that waits for its turn.
PAUSE_S = 0.03


def unfinished(bench: Workbench, scenario: Scenario) -> list[int]:
    """Look at each batch at once and after a pause in which nothing is asked of the loader.

    Returns:
        The numbers of the batches that changed in the pause.
    """
    changed = []
    with bench.opened(scenario) as loader:
        start_epoch(loader, 0)
        batches = itertools.islice(pairs(loader), 2 * len(bench.source(scenario)) + 4)
        for number, (images, labels) in enumerate(batches):
            before = _bytes(images), _bytes(labels)
            time.sleep(PAUSE_S)
            if before != (_bytes(images), _bytes(labels)):
                changed.append(number)
    return changed


def _bytes(tensor: torch.Tensor) -> bytes:
    """Return a copy of what a tensor holds this very moment."""
    # Reading must not let a thread of the loader run first: torch's operations release the
    # interpreter's lock, and this does not.
    if tensor.device.type == "cpu" and tensor.dtype != torch.bfloat16 and not tensor.requires_grad:
        return tensor.numpy().tobytes()
    return as_array(tensor).tobytes()
