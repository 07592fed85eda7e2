"""Recorded stacks: read, sorted into roles and stages, drawn; and what happens where none can be had."""

import inspect
import json
import os
import re
import subprocess
import sys
import time
from multiprocessing import connection
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from judged_double import Double

from loaderproof.loaders import Request
from loaderproof.suite.diagnosis import flame, frames, pyspy, stacks, test_stacks
from loaderproof.suite.diagnosis.frames import Frame, Role
from loaderproof.suite.diagnosis.recordings import Recording
from loaderproof.suite.diagnosis.stack_rules import Stage, matching
from loaderproof.suite.family import Family
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Died, Hung, Subject

MISBEHAVING = Path(__file__).parent / "loaders_for_tests" / "misbehaving.py"
START_S = 60
# What py-spy prints: the first two are of py-spy 0.4.3, the last of its advice for Docker.
REFUSALS = (
    "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
    "Error: Failed to get process executable name.\n\nCaused by:\n    0: Permission denied (os error 13)",
    "Error: Failed to suspend process\n\nCaused by:\n    EPERM: Operation not permitted",
    "Please make sure to start your container with the SYS_PTRACE capability.",
)
LOADER = """
import hashlib, os, time
import torch
from torch.utils.data import DataLoader

BLOCK = bytes(2**16)

def spend(seconds):
    # Without the interpreter's lock: else the thread that hands a batch over waits for it, and the main one for that.
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        hashlib.sha256(BLOCK)

class Samples:
    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.source)

    def __getitem__(self, place):
        spend(0.002)
        image, label = self.source[place]
        return torch.from_numpy(image.copy()).permute(2, 0, 1) / 255, label

def slow(source, request):
    return DataLoader(Samples(source), batch_size=request.batch_size, num_workers=2)

class Deadly:
    def __iter__(self):
        time.sleep(0.5)
        os._exit(3)

def deadly(source, request):
    return Deadly()
"""

# Recordings as py-spy writes them.

MAIN, WORKER, OTHER_WORKER = (
    'process 1:"python -m x";',
    'process 1:"python -m x";process 7:"python";',
    'process 1:"python -m x";process 8:"python";',
)
LOOP = (
    "train_epoch (/p/model/training.py:200);run_pass (/p/model/training.py:77);"
    "ending (/p/suite/experiments/workbench.py:9)"
)
FORKED = f"Trainer.{LOOP};BaseProcess._bootstrap (/l/multiprocessing/process.py:314)"
FETCH = "_MapDatasetFetcher.fetch (/s/torch/utils/data/_utils/fetch.py:54)"
ITEM = "Images.__getitem__ (/me/images.py:10)"
COLLATE = "default_collate (/s/torch/utils/data/_utils/collate.py:3)"
TENSOR = "to_tensor (/s/torchvision/transforms/functional.py:168)"
SELECT = "_PollLikeSelector.select (/l/selectors.py:415)"
RAW = "\n".join(
    [
        f"{MAIN}thread (1): MainThread;Trainer.{LOOP};{SELECT} 60",
        f"{MAIN}thread (1): MainThread;Trainer.{LOOP};Emulated.run (/p/model/accelerator.py:5) 40",
        f"{MAIN}thread (2): Thread-1;Thread.run (/l/threading.py:9);_pin_memory_loop (/s/pin_memory.py:3);{SELECT} 9",
        f"{MAIN}thread (3): Pool;Thread._bootstrap_inner (/l/threading.py:9);Condition.wait (/l/threading.py:3) 8",
        f"{WORKER}thread (7): MainThread;{FORKED};{FETCH};{ITEM};{TENSOR} 30",
        f"{OTHER_WORKER}thread (8): MainThread;{FORKED};{FETCH};{ITEM};{TENSOR} 10",
        f"{OTHER_WORKER}thread (8): MainThread;{FORKED};{FETCH};{ITEM} 40",
        f"{OTHER_WORKER}thread (8): MainThread;{FORKED};{FETCH};{COLLATE} 20",
        f"{WORKER}thread (70): QueueFeederThread;Queue._feed (/l/multiprocessing/queues.py:3);dumps (/l/pickle.py:4) 5",
        f'{MAIN}process 9:"python";thread (9): MainThread;main (/l/multiprocessing/resource_tracker.py:4) 100',
    ]
)


@pytest.fixture
def recorded():
    """The stacks of that recording."""
    return frames.stacks(RAW, 1)


def stack_of(*named) -> list[Frame]:
    """Return frames, outermost first, from pairs of function and file."""
    return [Frame(function, file, 0) for function, file in named]


def test_roles_are_found(recorded):
    """Main thread, pin thread, others, workers and their threads are told apart; Python's own helpers are left out."""
    counts = {role: sum(one.count for one in recorded if one.role is role) for role in Role}

    assert {
        Role.MAIN: 100,
        Role.PIN: 9,
        Role.THREAD: 8,
        Role.WORKER: 100,
        Role.WORKER_THREAD: 5,
    } == counts


def test_what_the_parent_did_is_not_the_workers(recorded):
    """A forked worker's stack begins where the worker does, not in the training that it was forked from."""
    (first,) = (one for one in recorded if one.count == 30)

    assert ["_MapDatasetFetcher.fetch", "Images.__getitem__", "to_tensor"] == [
        frame.function for frame in first.frames
    ]


def test_each_role_has_its_stages(recorded):
    """A wait of the main thread is one for a batch, a wait of others is for work; shares are of each role's time."""
    found = stacks.profile(recorded, 100)

    assert {Stage.BATCH_WAIT: 60, Stage.STEP: 40} == found.counts[Role.MAIN]
    assert {Stage.TRANSFORM: 40, Stage.OWN: 40, Stage.COLLATE: 20} == found.counts[Role.WORKER]
    assert {Stage.WAIT: 9} == found.counts[Role.PIN]
    assert {Stage.HANDOVER: 5} == found.counts[Role.WORKER_THREAD]
    assert (0.4, 1.0) == (found.share(Role.WORKER, Stage.TRANSFORM), found.seconds(Role.WORKER))


def test_the_hottest_functions_are_the_loaders(recorded):
    """Functions are sorted by the time of their own, over all workers; plumbing and waiting are none of them."""
    first, second, third = stacks.hottest(recorded)

    assert {("to_tensor", 0.4), ("Images.__getitem__", 0.4)} == {
        (one.function, one.own) for one in (first, second)
    }
    assert {"to_tensor": 0.4, "Images.__getitem__": 0.8} == {
        one.function: one.share for one in (first, second)
    }
    assert ("default_collate", "/s/torch/utils/data/_utils/collate.py:3", 0.2, 0.2) == (
        third.function,
        third.place,
        third.share,
        third.own,
    )
    assert 1 == len(stacks.hottest(recorded, limit=1))


def test_time_in_the_standard_library_is_its_callers():
    """What a function spends in Python's own library is time of its own, not the library's."""
    json_frame = f"JSONDecoder.decode ({json.decoder.__file__}:337)"
    found = frames.stacks(f"{WORKER}thread (7): MainThread;{FORKED};{FETCH};{ITEM};{json_frame} 5", 1)

    (only,) = stacks.hottest(found)

    assert ("Images.__getitem__", "/me/images.py:10", 1.0, 1.0) == (
        only.function,
        only.place,
        only.share,
        only.own,
    )


def test_nothing_hot_where_nothing_is_loaded():
    """A recording of nothing but waiting has no hottest function."""
    waiting = frames.stacks(f"{MAIN}thread (1): MainThread;Trainer.{LOOP};{SELECT} 60", 1)

    assert [] == stacks.hottest(waiting)


def test_the_table_says_what_was_seen(recorded):
    """The table has a column for each role and a row for each stage that was seen, with shares of 100 %."""
    text = stacks.report(recorded, Recording(RAW, "", 1, 100, 12, "emulated 1 ms step"))

    assert "12 steps on emulated 1 ms step" in text
    assert "transform" in text
    assert "40.0 %" in text
    assert "to_tensor (/s/torchvision/transforms/functional.py:168)" in text
    assert not re.search("^read ", text, re.MULTILINE)
    assert "the shares are rough" not in text


def test_few_samples_are_called_rough():
    """A recording of few samples is told with a warning."""
    few = frames.stacks(f"{MAIN}thread (1): MainThread;Trainer.{LOOP};{SELECT} 6", 1)

    assert "only 6 samples of the main thread: the shares are rough" in stacks.report(
        few, Recording("", "", 1, 100, 1, "cpu")
    )


@pytest.mark.parametrize(("errors", "told"), [(2, False), (100, True)])
def test_unread_samples_are_told(recorded, errors, told):
    """Where py-spy could not read many samples, a sentence says how many."""
    said = f"py-spy> Wrote raw flamegraph data to 'stacks'. Samples: 300 Errors: {errors}"

    text = stacks.report(recorded, Recording(RAW, said, 1, 100, 12, "cpu"))

    assert told == ("py-spy could not read 25.0 % of the samples" in text)


def test_time_outside_of_python_is_told():
    """Where the main thread waits for TensorFlow, whose threads have no stacks, a sentence says so."""
    next_batch = "iterator_get_next (/s/tensorflow/python/ops/gen_dataset_ops.py:3)"
    found = frames.stacks(f"{MAIN}thread (1): MainThread;Trainer.{LOOP};{next_batch} 200", 1)

    text = stacks.report(found, Recording("", "", 1, 100, 1, "cpu"))

    assert (
        "100.0 % of the main thread's time it waited in TensorFlow, whose own threads have no Python" in text
    )


@pytest.mark.parametrize(
    "raw", ["", "\n", "thread 3", f"{MAIN}thread (1): MainThread;f (x.py:3)", "f (x.py:3) 12"]
)
def test_what_is_no_stack_is_left_out(raw):
    """An empty or broken recording has no stacks, and a broken line does not spoil the others."""
    assert [] == frames.stacks(raw, 1)
    assert 9 == len(frames.stacks(f"{raw}\n{RAW}", 1))


def test_odd_names_are_read():
    """Semicolons in a command line, threads without a name, and frames without a line are no obstacle."""
    raw = 'process 1:"python -c import a; a.b(\\"c\\")";thread (0x7F);<lambda> (<string>:1);native (lib.so) 3'

    (only,) = frames.stacks(raw, 1)

    assert (Role.THREAD, 3, (Frame("<lambda>", "<string>", 1), Frame("native", "lib.so", 0))) == (
        only.role,
        only.count,
        only.frames,
    )


# Stages.


def fetching(function: str, file: str) -> list[tuple[str, str]]:
    """Return a function that a DataLoader called for a sample."""
    return [("_MapDatasetFetcher.fetch", "/s/torch/utils/data/_utils/fetch.py"), (function, file)]


def asking(*named: tuple[str, str]) -> list[tuple[str, str]]:
    """Return functions that the training loop called for a batch."""
    return [("ending", "/p/suite/experiments/workbench.py"), *named]


@pytest.mark.parametrize(
    ("stage", "named"),
    [
        (Stage.READ, fetching("__getitem__", "/p/loaders/sources/idx.py")),
        (Stage.READ, [*fetching("__getitem__", "/me/data.py"), ("Dataset.__getitem__", "/s/h5py/_hl/dataset.py")]),
        (Stage.DECODE, [*fetching("__getitem__", "/me/data.py"), ("ImageFile.load", "/s/PIL/ImageFile.py")]),
        (Stage.DECODE, fetching("decode_image", "/s/torchvision/io/image.py")),
        (Stage.TRANSFORM, fetching("ToTensor.__call__", "/s/torchvision/transforms/transforms.py")),
        (Stage.TRANSFORM, [("to_tensor", "/s/torchvision/transforms/f.py"), ("tobytes", "/s/PIL/Image.py")]),
        (Stage.TRANSFORM, fetching("augment", "/me/a.py")),
        (Stage.COLLATE, fetching("my_collate", "/me/a.py")),
        (Stage.OWN, fetching("__getitem__", "/me/a.py")),
        (Stage.OWN, asking(("__iter__", "/me/a.py"))),
        (Stage.HANDOVER, [("rebuild", "/s/torch/multiprocessing/reductions.py"), ("select", "/l/selectors.py")]),
        (Stage.HANDOVER, [("Queue._feed", "/l/multiprocessing/queues.py"), ("notify", "/l/threading.py")]),
        (Stage.WAIT, [("Queue._feed", "/l/multiprocessing/queues.py"), ("Condition.wait", "/l/threading.py")]),
        (Stage.WAIT, [("_serve", "/l/multiprocessing/resource_sharer.py"), ("socket.accept", "/l/socket.py")]),
        (Stage.PIN, [("pin_memory", "/s/torch/utils/data/_utils/pin_memory.py")]),
        (Stage.START, asking(("BaseProcess.start", "/l/multiprocessing/process.py"), ("x", "/l/x.py"))),
        (Stage.START, asking(("_shutdown_workers", "/s/torch/utils/data/dataloader.py"), ("wait", "/l/threading.py"))),
        (Stage.IMPORT, [("_find_and_load", "<frozen importlib._bootstrap>"), ("open", "/l/gzip.py")]),
        (Stage.STEP, [("Cpu.run", "/p/model/accelerator.py"), ("join", "/l/threading.py")]),
        (Stage.TRANSFER, [("Cuda.put", "/p/model/accelerator.py")]),
        (Stage.OTHER, asking(("record_function.__exit__", "/s/torch/autograd/profiler.py"))),
        (Stage.OTHER, [("run_pass", "/p/model/training.py")]),
    ],
)  # fmt: skip
def test_a_stage_is_told_by_functions_and_files(stage, named):
    """The innermost function for which there is a rule tells the stage, but for those that tell for all they call."""
    assert stage is matching(stack_of(*named)).stage


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        (Stage.READ, "with open(path, 'rb') as file:"),
        (Stage.READ, "return file.read()"),
        (Stage.DECODE, "return cv2.imdecode(data, 1)"),
        (Stage.TRANSFORM, "return cv2.resize(image, size)"),
        (Stage.OWN, "return reopen(path)"),
    ],
)
def test_a_stage_is_told_by_a_line(tmp_path, stage, line):
    """Compiled functions have no frame of their own: the line that calls them tells, in the innermost function only."""
    (tmp_path / "own.py").write_text(f"{line}\n")
    fetch = Frame("fetch", "/s/torch/utils/data/_utils/fetch.py", 1)
    own = Frame("__getitem__", str(tmp_path / "own.py"), 1)

    assert stage is matching([fetch, own]).stage
    assert Stage.OWN is matching([fetch, own, Frame("inner", "/me/other.py", 1)]).stage


@pytest.mark.parametrize(
    ("code", "stage"), [("self._recv(4)", Stage.WAIT), ("return self._recv(size)", Stage.HANDOVER)]
)
def test_a_wait_for_a_message_is_not_its_arrival(code, stage):
    """Until the length of a message is there a process waits; then the message is handed over."""
    lines, first = inspect.getsourcelines(connection.Connection._recv_bytes)
    place = first + next(number for number, line in enumerate(lines) if code in line)
    file = connection.__file__

    assert stage is matching([Frame("_recv_bytes", file, place), Frame("_recv", file, 1)]).stage


# Files to look at.


def test_the_flame_graph_merges_equal_workers(recorded):
    """The picture is well-formed; both workers lie in one frame, and frames are as wide as their time."""
    picture = ET.fromstring(flame.flame_graph(recorded, 100, "a < b"))  # noqa: S314 - our own text
    svg = "{http://www.w3.org/2000/svg}"
    tips = {box.find(f"{svg}title").text: box for box in picture.findall(f"{svg}svg")}

    starts = (
        "all threads: 2.22 s",
        "workers: 1.00 s",
        "to_tensor (/s/torchvision/transforms/functional.py): 0.40 s",
    )
    all_, workers, tensor = (
        next(box for tip, box in tips.items() if tip.startswith(start)) for start in starts
    )
    assert "100.0000%" == all_.get("width")
    assert pytest.approx(100 * 100 / 222, abs=1e-3) == float(workers.get("width")[:-1])
    assert pytest.approx(100 * 40 / 222, abs=1e-3) == float(tensor.get("width")[:-1])
    # Roles lie beside each other in the order of their names: the workers come last.
    assert pytest.approx(100 * 122 / 222, abs=1e-3) == float(workers.get("x")[:-1])
    assert "a < b" == picture.find(f"{svg}text").text


def test_an_empty_flame_graph_is_one():
    """Without samples the picture has nothing but its root."""
    picture = ET.fromstring(flame.flame_graph([], 100, "nothing"))  # noqa: S314 - our own text

    assert 1 == len(picture.findall("{http://www.w3.org/2000/svg}svg"))


def test_the_speedscope_file_fits_its_schema(recorded):
    """There is a profile for each role; its samples name frames that are there, and weigh as much as it lasts."""
    file = json.loads(flame.speedscope(recorded, 100, "title"))
    count = len(file["shared"]["frames"])

    assert [str(role) for role in Role] == [profile["name"] for profile in file["profiles"]]
    assert {"name": "to_tensor", "file": "/s/torchvision/transforms/functional.py", "line": 168} in file[
        "shared"
    ]["frames"]
    for profile in file["profiles"]:
        assert ("sampled", "seconds", 0) == (profile["type"], profile["unit"], profile["startValue"])
        assert len(profile["samples"]) == len(profile["weights"])
        assert pytest.approx(profile["endValue"]) == sum(profile["weights"])
        assert {True} == {0 <= index < count for sample in profile["samples"] for index in sample}


# Where there is no recording.


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_says_what_to_do(said):
    """Where the kernel refuses, one sentence names the capability for containers and the setting for others."""
    assert pyspy.REFUSED == pyspy.trouble(said)
    assert "--cap-add SYS_PTRACE" in pyspy.REFUSED


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Error: Failed to find python version\n\nStack backtrace:\n 0: x", "Failed to find python version"),
        ("", "it said nothing"),
        ("py-spy> odd", "py-spy> odd"),
    ],
)  # fmt: skip
def test_other_troubles_are_quoted(said, why):
    """What else py-spy complains of is told in its own words, without its backtrace."""
    assert f"py-spy recorded nothing: {why}" == pyspy.trouble(said)


def test_py_spy_is_found_beside_this_python(monkeypatch, tmp_path):
    """It need not be on PATH; where it is neither there nor beside Python, there is none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))

    before = pyspy.tool()
    fake(tmp_path / "bin", "exit 0")

    assert (None, str(tmp_path / "bin" / "py-spy")) == (before, pyspy.tool())


def test_without_py_spy_the_test_is_skipped(monkeypatch):
    """Where py-spy is not installed the loader is not even opened, and the text says how to install it."""
    monkeypatch.setattr(pyspy, "tool", lambda: None)
    subject = Double()

    with pytest.raises(pytest.skip.Exception, match="py-spy is not installed: pip install 'loaderproof"):
        test_stacks.test_stacks(subject)

    assert [f"no stacks: {pyspy.NOT_INSTALLED}"] == subject.told


def fake(folder: Path, *lines: str) -> None:
    """Put a py-spy into a folder that does as it is told."""
    (folder / "py-spy").write_text("\n".join(["#!/bin/sh", *lines, ""]))
    (folder / "py-spy").chmod(0o755)


@pytest.mark.parametrize(
    ("raw", "said"), [("", ""), ("no stack at all\n", "py-spy> Wrote raw data"), ("", "Error: gone")]
)
def test_a_recording_without_stacks_is_a_skip(raw, said):
    """An empty or broken recording skips the test with what py-spy said, and writes no files."""
    subject = Double(Recording(raw, said, 1, 100, 0, "cpu"))

    with pytest.raises(pytest.skip.Exception, match=r"^py-spy recorded nothing: "):
        test_stacks.test_stacks(subject)

    assert [f"no stacks: {pyspy.trouble(said)}"] == subject.told


def test_a_run_goes_on_where_ptrace_is_refused(suite_run):
    """A refusal skips the test with one sentence, which stands at the end of the run, too; other tests pass."""
    (suite_run.folder / "own.py").write_text(LOADER)
    no_python = "Error: No python processes found in process 1 or any of its subprocesses"
    why = f"cat >&2 <<'END'\n{REFUSALS[0]}\nEND"
    # As py-spy 0.4.3 does it: a recording gives no reason.
    fake(
        suite_run.folder,
        "case $1 in",
        f"record) echo '{no_python}' >&2;;",
        f"dump) {why}",
        ";; esac",
        "exit 1",
    )
    suite_run.environment["PATH"] = f"{suite_run.folder}:/usr/bin:/bin"

    done = suite_run.judge(
        *("--loader", "own.py:slow", "--loader-data", "probe:64:28x26x1:10", "--loader-samples", "64"),
        *("--loader-device", "emulated:1ms", "--loader-profile", "stacks", "-k", "test_stacks or test_len"),
    )
    outcomes = {one.name.partition("[")[0]: one for one in suite_run.outcomes()}

    assert 0 == done.returncode
    assert "passed" == outcomes["test_len_counts_batches"].what
    assert ("skipped", pyspy.REFUSED) == (
        outcomes["test_stacks"].what,
        outcomes["test_stacks"].text.splitlines()[0],
    )
    assert f"no stacks: {pyspy.REFUSED}" in done.stdout


# Real recordings.

needs_py_spy = pytest.mark.skipif(
    pyspy.tool() is None or pyspy.stacks_of(os.getpid()) is None, reason="py-spy cannot look here"
)


@pytest.fixture
def loader(tmp_path):
    """Make a subject from one of those loaders, and end it afterwards."""
    (tmp_path / "own.py").write_text(LOADER)
    made = []

    def make(name: str) -> Subject:
        made.append(Subject(f"{tmp_path / 'own.py'}:{name}", START_S))
        return made[-1]

    yield make
    for one in made:
        one.close()


def record(subject: Subject, data: str) -> Recording:
    """Record a second of training."""
    scenario = Scenario(data, Request(batch_size=16), 1)
    words = {"device": "emulated:1ms", "seconds": 1, "rate": 50}
    return subject.run("profiled_stacks:record", scenario=scenario, **words)


@needs_py_spy
def test_workers_are_seen(loader):
    """In a recording of a loader whose workers spend their time in one function, that function is the hottest."""
    recording = record(loader("slow"), "probe:6400")
    found = frames.stacks(recording.raw, recording.pid)
    seen = stacks.profile(found, recording.rate)

    assert "spend" == stacks.hottest(found)[0].function
    assert 0.5 < stacks.hottest(found)[0].own
    assert 2 == len({one.process for one in found if one.role is Role.WORKER})
    assert Stage.BATCH_WAIT == max(seen.counts[Role.MAIN], key=seen.counts[Role.MAIN].get)
    # An epoch of 6,400 samples takes 6 s; the recording ended in the middle of one.
    assert 0 < recording.steps < 400


@needs_py_spy
def test_a_loader_that_dies_is_told(loader):
    """A loader that ends its process while it is profiled is reported as one, and py-spy ends with it."""
    subject = loader("deadly")

    with pytest.raises(Died, match="exit code 3"):
        record(subject, "probe:64")


# The stacks of a hanging loader.


@pytest.fixture
def standing():
    """A family with one process that handles no signal."""
    family = Family()
    code = "import time\ndef stand():\n    print('up', flush=True)\n    time.sleep(60)\nstand()\n"
    process = subprocess.Popen([sys.executable, "-c", code], env=family.environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield family
    family.end()
    process.communicate()


@needs_py_spy
def test_py_spy_sees_processes_that_handle_no_signal(standing):
    """Where a process stands is told though it would print nothing itself, in the form of faulthandler."""
    told = []

    standing.print_stacks(told.append)

    assert 1 == len(told)
    assert ', line 4 in stand\n  File "<string>", line 5 in <module>' in told[0]


def test_a_process_that_nobody_may_look_at_is_left_alone(standing, monkeypatch):
    """Without py-spy no signal goes to a process that it would end."""
    told = []
    monkeypatch.setattr(pyspy, "tool", lambda: None)

    standing.print_stacks(told.append)

    assert [] == told
    assert 1 == len(standing.members())


def test_without_py_spy_processes_print_their_stacks(monkeypatch, tmp_path):
    """A hang is told with all stacks where py-spy is not there, too."""
    monkeypatch.setattr(pyspy, "tool", lambda: None)
    subject = Subject(f"{MISBEHAVING}:loader", START_S)
    request = Request(options={"act": "nothing", "note": str(tmp_path / "note")})
    subject.run("watching:coverage", scenario=Scenario("probe:4", request))
    waiting = Request(options={"act": "wait_in_python", "note": str(tmp_path / "note")})

    with pytest.raises(Hung, match=r"in wait_in_thread\n(.|\n)*in wait_in_python\n"):
        subject.run("watching:coverage", times=1 / START_S, scenario=Scenario("probe:4", waiting))


@pytest.mark.parametrize("lines", [["exit 1"], ["echo '{'"], ["echo '[]'"], ["sleep 30"]])
def test_a_py_spy_that_tells_nothing_is_no_answer(monkeypatch, tmp_path, lines):
    """A refusal, a broken answer, an empty one, and one that never comes all count as none, in time."""
    fake(tmp_path, *lines)
    monkeypatch.setattr(pyspy, "tool", lambda: str(tmp_path / "py-spy"))
    monkeypatch.setattr(pyspy, "_DUMP_S", 0.5)
    began = time.monotonic()

    assert pyspy.stacks_of(1) is None
    assert time.monotonic() - began < 10
