"""What processes do is seen from beside them; how long a thread waits for the interpreter, from within."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from loaderproof.suite.experiments import activity, differential
from loaderproof.suite.experiments.heartbeat import Heartbeat

if not (activity.PROC / "self/schedstat").exists():
    pytest.skip("this kernel does not tell what threads do", allow_module_level=True)

LOOKS = 40
# Where other programs have the cores, a thread that would hold the lock has none to hold it on.
ATTEMPTS = 5
COMPUTES = "while True: pass"
SLEEPS = "import time; time.sleep(60)"
WAITS = "import os; here, there = os.pipe(); os.read(here, 1)"
LISTENS = "import socket; one = socket.socket(); one.bind(('localhost', 0)); one.listen(); one.accept()"


@pytest.fixture
def started():
    """Start Python processes that run a line each, until the end of the test."""
    processes = []

    def start(line: str, *words: str) -> int:
        processes.append(subprocess.Popen([sys.executable, "-S", "-c", line, *words]))
        return processes[-1].pid

    yield start
    for process in processes:
        process.kill()
        process.wait()


def seen(pid: int, bystanders=()) -> dict:
    """Look at a process from time to time, after it has begun; return what it was seen doing."""
    time.sleep(0.3)
    watcher = activity.Watcher(pid, set(bystanders))
    for _ in range(LOOKS):
        watcher.look()
        time.sleep(0.005)
    watcher.seconds = 1.0
    return watcher.found()


@pytest.mark.parametrize(
    ("line", "running", "device"),
    [(COMPUTES, LOOKS, 0), (SLEEPS, 0, LOOKS), (WAITS, 0, 0), (LISTENS, 0, 0)],
    ids=["computes", "sleeps", "waits for a pipe", "waits for a caller"],
)
def test_each_kind_of_time_is_told_apart(started, line, running, device):
    """Computing, waiting for a clock and waiting for other processes are seen as what they are, nearly always."""
    pid = started(line)

    kept = seen(pid)["processes"][pid]

    assert (running, device) == (pytest.approx(kept["running"], abs=4), pytest.approx(kept["device"], abs=4))


def test_descendants_are_seen_but_for_helpers(started):
    """A process is seen with those that it started, without helpers that Python and libraries keep."""
    line = (
        "import subprocess, sys, time;"
        "[subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)', word])"
        " for word in ('worker', 'multiprocessing.resource_tracker')]; time.sleep(60)"
    )
    pid = started(line)
    try:
        found = seen(pid)
    finally:
        for child in (activity.PROC / f"{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), 9)

    assert 2 == len(found["processes"])


def test_sleeps_of_bystanders_do_not_count(started):
    """A thread that slept before the loader was there says nothing about it."""
    pid = started(SLEEPS)

    assert 0 == seen(pid, bystanders=[pid])["processes"][pid]["device"]


def test_data_files_are_found(started, tmp_path):
    """Files that are open are named, code is not."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"0" * 10)
    pid = started("import sys, time; file = open(sys.argv[1]); time.sleep(60)", str(path))

    assert [str(path)] == seen(pid)["files"]


def test_another_process_looks_only_when_it_is_told():
    """While nobody asks it to look, time does not count."""
    watching = activity.Watching([])
    time.sleep(0.3)
    with watching.looking():
        time.sleep(0.1)
    found = watching.end()

    assert 0.1 <= found["seconds"] < 0.3
    assert [str(os.getpid())] == list(found["processes"])
    assert 0.5 * found["looks"] < found["processes"][str(os.getpid())]["looks"]


def late_ms(work) -> float:
    """Return the median delay of a thread that wants to run while another one works, in ms."""
    over = threading.Event()
    worker = threading.Thread(target=work, args=(over,))
    worker.start()
    with Heartbeat().beating() as beat:
        time.sleep(0.5)
    over.set()
    worker.join()
    return 1e3 * float(np.median(beat.late_s))


def test_a_thread_that_holds_the_lock_makes_others_late():
    """Beside Python code a thread waits for about a switch interval; beside a sleeping thread for nearly nothing."""

    def computes(over) -> None:
        while not over.is_set():
            sum(range(100))

    assert any(late_ms(computes) > 1 for _ in range(ATTEMPTS))
    assert any(late_ms(lambda over: over.wait()) < 1 for _ in range(ATTEMPTS))


def test_dropped_files_are_read_anew(tmp_path):
    """Files are dropped from the page cache and keep their content; what is not there is passed over."""
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(2**20))
    before = path.read_bytes()

    differential.drop_caches([str(path), str(tmp_path / "missing")])

    assert before == path.read_bytes()


def test_workers_of_several_passes_are_seen_while_they_live():
    """Workers that are started anew in each pass are as busy as they were while they were there."""
    busy, brief = {"looks": 100, "running": 95, "device": 0}, {"looks": 5, "running": 0, "device": 0}
    found = {
        "seconds": 1.0,
        "root": 1,
        "looks": 200,
        "processes": {"1": {"looks": 200, "running": 20, "device": 0}, "2": busy, "3": busy, "4": brief},
        "threads": [{"pid": 2, "main": True, "cpu_s": 0.4, "queued_s": 0.1, "looks": {}}],
        "files": [],
    }

    seen = differential.activity(found, [])

    assert 0.1 == seen.main.running
    assert [0.95, 0.95] == [worker.running for worker in seen.workers]
    assert (0.8, 1.0) == (seen.workers[0].cpu, seen.workers[0].demand)


def test_copies_for_the_replay_keep_their_layout():
    """A copy of a strided tensor is as slow to move; one that repeats itself is as large as it says."""
    strided = torch.rand(2, 4, 4, 12).permute(0, 3, 1, 2)[:, ::4]
    repeated = torch.rand(3, 1).expand(3, 5)

    assert strided.stride() == differential._copy(strided).stride()
    assert torch.equal(strided, differential._copy(strided))
    assert torch.equal(repeated, differential._copy(repeated))
    assert strided.data_ptr() != differential._copy(strided).data_ptr()


def test_the_next_pass_waits_until_everything_rests(started):
    """What goes on after a pass that was left is over before the next one; what never rests is not waited for."""
    started("import time; end = time.monotonic() + 0.4\nwhile time.monotonic() < end: pass\ntime.sleep(0)")
    began = time.monotonic()
    activity.settle(set(), 20)
    assert 0.3 < time.monotonic() - began < 20

    started(COMPUTES)
    began = time.monotonic()
    activity.settle(set(), 0.5)
    assert 0.5 <= time.monotonic() - began < 5


def test_where_there_is_no_such_kernel_nothing_is_told(monkeypatch, tmp_path):
    """Where the kernel has no folder of threads, there are no sleepers to name, and no error."""
    monkeypatch.setattr(differential, "PROC", tmp_path)

    assert [] == differential._sleepers()
