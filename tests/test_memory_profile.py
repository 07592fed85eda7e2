"""The memory of a loader: what its processes hold, who allocated it, and what happens without memray."""

import importlib.util
import subprocess
from pathlib import Path

import psutil
import pytest
from judged_double import Double

from loaderproof.loaders import Request
from loaderproof.suite.diagnosis import memory, test_memory
from loaderproof.suite.diagnosis.recordings import Allocated, Allocations, Held
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Died, Subject

START_S = 60
MIB = 2**20
HELD_MIB = 64
LOADER = f"""
import os
import numpy as np
import torch
from torch.utils.data import DataLoader

class Samples:
    def __init__(self, source):
        self.source, self.kept = source, None

    def __len__(self):
        return len(self.source)

    def hoard(self):
        self.kept = np.ones({HELD_MIB} * 2**20, np.uint8)

    def __getitem__(self, place):
        if self.kept is None:
            self.hoard()
        image, label = self.source[place]
        return torch.from_numpy(image.copy()).permute(2, 0, 1) / 255, label

def hoarding(source, request):
    return DataLoader(Samples(source), batch_size=request.batch_size, num_workers=request.num_workers)

def spawning(source, request):
    context = "spawn" if request.num_workers else None
    return DataLoader(
        Samples(source), request.batch_size, num_workers=request.num_workers, multiprocessing_context=context
    )

class Deadly:
    def __iter__(self):
        os._exit(3)

def deadly(source, request):
    return Deadly()
"""

needs_memray = pytest.mark.skipif(not memory.is_installed(), reason="memray is not installed")
needs_pss = pytest.mark.skipif(
    not hasattr(psutil.Process().memory_full_info(), "pss"), reason="the kernel does not tell the PSS"
)


@pytest.fixture
def ask(tmp_path):
    """Ask one of those loaders in a process of its own."""
    (tmp_path / "own.py").write_text(LOADER)
    (tmp_path / "recordings").mkdir()
    made = []

    def ask(name: str, experiment: str, workers: int = 0, **more: object):
        made.append(Subject(f"{tmp_path / 'own.py'}:{name}", START_S))
        scenario = Scenario("probe:64:28x26x1:10", Request(batch_size=8, num_workers=workers), 1)
        words = {"scenario": scenario, "device": "emulated:5ms", **more}
        return made[-1].run(f"profiled_memory:{experiment}", **words)

    yield ask
    for one in made:
        one.close()


# What processes hold.


@needs_pss
@pytest.mark.parametrize("workers", [0, 2])
def test_memory_is_found_where_it_is_held(ask, workers):
    """What each worker hoards counts as the workers', and as the main process' where there is none."""
    held = ask("hoarding", "held", workers, seconds=1.0)

    assert workers == held.processes
    assert max(held.main, held.workers) <= held.tree <= held.main + held.workers
    assert max(workers, 1) * HELD_MIB * MIB <= held.tree - held.before
    assert (workers * HELD_MIB * MIB <= held.workers) if workers else (0 == held.workers)
    assert 1 <= held.samples


def test_the_report_says_what_is_more():
    """The table has a row for each role, and the growth since before the loader was opened."""
    text = memory.report_held(Held(100 * MIB, 90 * MIB, 200 * MIB, 280 * MIB, 2, 17))

    assert "17 samples of a run without profiler" in text
    assert "workers                            200 MiB  in 2 processes" in text
    assert "all together                       280 MiB  +180 MiB since before the loader was opened" in text


# Who allocated it.


@needs_memray
def test_allocations_are_named(ask, tmp_path):
    """In each forked worker the function that hoards is named with file, line and size; memray draws both."""
    found = ask("hoarding", "allocations", 2, folder=str(tmp_path / "recordings"))
    workers = [one for one in found if one.worker]
    troubles = [memory.draw(Path(one.file), tmp_path / "flames.html") for one in found]

    assert (3, 2) == (len(found), len(workers))
    for one in workers:
        greatest = one.functions[0]
        line = 1 + LOADER.splitlines().index(f"        self.kept = np.ones({HELD_MIB} * 2**20, np.uint8)")
        assert str(tmp_path / "own.py") == greatest.file or "numpy" in greatest.file
        assert HELD_MIB * MIB <= greatest.size <= one.peak < (HELD_MIB + 16) * MIB
        assert greatest.line == line or "numpy" in greatest.file
    assert [None] * 3 == troubles
    assert "<html" in (tmp_path / "flames.html").read_text()


@needs_memray
def test_workers_that_are_not_forked_are_not_followed(ask, tmp_path):
    """Of workers that are started anew nothing is recorded, and the report says so."""
    found = ask("spawning", "allocations", 1, folder=str(tmp_path / "recordings"))

    assert [False] == [one.worker for one in found]
    assert "no worker was recorded: memray follows processes that are forked" in memory.report_allocations(
        found, 1
    )
    assert "no worker" not in memory.report_allocations(found, 0)


@needs_memray
@pytest.mark.parametrize("experiment", ["held", "allocations"])
def test_a_loader_that_dies_is_told(ask, tmp_path, experiment):
    """A loader that ends its process while its memory is looked at is reported as one."""
    more = {"held": {"seconds": 1.0}, "allocations": {"folder": str(tmp_path / "recordings")}}

    with pytest.raises(Died, match="exit code 3"):
        ask("deadly", experiment, **more[experiment])


def test_the_report_names_the_greatest():
    """The main process and the greatest worker are told, with the functions that hold more than crumbs."""
    big, crumb = Allocated("hoard", "/me/a.py", 7, 64 * MIB, 1), Allocated("crumb", "/me/a.py", 9, 1024, 1)
    outside = Allocated("(outside of Python)", "", 0, 32 * MIB, 4)
    found = [
        Allocations("main.bin", worker=False, peak=32 * MIB, functions=[outside]),
        Allocations("main.bin.8", worker=True, peak=2 * MIB, functions=[]),
        Allocations("main.bin.9", worker=True, peak=66 * MIB, functions=[big, crumb]),
    ]

    text = memory.report_allocations(found, 2)

    assert "main process: at most 32.0 MiB" in text
    assert "     32.0 MiB  (outside of Python)\n" in text
    assert "greatest of 2 workers: at most 66.0 MiB" in text
    assert "     64.0 MiB  hoard (/me/a.py:7)" in text
    assert "crumb" not in text


# Where something is missing.


@pytest.mark.parametrize("held", [None, Held(1, 1, 0, 1, 0, 3)])
def test_without_memray_the_rest_is_told(monkeypatch, held):
    """Without memray the test is skipped with one sentence, after what the processes hold has been told."""
    subject = Double(held)
    monkeypatch.setattr(memory, "is_installed", lambda: False)

    with pytest.raises(pytest.skip.Exception, match="memray is not installed: pip install 'loaderproof"):
        test_memory.test_memory(subject)

    first = "peak of the proportional memory" if held else memory.NOT_TOLD
    assert [True, True] == [subject.told[0].startswith(first), subject.told[0].endswith(memory.NOT_INSTALLED)]
    assert (["memory"] if held else []) == subject.noted


def test_memray_is_looked_for(monkeypatch):
    """Whether memray is there is asked without importing it."""
    monkeypatch.setattr(importlib.util, "find_spec", {}.get)

    assert not memory.is_installed()


@pytest.mark.parametrize("text", ["", "no recording"])
def test_a_broken_recording_is_told(tmp_path, text):
    """Memray's own complaint stands where the picture would be named."""
    (tmp_path / "main.bin").write_text(text)

    trouble = memory.draw(tmp_path / "main.bin", tmp_path / "main.html")

    assert trouble.startswith("memray did not draw main.html: ")
    assert not (tmp_path / "main.html").exists()


def test_memray_that_does_not_end_is_told(monkeypatch, tmp_path):
    """A reporter that takes too long is ended, and said to be."""

    def run(words, timeout, **more):
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(subprocess, "run", run)

    assert "memray did not draw a.html within 120 s" == memory.draw(tmp_path / "a.bin", tmp_path / "a.html")
