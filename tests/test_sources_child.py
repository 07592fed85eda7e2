import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loaderproof.loaders.sources import SourceError, child

TASKS = """
import atexit, os, sys, time
from pathlib import Path
from loaderproof.loaders.sources.error import SourceError

def note(path, text):
    print("this is no answer")
    Path(path).write_text(text)

def refuse():
    print("this is no answer")
    atexit.register(time.sleep, 0.2)
    raise SourceError("not this\\nway")

def fail():
    for line in range(10_000):
        print("line", line)
    raise RuntimeError("out of order")

def crash():
    os.abort()

def leave():
    os._exit(0)

def stay(path):
    Path(path, "pid").write_text(str(os.getpid()))
    Path(path, "begun").touch()
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _tasks(tmp_path, monkeypatch):
    (tmp_path / "tasks.py").write_text(TASKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


def test_it_calls_the_function(tmp_path):
    """The function gets the arguments, in another process."""
    child.run("tasks:note", str(tmp_path / "note"), "done")
    assert "done" == (tmp_path / "note").read_text()


def test_it_imports_nothing_from_where_one_stands(tmp_path, monkeypatch):
    """A file in the current folder that is called like a module is not taken for it."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "json.py").write_text("raise RuntimeError('the wrong json')")
    monkeypatch.chdir(tmp_path / "here")
    child.run("tasks:note", str(tmp_path / "note"), "done")
    assert "done" == (tmp_path / "note").read_text()


def test_a_refusal_is_passed_on():
    """A `SourceError` comes back with its message, whatever else was printed, and however slow its end is."""
    with pytest.raises(SourceError, match=r"^not this\nway$"):
        child.run("tasks:refuse")


def test_an_error_shows_its_last_lines():
    """Any other error shows where it was raised, and not all that was printed before."""
    with pytest.raises(SourceError, match=r"tasks:fail .* exit code 1; its last lines:\n") as caught:
        child.run("tasks:fail")
    assert str(caught.value).endswith("RuntimeError: out of order")
    assert len(str(caught.value)) < 5_000


def test_a_crash_names_the_signal():
    """A process that a signal ended says which."""
    with pytest.raises(SourceError, match="was ended by SIGABRT"):
        child.run("tasks:crash")


def is_running(pid):
    """Tell whether there is such a process, and not only its remains."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_parent(tmp_path, end):
    """Whether the parent is killed or interrupted: the child does not stay."""
    program = (
        "import sys; from loaderproof.loaders.sources import child; child.run('tasks:stay', sys.argv[1])"
    )
    command = [sys.executable, "-P", "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        parent.send_signal(end)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)
