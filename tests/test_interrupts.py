"""Whoever ends pytest in the middle of a hanging loader finds nothing left of it."""

import signal
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest

FILE = Path(__file__).parent / "loaders_for_tests" / "misbehaving.py"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own place for it
MARK = "TEST_OF_INTERRUPTS"
START_S, END_S = 60, 60


@pytest.fixture
def hanging(suite_run):
    """Start a run whose loader hangs in two workers, with what it holds beyond them as it is told."""
    started = []

    def start(act: str, temporary: str):
        note = suite_run.folder / "note"
        mark = {MARK: uuid.uuid4().hex}
        suite_run.environment = {"act": act, "note": str(note), "TMPDIR": temporary, **mark}
        words = ("--loader", f"{FILE}:stuck", "--loader-data", "probe:4", "-k", "test_shapes")
        started.append(suite_run.start(FILE.parents[2] / "suite", *words))
        wanted = {"wait_for_workers": [note], "wait_with_shared_memory": [note, note.with_name("workers")]}
        assert soon(lambda: all(one.exists() for one in wanted[act]), START_S)
        return started[0], mark[MARK], note

    yield start
    for process in started:
        process.kill()
        process.communicate()


def soon(condition, seconds: float) -> bool:
    """Tell whether something comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def alive(mark: str) -> list[str]:
    """Return what is alive of the processes that inherited a mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            pass
    return found


def test_an_interrupt_leaves_nothing(hanging):
    """After Ctrl-C there is no process, no shared memory and no temporary file of the loader."""
    with tempfile.TemporaryDirectory() as temporary:  # short, as the paths of sockets must be
        process, mark, note = hanging("wait_with_shared_memory", temporary)
        names = tuple(note.read_text().split())
        assert len(alive(mark)) >= 4
        assert [] != [entry for entry in SHARED_MEMORY.iterdir() if entry.name.startswith(names)]

        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=END_S)

        assert pytest.ExitCode.INTERRUPTED == process.returncode
        assert "KeyboardInterrupt" in text
        assert [] == alive(mark)
        assert [] == [entry.name for entry in SHARED_MEMORY.iterdir() if entry.name.startswith(names)]
        assert [] == list(Path(temporary).iterdir())


def test_a_kill_leaves_no_process(hanging):
    """When pytest is killed and can do nothing any more, the kernel ends the loader and its workers."""
    with tempfile.TemporaryDirectory() as temporary:
        process, mark, _ = hanging("wait_for_workers", temporary)
        held = {f"torch_{one.pid}_" for one in psutil.Process(process.pid).children(recursive=True)}
        assert len(alive(mark)) >= 4

        process.kill()

        assert soon(lambda: [] == alive(mark), END_S)
        assert [] == [entry.name for entry in SHARED_MEMORY.iterdir() if entry.name.startswith(tuple(held))]
