"""A loader's own process: whatever it does is told, and the next experiment works."""

import contextlib
import re
import tempfile
import time
import tracemalloc
from pathlib import Path

import psutil
import pytest

from loaderproof.loaders import Request
from loaderproof.suite import subject as machinery
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Died, Flooded, Hung, InPlace, Raised, Subject

FILE = Path(__file__).parent / "loaders_for_tests" / "misbehaving.py"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own place for it
# A new process may take long to import everything, on a machine that others use too.
START_S, ANSWER_S, END_S = 60, 2, 0.5


class Bench:
    """A subject, and a file in which it leaves a note."""

    def __init__(self) -> None:
        self.subject = Subject(f"{FILE}:loader", ANSWER_S)
        self.note = Path()

    def does(self, act: str, seconds: float = ANSWER_S) -> bool:
        """Have the loader act and deliver; tell whether everything came."""
        request = Request(options={"act": act, "note": str(self.note)})
        scenario = Scenario("probe:4", request)
        return self.subject.run("watching:coverage", times=seconds / ANSWER_S, scenario=scenario).complete

    def works(self) -> bool:
        """Tell whether the loader delivers everything, if need be from a new process."""
        return self.does("nothing", START_S)

    def noted(self) -> int:
        """Return the number that the loader wrote down."""
        return int(self.note.read_text())


@pytest.fixture(scope="module")
def shared():
    """A subject for many tests: each of them leaves it working."""
    made = Bench()
    yield made
    made.subject.close()


@pytest.fixture
def bench(shared, tmp_path):
    """A subject that has started, so that its time-out is not spent on imports."""
    shared.note = tmp_path / "note"
    assert shared.works()
    return shared


@pytest.fixture
def temporary(monkeypatch):
    """An empty place for all temporary files; its path is short, as those of sockets must be."""
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield Path(place)


@pytest.fixture
def housed(shared, temporary, tmp_path):
    """A subject that has started where all temporary files are seen."""
    shared.subject.close()
    shared.note = tmp_path / "note"
    assert shared.works()
    assert [] != list(temporary.iterdir())
    return shared


def alive(pid: int) -> bool:
    """Tell whether a process goes on; one that was killed has a moment to end."""
    deadline = time.monotonic() + END_S
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                return True
            time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("act", "how", "words"),
    [
        ("read_nowhere", "signal SIGSEGV", "in read_nowhere"),
        ("be_killed", "signal SIGKILL", "(nothing)"),
        ("exit_at_once", "exit code 3", "giving up"),
    ],
)
def test_a_death_is_told(bench, act, how, words):
    """A process that dies is reported with its signal or exit code and last words; then a new one works."""
    with pytest.raises(Died) as died:
        bench.does(act, START_S)

    assert f"the loader's process ended with {how}; its last output was" == str(died.value).splitlines()[0]
    assert words in str(died.value)
    assert bench.works()


def test_a_death_is_noticed_beside_living_children(bench):
    """A process that dies is reported at once, even if it forked another that holds its files open."""
    began = time.monotonic()

    with pytest.raises(Died, match="exit code 3"):
        bench.does("exit_and_leave_a_child", START_S)

    assert time.monotonic() - began < START_S / 4


def test_a_closed_connection_is_told(bench, monkeypatch):
    """A loader that closes all files loses its answer, and the report says which file it was."""
    monkeypatch.setattr(machinery, "_GRACE_S", 0.2)

    with pytest.raises(Died, match="closed the suite's connection"):
        bench.does("close_all_files", START_S)

    assert bench.works()


@pytest.mark.parametrize(
    ("act", "places"),
    [
        ("wait_in_python", {"wait_in_python", "wait_in_thread"}),
        ("wait_with_the_lock", {"wait_with_the_lock"}),
        ("wait_for_workers", {"wait_for_workers", "wait_in_worker"}),
    ],
)
def test_a_hang_is_told_with_all_stacks(bench, act, places):
    """A hang ends in time, with the stacks of every thread and worker, and a lock held in C is no excuse."""
    with pytest.raises(Hung, match=f"gave no answer within {ANSWER_S} s.*--loader-timeout") as hung:
        bench.does(act)

    assert places <= set(re.findall(r" in (\w+)$", str(hung.value), re.MULTILINE))
    assert bench.works()


def test_a_flood_is_stopped(bench):
    """A loader that prints a gigabyte is stopped early, keeps no memory here, and is shown how it began."""
    tracemalloc.start()
    with pytest.raises(Flooded, match="more than 32 MiB and was stopped; it began with\n\nwhat a flood"):
        bench.does("flood", START_S)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert bench.noted() < 128
    assert peak < 8 * 2**20
    assert bench.works()


def test_a_daemon_is_ended(bench):
    """A process that left its session and lost its parent ends with the subject."""
    assert bench.does("leave_a_daemon", START_S)
    assert alive(bench.noted())

    bench.subject.close()

    assert not alive(bench.noted())


def test_shared_memory_goes_with_the_process(housed, temporary, tmp_path):
    """Of a loader that is killed, neither shared memory nor temporary files are left, nor its workers."""
    with pytest.raises(Hung):
        housed.does("wait_with_shared_memory", 4)

    names = tuple(housed.note.read_text().split())
    assert [] == [entry.name for entry in SHARED_MEMORY.iterdir() if entry.name.startswith(names)]
    assert not alive(int((tmp_path / "workers").read_text()))
    assert [] == list(temporary.iterdir())


def test_temporary_files_go_with_the_process(housed, temporary):
    """A subject that ends in peace leaves no temporary file either."""
    housed.subject.close()

    assert [] == list(temporary.iterdir())


def test_an_exception_comes_whole(bench):
    """An exception comes with type, message, and a traceback with its cause; the process goes on."""
    bench.does("write_pid")
    before = bench.noted()

    with pytest.raises(Raised) as raised:
        bench.does("raise_with_a_cause")

    assert ("LookupError", "'no sample 3'") == (raised.value.type, repr(raised.value.message))
    assert "misbehaving.DiskGone: the disk is gone" in raised.value.traceback
    assert "direct cause of the following exception" in raised.value.traceback
    assert "in raise_with_a_cause" in raised.value.traceback
    assert raised.value.traceback in raised.value.plain
    bench.does("write_pid")
    assert before == bench.noted()


@pytest.mark.parametrize(
    ("act", "type_name", "message"),
    [("exit_politely", "SystemExit", "no more memory"), ("interrupt", "KeyboardInterrupt", "")],
)
def test_an_exit_is_an_exception_too(bench, act, type_name, message):
    """A loader that raises SystemExit or KeyboardInterrupt ends neither its process nor this one."""
    with pytest.raises(Raised) as raised:
        bench.does(act)

    assert (type_name, message) == (raised.value.type, raised.value.message)
    assert bench.does("nothing")


def test_our_own_errors_speak_for_themselves():
    """An error that this package raises for a person is told without its traceback."""
    raised = Raised("loaderproof.loaders.registry.LoaderError", "no such loader", "Traceback ...")

    assert "no such loader" == raised.plain


@pytest.fixture
def unsendable():
    """A subject whose description cannot be pickled."""
    made = Subject(f"{FILE}:Unsendable", START_S)
    yield made
    made.close()


def test_an_answer_that_cannot_be_sent_is_told(unsendable):
    """A result that cannot be pickled is reported as an exception, every time it is asked for."""
    for _ in range(2):
        with pytest.raises(Raised, match="pickle"):
            unsendable.run("watching:describe", trial=True)


def test_in_place_lets_exceptions_through(tmp_path):
    """Without a process of its own, a loader's exception arrives as it is, for a debugger."""
    subject = InPlace(f"{FILE}:loader", ANSWER_S)
    scenario = Scenario("probe:4", Request(options={"act": "raise_with_a_cause", "note": str(tmp_path)}))

    with pytest.raises(LookupError, match="no sample 3"):
        subject.run("watching:coverage", scenario=scenario)

    subject.close()
