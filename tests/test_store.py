import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from loaderproof.loaders import store
from loaderproof.loaders.store import DamageError, StoreError, cache_root, discard, keep, make_once


def write_number(directory: Path) -> None:
    """Make something small."""
    (directory / "number").write_text("42")


def read_number(directory: Path) -> int:
    """Return what `write_number` wrote, if it is not damaged."""
    text = (directory / "number").read_text()
    if not text.isdigit():
        raise DamageError(text)
    return int(text)


def no_making(directory: Path) -> None:
    """Fail."""
    raise AssertionError(f"{directory} shall not be made again")


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start Python on a program that makes things in the folder of its first argument."""
    prelude = """
        import sys, time
        from pathlib import Path
        from loaderproof.loaders.store import make_once

        def wait_for(path):
            while not path.exists():
                time.sleep(0.01)

        place = Path(sys.argv[1])
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(program)
    command = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    """Wait until another process makes a file."""
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"nobody made {path}"
        time.sleep(0.01)


def test_the_cache_is_where_the_environment_says(monkeypatch):
    """`LOADERPROOF_CACHE` comes first, then the user's cache folder, then `~/.cache`."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.setenv("LOADERPROOF_CACHE", "~/here")
    assert Path("/home/somebody/here") == cache_root()
    monkeypatch.delenv("LOADERPROOF_CACHE")
    assert Path("/elsewhere/loaderproof") == cache_root()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Path("/home/somebody/.cache/loaderproof") == cache_root()


def test_a_directory_is_made_once(tmp_path):
    """The second call returns what the first one made, and calls nobody."""
    target = tmp_path / "a" / "b"
    assert target == make_once(target, write_number)
    assert target == make_once(target, no_making)
    assert 42 == read_number(target)
    assert [target] == list(target.parent.iterdir())


def test_others_may_read_what_was_made(tmp_path):
    """A cache that several users share must not be closed to all but one of them."""
    before = os.umask(0o022)
    try:
        made = make_once(tmp_path / "made", write_number)
    finally:
        os.umask(before)
    assert 0o755 == stat.S_IMODE(made.stat().st_mode)


@pytest.mark.parametrize("error", [ValueError("no good"), KeyboardInterrupt()])
def test_an_interrupted_preparation_leaves_nothing(tmp_path, error):
    """An error or Ctrl-C on the way surfaces as it is, and no part of the directory stays."""

    def make(directory):
        write_number(directory)
        raise error

    with pytest.raises(type(error)) as caught:
        make_once(tmp_path / "made", make)
    assert error is caught.value
    assert [] == list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_swept(tmp_path):
    """A process killed on the way leaves no target; the next to make something there cleans up."""
    program = """
        def make(directory):
            (directory / "half").write_text("4")
            (place / "begun").touch()
            time.sleep(60)

        make_once(place / "cache" / "made", make)
    """
    with start(program, tmp_path) as killed:
        wait_for(tmp_path / "begun")
        killed.kill()
    cache = tmp_path / "cache"
    assert not (cache / "made").exists()
    assert 1 == len(list(cache.iterdir()))
    make_once(cache / "other", write_number)
    assert [cache / "other"] == list(cache.iterdir())


def test_two_processes_that_make_the_same_do_not_disturb_each_other(tmp_path):
    """Both are at it at the same time, both end well, and one of the two results is there, whole."""
    program = """
        name, other = sys.argv[2:]

        def make(directory):
            (directory / "one").write_text(name)
            (place / f"{name} began").touch()
            wait_for(place / f"{other} began")
            (directory / "two").write_text(name)

        made = make_once(place / "cache" / "made", make)
        print((made / "one").read_text(), (made / "two").read_text())
    """
    with start(program, tmp_path, "a", "b") as first, start(program, tmp_path, "b", "a") as second:
        answers = [process.communicate(timeout=30)[0].split() for process in (first, second)]
    assert [0, 0] == [first.returncode, second.returncode]
    assert answers[0] == answers[1]
    assert answers[0] in (["a", "a"], ["b", "b"])
    assert [tmp_path / "cache" / "made"] == list((tmp_path / "cache").iterdir())


def test_what_a_living_process_is_making_is_not_swept(tmp_path):
    """Another preparation in the same folder leaves the unfinished one alone."""
    program = """
        def make(directory):
            (directory / "number").write_text("7")
            (place / "begun").touch()
            wait_for(place / "swept")

        make_once(place / "cache" / "slow", make)
    """
    with start(program, tmp_path) as slow:
        wait_for(tmp_path / "begun")
        make_once(tmp_path / "cache" / "quick", write_number)
        (tmp_path / "swept").touch()
        assert 0 == slow.wait(timeout=30)
    assert 7 == read_number(tmp_path / "cache" / "slow")


def test_a_directory_swept_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    """A sweeper may come between the making and the locking of a directory; nothing is lost by it."""
    lock, swept = store._lock, []

    def late(descriptor, *, wait=True):
        if wait and not swept:
            swept.extend(tmp_path.iterdir())
            swept[0].rmdir()
        return lock(descriptor, wait=wait)

    monkeypatch.setattr(store, "_lock", late)
    assert 42 == read_number(make_once(tmp_path / "made", write_number))
    assert 1 == len(swept)


def test_damage_is_mended(tmp_path):
    """What was damaged since it was made is made again, once."""
    target = tmp_path / "made"
    assert 42 == keep(target, write_number, read_number)
    (target / "number").write_text("4?")
    assert 42 == keep(target, write_number, read_number)
    assert 42 == keep(target, no_making, read_number)
    assert [target] == list(tmp_path.iterdir())


def test_damage_that_returns_is_reported(tmp_path):
    """A folder that does not give back what was just written is named, and no third try is made."""
    made = []

    def make(directory):
        made.append(directory)
        (directory / "number").write_text("4?")

    with pytest.raises(StoreError, match=r"made is damaged, .*: 4\?; set LOADERPROOF_CACHE"):
        keep(tmp_path / "made", make, read_number)
    assert 2 == len(made)


def test_discarding_twice_is_no_error(tmp_path):
    """Two processes that find the same damage may both remove it."""
    target = make_once(tmp_path / "made", write_number)
    discard(target)
    discard(target)
    assert [] == list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_says_so(tmp_path):
    """The message names the folder, the reason and the variable that chooses another."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"written to .*file/cache .*Not a directory.*LOADERPROOF_CACHE"):
        make_once(tmp_path / "file" / "cache" / "made", write_number)


def write_a_megabyte(directory: Path) -> None:
    """Make something that is too large."""
    with (directory / "large").open("wb") as file:
        for _ in range(1024):
            file.write(bytes(1024))


def test_a_limit_on_file_sizes_says_so(tmp_path):
    """Where a file may not grow, the message says where and which variable helps, and nothing stays."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"File too large.*LOADERPROOF_CACHE"):
            make_once(tmp_path / "made", write_a_megabyte)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert [] == list(tmp_path.iterdir())


def run(*command: object) -> int:
    """Return the exit code of a system command, 1 if there is no such command."""
    program = shutil.which(str(command[0]))
    return subprocess.run([program, *map(str, command[1:])], check=False).returncode if program else 1


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or run("mount", "-t", "tmpfs", "-o", "size=256k", "loaderproof", disk):
        pytest.skip("only an administrator can mount a small disk")
    yield disk
    assert 0 == run("umount", disk)


def test_a_full_disk_says_so(small_disk):
    """The message says how much room there is and which variable helps, and nothing stays."""
    with pytest.raises(StoreError, match=r"\(0 MB free there\): .*No space left.*LOADERPROOF_CACHE"):
        make_once(small_disk / "made", write_a_megabyte)
    assert [] == list(small_disk.iterdir())


def test_a_full_disk_is_known_by_its_free_space(small_disk):
    """Libraries report a failed write in their own words; the room that is left tells the cause."""

    def make(directory):
        try:
            write_a_megabyte(directory)
        except OSError:
            raise RuntimeError("enforce fail at inline_container.cc") from None

    with pytest.raises(StoreError, match=r"\(0 MB free there\): enforce fail .*LOADERPROOF_CACHE"):
        make_once(small_disk / "made", make)


def test_a_read_only_disk_says_so(small_disk):
    """Making and discarding there say that it is read-only and which variable helps; reading works."""
    made = make_once(small_disk / "made", write_number)
    assert 0 == run("mount", "-o", "remount,ro", small_disk)
    assert 42 == keep(made, no_making, read_number)
    with pytest.raises(StoreError, match=r"Read-only file system.*LOADERPROOF_CACHE"):
        make_once(small_disk / "other", write_number)
    with pytest.raises(StoreError, match=r"Read-only file system.*LOADERPROOF_CACHE"):
        discard(made)
