from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from loaderproof.loaders import Promise
from loaderproof.suite import conformance
from loaderproof.suite.conformance import test_cuda, test_soak

CONFORMANCE = Path(__file__).parents[1] / "suite" / "conformance"
FOLDER = Path(__file__).with_name("broken_loaders")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # the kernel's own place for it
TIMEOUT_S = 15
Name = tuple[str, str]  # of a file without its ending, and of a loader in it

# A new interpreter for each of so many loaders would take minutes.
QUICK = ("--loader-data", "probe:300", "-k", "not network_learns and not interpreter")
OWN_END = (*QUICK[:-1], "not network_learns and (not interpreter or AtTheEnd or OutlivesIt)")
AFTER_ERRORS = (*QUICK[:-1], f"{QUICK[-1]} and (not left_after or AfterAnError or Removed)")
IN_PLACE = (*QUICK, "--loader-isolation", "none")
# How the loaders of each file are judged. Those that crash, hang or leave something behind need
# processes of their own; for the others it would only take time. The longest comes first, so that
# it is not waited for at the end.
FILES = {
    "crashes": (*QUICK, "--loader-timeout", str(TIMEOUT_S)),
    "life": (*OWN_END, "--loader-timeout", str(TIMEOUT_S)),
    "soak": ("--loader-data", "probe:300", "-k", "test_soak", "--loader-soak"),
    "leaks": AFTER_ERRORS,
    "learning": ("--loader-data", "glyphs:3200"),
    "honest": (*QUICK, "--loader-search=20"),
    "search": (*IN_PLACE, "--loader-search=300"),
    "honest_more": QUICK,
    "reported": IN_PLACE,
    "formats": IN_PLACE,
    "batches": IN_PLACE,
    "epochs": IN_PLACE,
    "order": IN_PLACE,
    "augmenting": IN_PLACE,
    "randomness": IN_PLACE,
    "determinism": IN_PLACE,
    "ownership": IN_PLACE,
    "resumable": IN_PLACE,
    "resuming": IN_PLACE,
    "resuming_apart": QUICK,
    "failures": IN_PLACE,
    "on_cuda": IN_PLACE,
    "sharding": (*IN_PLACE, "--loader-timeout", str(TIMEOUT_S)),
}


def loaders_of(file: str) -> dict[Name, Callable]:
    """Return the loaders in a file, each with the tests that it fails."""
    sys.path.insert(0, str(FOLDER))
    try:
        found = vars(importlib.import_module(file))
    finally:
        sys.path.remove(str(FOLDER))
    return {(file, name): value for name, value in found.items() if hasattr(value, "fails")}


LOADERS = {name: loader for file in FILES for name, loader in loaders_of(file).items()}
SAMPLE = [
    ("batches", "Unscaled"),
    ("epochs", "SharedCursor"),
    ("failures", "HidesTheMessage"),
    ("order", "NarrowBuffer"),
    ("ownership", "ReadOnlyLabels"),
]
# These are skipped for want of something else than a promise, or take too long for so many loaders.
OF_FEW = {
    "test_bad_samples_are_left_out_and_counted",
    "test_interpreter_can_end_in_mid_epoch",
    "test_network_learns_as_from_resident_data",
    "test_stray_files_are_no_samples",
}
OF_WORKERS = {
    "test_workers_change_no_content",
    "test_killed_worker_is_noticed",
    "test_workers_start_beside_a_busy_thread",
    "test_workers_can_be_spawned",
}
# Whose faults show on such a device alone.
OF_CUDA = "on_cuda"
CUDA = torch.cuda.is_available()
every_loader = pytest.mark.parametrize("name", LOADERS, ids=map(":".join, LOADERS))


@dataclass
class Verdict:
    """What became of one loader: the text of each test that it failed, and the tests that it passed."""

    failed: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)


def judge(run, names: Iterable[Name], options: Iterable[str]) -> dict[Name, Verdict]:
    """Run the suite on some loaders."""
    # Some of these run at the same time, so each keeps to one core.
    run.environment["OMP_NUM_THREADS"] = "1"
    specs = [f"--loader={FOLDER / file}.py:{loader}" for file, loader in names]
    done = run.pytest(CONFORMANCE, *options, *specs)
    assert done.returncode in {0, 1}, done.stdout  # some tests failed, and nothing worse
    return verdicts(run.outcomes())


def verdicts(outcomes) -> dict[Name, Verdict]:
    """Return what became of each loader, in tests called `test_something[file:loader-more]`."""
    found: dict[Name, Verdict] = {}
    for outcome in outcomes:
        test, file, loader = re.match(r"(\w+)\[(\w+):(\w+)", outcome.name).groups()
        verdict = found.setdefault((file, loader), Verdict())
        if outcome.what == "failed":
            verdict.failed[test] = outcome.text
        elif outcome.what == "passed":
            verdict.passed.add(test)
    return found


@pytest.fixture(scope="module")
def verdict_of(request, tmp_path_factory, suite_run_in) -> Iterator[Callable[[Name], Verdict]]:
    """Judge all loaders in the files that this run asks for, some files at a time."""
    asked = {file for item in request.session.items for file in files_of(item)}

    def judged(file: str) -> dict[Name, Verdict]:
        return judge(suite_run_in(tmp_path_factory.mktemp(file)), loaders_of(file), FILES[file])

    sweep()
    # What leaks leave in shared memory does not tell who left it, so nothing else runs beside them.
    leaking = {file: judged(file) for file in asked & {"leaks"}}
    with ThreadPoolExecutor(3) as pool:
        running = {file: pool.submit(judged, file) for file in FILES if file in asked - leaking.keys()}
        yield lambda name: (leaking.get(name[0]) or running[name[0]].result())[name]
    sweep()


def sweep() -> None:
    """Remove what broken loaders have left in shared memory, which may keep them from starting again."""
    for left in SHARED_MEMORY.glob("broken-loader-*"):
        left.unlink(missing_ok=True)


def files_of(item: pytest.Item) -> set[str]:
    """Return the files whose loaders a test asks for."""
    if "verdict_of" not in getattr(item, "fixturenames", ()):
        return set()
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return {given["name"][0]} if "name" in given else {file for file, _ in SAMPLE}


def conformance_tests() -> dict[str, Callable]:
    """Return all conformance tests by their names."""
    found = pkgutil.iter_modules(conformance.__path__, f"{conformance.__name__}.")
    functions = (
        member
        for one in found
        for member in inspect.getmembers(importlib.import_module(one.name), inspect.isfunction)
    )
    return {name: function for name, function in functions if name.startswith("test_")}


def _listed(marks: Any) -> list[Any]:
    return list(marks) if isinstance(marks, (list, tuple)) else [marks]


def promised_by(function: Callable) -> set[Promise]:
    """Return the promises without which a test is skipped."""
    module = importlib.import_module(function.__module__)
    marks = [*getattr(function, "pytestmark", ()), *_listed(getattr(module, "pytestmark", ()))]
    return {one for mark in marks if mark.name == "promises" for one in mark.args}


def test_every_conformance_test_is_failed_by_some_loader():
    """A conformance test that no broken loader names is not finished; a name that is no test is a mistake."""
    named = {test for loader in LOADERS.values() for test in loader.fails}

    assert set(conformance_tests()) == named


@every_loader
def test_loader_fails_exactly_the_tests_it_names(verdict_of, name, record_property):
    """A broken loader fails the tests that it names and no other; a right one, which names none, fails none."""
    verdict = verdict_of(name)
    record_property("judged", (name, sorted(verdict.failed)))
    if name[0] == OF_CUDA and LOADERS[name].fails and not CUDA:
        assert {} == verdict.failed
        pytest.skip("its fault shows on a CUDA device alone; without one it failed nothing, as it must")

    assert sorted(LOADERS[name].fails) == sorted(verdict.failed), "\n\n".join(verdict.failed.values())


@pytest.mark.parametrize(
    ("name", "without"),
    [(("honest", "workers"), OF_FEW), (("honest", "Plain"), OF_FEW | OF_WORKERS)],
    ids=["workers", "Plain"],
)
def test_right_loader_passes_what_it_promises(verdict_of, name, without):
    """A right loader passes every test of what it promises, instead of being spared some."""
    promises = LOADERS[name].declared["promises"]
    owed = {test for test, function in conformance_tests().items() if promised_by(function) <= promises}

    # The batches of these two lie in host memory.
    spared = {"test_device_batches_are_ready"} if CUDA else set(dir(test_cuda))
    assert owed - without - spared - set(dir(test_soak)) == verdict_of(name).passed


@pytest.mark.parametrize(
    ("name", "words"),
    {
        ("crashes", "ReadsNowhere"): ("signal SIGSEGV", "in collapse"),
        ("crashes", "KilledForMemory"): ("signal SIGKILL",),
        ("crashes", "Exits"): ("exit code 3", "giving up"),
        ("crashes", "ExitsPolitely"): ("SystemExit: no more memory",),
        ("crashes", "Waits"): (f"no answer within {TIMEOUT_S} s", "--loader-timeout", "in collapse"),
        ("crashes", "Floods"): ("printed more than", "what a flood"),
        ("crashes", "WaitsForADeadThread"): (f"no answer within {TIMEOUT_S} s", "in __iter__"),
        ("leaks", "ThreadAfterBreak"): ("threads",),
        ("leaks", "NativeThread"): ("threads outside of Python",),
        ("leaks", "ProcessAfterBreak"): ("processes",),
        ("leaks", "DescriptorForEachBatch"): ("file descriptors",),
        ("leaks", "SharedMemory"): ("/dev/shm",),  # noqa: S108
        ("leaks", "TemporaryFile"): ("files that 3 further rounds left",),
        ("life", "FailsAtTheEnd"): ("exit code 3",),
        ("life", "ServerOutlivesIt"): ("still running",),
        ("life", "LockedWhileRead"): ("It did not return when it was asked for a batch",),
        ("life", "CannotBeClosedInMidEpoch"): ("batches were not taken",),
    }.items(),
    ids=lambda value: ":".join(value) if value in LOADERS else "",
)
def test_each_disaster_says_what_it_was(verdict_of, name, words):
    """A loader that dies, exits, hangs, floods or leaves something behind gets a failure text of its own."""
    text = "".join(verdict_of(name).failed.values())

    assert [] == [word for word in words if word not in text]


@pytest.mark.parametrize("name", loaders_of("crashes"), ids=":".join)
def test_run_goes_on_after_a_disaster(verdict_of, name):
    """After a loader has died or hung in one test, it is judged by those that follow."""
    verdict = verdict_of(name)

    assert {"test_global_random_state_is_untouched", "test_every_epoch_has_its_own_order"} <= verdict.passed


def test_isolation_changes_no_verdict(verdict_of, suite_run):
    """In a process of its own a loader fails with the same report as in place."""
    apart = judge(suite_run, SAMPLE, QUICK)

    assert {name: reports(verdict_of(name)) for name in SAMPLE} == {
        name: reports(apart[name]) for name in SAMPLE
    }


def reports(verdict: Verdict) -> dict[str, str]:
    """Return the text of each failure, without the command that repeats it."""
    return {test: re.sub(r"\n  repeat .*", "", text) for test, text in verdict.failed.items()}


def test_command_in_a_report_repeats_it(verdict_of, suite_run):
    """The command at the end of a report runs the test that failed, and it fails again."""
    report = verdict_of(SAMPLE[0]).failed["test_range"]
    command = re.search(r"repeat +pytest (.*)", report)[1]

    suite_run.pytest(*shlex.split(command))

    assert [("failed", report)] == [(outcome.what, outcome.text) for outcome in suite_run.outcomes()]
