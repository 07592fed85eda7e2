"""The instruments of life and death: what counts as a rise, and whose leftovers are whose."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from loaderproof.loaders import sources
from loaderproof.suite import leftovers
from loaderproof.suite.experiments import life, memory
from loaderproof.suite.trends import EPOCHS, PAIRS, WARM_UP, rises

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own place for it


def test_noise_does_not_rise():
    """Figures that go up and down around a level rise in none of 20000 runs; the chance of one is 2**-32."""
    generator = np.random.default_rng(1)

    assert not any(rises(generator.normal(size=EPOCHS).tolist(), 0) for _ in range(20_000))


def test_chance_of_a_rise_is_that_of_all_pairs():
    """If figures are noise, k pairs rise together once in 2**k times, which is what the test counts on."""
    generator = np.random.default_rng(2)
    noise = generator.normal(size=(200_000, EPOCHS))
    risen = noise[:, WARM_UP + PAIRS :] > noise[:, WARM_UP : WARM_UP + PAIRS]

    for pairs in (1, 4, 8):
        assert 2.0**-pairs == pytest.approx(risen[:, :pairs].all(axis=1).mean(), rel=0.15)


@pytest.mark.parametrize("jump", [10, 40])
def test_a_cache_that_fills_once_does_not_rise(jump):
    """Figures that jump once, at the beginning or in the middle of the run, do not rise in all pairs."""
    figures = [0] * jump + [100] * (EPOCHS - jump)

    assert not rises(figures, 1) or WARM_UP + PAIRS == jump


def test_a_slow_leak_rises():
    """A leak of a fiftieth of the noise in each epoch is found, if all pairs show it."""
    generator = np.random.default_rng(3)
    figures = (generator.uniform(0, 1, EPOCHS) + 0.05 * np.arange(EPOCHS)).tolist()

    assert rises(figures, 0)


def test_what_is_left_each_time_is_told():
    """Work that leaves a descriptor each time is told so, with how often it was done."""
    opened = []

    left = leftovers.of(lambda: opened.append(os.open(__file__, os.O_RDONLY)), 3)
    for descriptor in opened:
        os.close(descriptor)

    assert ["3 more file descriptors at the end of 3 further rounds than before them"] == left


def test_helpers_are_known_however_long_the_path_to_python():
    """A helper that Python keeps is none left behind, even where its name begins far along the command line."""
    sleep = "import time; time.sleep(60)"
    helper = subprocess.Popen([sys.executable, "-c", sleep, "x" * 500, "multiprocessing.resource_tracker"])
    worker = subprocess.Popen([sys.executable, "-c", sleep, "x" * 500, "a worker"])
    try:
        left = leftovers.workers()
    finally:
        helper.kill(), worker.kill()
        helper.wait(), worker.wait()

    assert worker.pid in left
    assert helper.pid not in left
    assert 80 == len(left[worker.pid])


def test_entries_of_others_in_shared_memory_are_not_blamed(monkeypatch):
    """Work beside a program that leaves entries in /dev/shm from time to time is not blamed for them."""
    monkeypatch.setattr(leftovers, "_PAUSE_S", 0.05)
    monkeypatch.setattr(leftovers, "_GRACE_S", 0.2)
    script = (
        "import pathlib, random, time\n"
        "for number in range(10_000):\n"
        f"    pathlib.Path('{SHARED_MEMORY}/test-of-life-%d' % number).touch()\n"
        "    time.sleep(random.uniform(0, 0.2))\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script])
    try:
        while not list(SHARED_MEMORY.glob("test-of-life-*")):
            time.sleep(0.01)
        assert [] == leftovers.of(lambda: time.sleep(0.1))
    finally:
        other.kill()
        other.wait()
        for entry in SHARED_MEMORY.glob("test-of-life-*"):
            entry.unlink()


def test_entries_of_the_work_in_shared_memory_are_found(monkeypatch):
    """Work that leaves an entry in /dev/shm each time is told so."""
    monkeypatch.setattr(leftovers, "_PAUSE_S", 0.01)
    monkeypatch.setattr(leftovers, "_GRACE_S", 0.1)
    numbers = itertools.count()

    def work():
        (SHARED_MEMORY / f"test-of-life-{next(numbers)}").touch()

    try:
        left = leftovers.of(work)
    finally:
        for entry in SHARED_MEMORY.glob("test-of-life-*"):
            entry.unlink()

    assert ["4 entries in /dev/shm"] == [text.split(":")[0] for text in left]


def test_memory_of_this_process_is_counted():
    """Anonymous memory grows by what is written, and falls when it is let go; a mapped file is none."""
    before = memory.anonymous_bytes()
    if before is None:
        pytest.skip("the kernel does not tell")
    written = bytearray(b"m" * 32 * 2**20)
    grown = memory.anonymous_bytes() - before
    with tempfile.TemporaryFile() as file:
        file.write(written)
        file.flush()
        del written
        mapped = np.memmap(file, np.uint8, "r")
        assert 0 < mapped.sum()
        mapping = memory.anonymous_bytes() - before

    assert 31 * 2**20 < grown < 40 * 2**20
    assert mapping < 4 * 2**20


def test_reads_are_counted_over_processes(tmp_path):
    """A source that counts is read in this process and in a forked one, and both count."""
    (tmp_path / "tally").touch()
    counted = life.Counted(sources.load("probe:4")["train"], tmp_path / "tally")

    pid = os.fork()
    if pid == 0:
        counted[0]
        os._exit(0)
    os.waitpid(pid, 0)
    list(counted)

    assert 1 + 4 == (tmp_path / "tally").stat().st_size
