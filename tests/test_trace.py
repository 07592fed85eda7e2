"""Traces of torch: what is in them, what cannot be, and how both are told."""

import json
from pathlib import Path

import pytest
from judged_double import Double

from loaderproof.loaders import Request
from loaderproof.suite.diagnosis import test_trace, tracing
from loaderproof.suite.diagnosis.recordings import UNSEEN, Operation, Trace
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Died, Subject

START_S = 60
STEPS = 4
LOADER = """
import os
from torch.utils.data import DataLoader, TensorDataset
import torch

def right(source, request):
    images, labels = source.arrays()
    data = TensorDataset(torch.from_numpy(images).permute(0, 3, 1, 2) / 255, torch.from_numpy(labels))
    return DataLoader(data, batch_size=request.batch_size, num_workers=request.num_workers)

class Deadly:
    def __iter__(self):
        os._exit(3)

def deadly(source, request):
    return Deadly()

def empty(source, request):
    return []
"""


@pytest.fixture
def trace(tmp_path):
    """Trace some steps of one of those loaders in a process of its own."""
    (tmp_path / "own.py").write_text(LOADER)
    made = []

    def trace(name: str, workers: int = 0) -> Trace:
        made.append(Subject(f"{tmp_path / 'own.py'}:{name}", START_S))
        scenario = Scenario("probe:64:28x26x1:10", Request(batch_size=16, num_workers=workers), 1)
        file = str(tmp_path / "trace.json")
        return made[-1].run("profiled_trace:record", scenario=scenario, device="cpu", file=file, active=STEPS)

    yield trace
    for one in made:
        one.close()


def test_steps_are_traced_over_epochs(trace, tmp_path):
    """The trace holds as many steps as asked for, more than an epoch has, and says what is not in it."""
    found = trace("right")
    file = json.loads((tmp_path / "trace.json").read_text())
    names = [event["name"] for event in file["traceEvents"] if event.get("cat") == "user_annotation"]
    convolutions = next(one for one in found.operations if "convolution" in one.name)

    assert (STEPS, "cpu") == (found.steps, found.device)
    assert STEPS == sum(name.startswith("ProfilerStep") for name in names)
    assert "next batch (what worker processes do for it is not seen)" in names
    assert UNSEEN == file["loader_workers"]
    # The network has two, and each goes backward once.
    assert 2 * STEPS == convolutions.calls
    assert 0 < convolutions.self_cpu_us
    times = [one.self_cpu_us for one in found.operations]
    assert sorted(times, reverse=True) == times


def test_a_loader_that_dies_is_told(trace):
    """A loader that ends its process while it is traced is reported as one."""
    with pytest.raises(Died, match="exit code 3"):
        trace("deadly")


def test_a_loader_without_batches_gives_no_trace(trace, tmp_path):
    """Where no batch comes there is nothing to trace: no file, no operations, and no end without end."""
    found = trace("empty")

    assert Trace(0, [], "cpu") == found
    assert not (tmp_path / "trace.json").exists()


def test_no_trace_is_a_skip(tmp_path):
    """A trace without steps skips the test with one sentence."""
    subject = Double(Trace(0, [], "cpu"), folder=tmp_path)

    with pytest.raises(pytest.skip.Exception, match="no batch came"):
        test_trace.test_trace(subject)

    assert 1 == len(subject.told)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_table_says_what_is_not_seen(tmp_path, workers):
    """Times are for each step; of a loader with workers a sentence says that they are not seen."""
    subject = Double(Trace(4, [Operation("aten::mm", 8, 2_000.0, 0.0)], "cpu"), workers, tmp_path)

    test_trace.test_trace(subject)

    (told,) = subject.told
    assert "        0.500           2.0  aten::mm" in told
    assert "device ms" not in told
    assert bool(workers) == (UNSEEN in told)
    assert f"file: {tmp_path / 'trace.json'}" in told


def test_times_on_a_device_have_a_column():
    """Where a device worked, its time stands beside the CPU's."""
    trace = Trace(2, [Operation("aten::mm", 2, 1_000.0, 3_000.0)], "cuda")

    text = tracing.report(trace, workers=0, file=Path("trace.json"))

    assert "CPU ms a step  device ms a step  calls a step  operation" in text
    assert "        0.500             1.500           1.0  aten::mm" in text
