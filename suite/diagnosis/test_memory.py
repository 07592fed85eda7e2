"""The memory of a loader while it trains: what its processes hold, and which functions allocated it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from loaderproof.suite.diagnosis import memory
from loaderproof.suite.diagnosis.profiled import profiled
from loaderproof.suite.diagnosis.recordings import Allocations
from loaderproof.suite.judged import Judged

SECTION = "memory: what a loader's processes hold"
SECONDS = 3.0


@pytest.mark.diagnosis
def test_memory(subject: Judged) -> None:
    """The loader trains once unprofiled, while its memory is looked at, and once with memray beside it."""
    held = profiled(subject, "profiled_memory:held", seconds=SECONDS)
    parts = [memory.report_held(held) if held else memory.NOT_TOLD]
    if held:
        subject.note("memory", vars(held))
    if not memory.is_installed():
        subject.tell(SECTION, "\n\n".join([*parts, memory.NOT_INSTALLED]))
        pytest.skip(memory.NOT_INSTALLED)
    with tempfile.TemporaryDirectory(prefix="loaderproof-") as folder:
        found: list[Allocations] = profiled(subject, "profiled_memory:allocations", folder=folder)
        parts += [memory.report_allocations(found, subject.case.workers), _pictures(subject, found)]
    subject.tell(SECTION, "\n\n".join(parts))


def _pictures(subject: Judged, found: list[Allocations]) -> str:
    folder, worker = subject.report_folder(), memory.greatest_worker(found)
    drawn = {"memory.html": found[0], **({"memory-worker.html": worker} if worker else {})}
    troubles = {name: memory.draw(Path(one.file), folder / name) for name, one in drawn.items()}
    return "\n".join(trouble or f"file: {folder / name}" for name, trouble in troubles.items())
