"""Whole runs with a gate: how they end, what they leave, and that nothing passes unseen.

The gate's processes are doubles here that tell times without taking any; one run at the end has real ones.
"""

import json
import shutil
from pathlib import Path

import pytest

QUICK = Path(__file__).parent / "loaders_for_tests" / "quick_gate.py"
TINY = ("--loader-data", "probe:64:8x8x1:10", "--loader-device", "emulated:1ms", "--loader-samples", "64")
# The base is another loader: no repository and nothing to install.
GATE = ("--loader", "torch_dataloader", "--loader-workers", "0", "--loader-against", "resident")
LABEL = "torch_dataloader-0workers"


@pytest.fixture
def gated(suite_run):
    """Run the suite with a gate whose arms behave as told."""
    shutil.copy(QUICK, suite_run.folder)

    def run(*words, chosen="gate", options=GATE, **arms):
        told = {name.replace("_", " "): one for name, one in arms.items()}
        suite_run.environment["QUICK_GATE"] = json.dumps(told)
        return suite_run.judge("-p", "quick_gate", "-k", chosen, *TINY, *options, *words)

    run.suite = suite_run
    run.report = suite_run.folder / "loaderproof-report"
    return run


def outcomes(gated) -> dict[str, str]:
    """Return what became of each test of the last run, by its name without the loader."""
    return {one.name.partition("[")[0]: one.what for one in gated.suite.outcomes()}


def answers(gated) -> dict[str, str]:
    """Return the answers in the result file of the last run."""
    written = json.loads((gated.report / "gate.json").read_text())
    return {one["loader"]: one["answer"] for one in written["loaders"]}


SLOWER = {"faster": 0.8}
NOISY = {"spread": 0.3}


def test_equal_loaders_pass(gated):
    """Where nothing is slower, both tests pass, the run exits with 0, and the answer lies in the report."""
    done = gated()

    assert (0, {"test_gate_measures": "passed", "test_gate_decides": "passed"}) == (
        done.returncode,
        outcomes(gated),
    )
    assert {LABEL: "pass"} == answers(gated)


def test_a_slower_loader_fails(gated):
    """A failed gate is a failed test, in JUnit XML too, with the loader, the base and the effect."""
    done = gated(candidate=SLOWER)
    failed = [one for one in gated.suite.outcomes() if one.what == "failed"]

    assert 1 == done.returncode
    assert [f"test_gate_decides[{LABEL}]"] == [one.name for one in failed]
    assert all(word in failed[0].text for word in (LABEL, "resident", "+25", "5 %"))
    assert {LABEL: "fail"} == answers(gated)
    # What is decided has to be measured first.
    assert f"-k 'test_gate and [{LABEL}]'" in failed[0].text


def test_what_cannot_be_decided_fails_with_its_own_code(gated):
    """Too much noise fails the test, and the run exits with 6; with the option it passes, and says so."""
    failed, passed = gated(candidate=NOISY), gated("--loader-gate-inconclusive=pass", candidate=NOISY)

    assert (6, 0) == (failed.returncode, passed.returncode)
    assert "inconclusive" in passed.stdout
    assert {LABEL: "inconclusive"} == answers(gated)


def test_a_failed_test_beside_the_gate_is_no_inconclusive_run(gated):
    """The code of its own stands for gates that could not decide, and for nothing else."""
    own = gated.suite.folder / "test_own.py"
    own.write_text("def test_gate_of_my_own(): assert False")

    assert 1 == gated(own, candidate=NOISY).returncode


def test_an_error_beside_a_gate_that_could_not_decide_is_no_inconclusive_run(gated):
    """A file that cannot be collected is no test that failed, and must not look like noise."""
    own = gated.suite.folder / "test_own.py"
    own.write_text("nonsense")

    assert 1 == gated(own, "--continue-on-collection-errors", candidate=NOISY).returncode


def test_failures_first_still_measures_first(gated):
    """Options that put failed tests first do not have the gate decide before it has measured."""
    gated(candidate=SLOWER)
    again = gated("--ff")

    assert (0, {LABEL: "pass"}) == (again.returncode, answers(gated))


@pytest.mark.parametrize("left_out", ["gate_measures", "gate_decides", "nothing_at_all", "test_len"])
def test_a_gate_that_was_left_out_is_no_pass(gated, left_out):
    """Where a test of the gate is deselected, the run does not exit with 0."""
    chosen = f"gate and not {left_out}" if left_out.startswith("gate") else left_out

    assert 0 != gated(chosen=chosen).returncode


def test_runs_that_hold_no_test_of_the_suite_do_not_pass(gated):
    """Somebody else's tests alone pass no gate."""
    own = gated.suite.folder / "test_own.py"
    own.write_text("def test_of_my_own(): pass")
    gated.suite.environment["QUICK_GATE"] = "{}"

    done = gated.suite.pytest(own, *GATE)

    assert (1, True) == (done.returncode, "no loader was gated" in done.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--benchmark-disable",), "disabled"),
        (("--benchmark-skip",), "did not run"),
    ],
)
def test_benchmarks_that_are_not_timed_fail_it(gated, words, said):
    """Benchmarks that are disabled or skipped are no measurement."""
    done = gated(*words)

    assert (1, True) == (done.returncode, said in done.stdout)


def test_a_loader_that_breaks_a_rule_fails_it(gated):
    """Whoever delivers wrong data is not compared, however fast."""
    (gated.suite.folder / "own.py").write_text(
        "from loaderproof.loaders import registry\n"
        "def twice(source, request):\n"
        "    batches = list(registry.load('resident').open(source, None, request))\n"
        "    return batches + batches[:1]\n"
    )
    options = ("--loader", "own.py:twice", "--loader-against", "resident")
    gated(chosen="gate or test_every_sample_once", options=options)
    found = {one.name.partition("[")[0]: one for one in gated.suite.outcomes()}

    assert "failed" == found["test_gate_measures"].what
    assert "test_every_sample_once" in found["test_gate_measures"].text
    assert {"fail"} == set(answers(gated).values())


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ({"candidate": {"samples": 32}}, "the candidate delivered 32 samples in 1 batches, for 64 in 2"),
        ({"base": {"samples": 128}}, "the base delivered 128 samples in 4 batches, for 64 in 2"),
        ({"base": {"dies": True}}, "the base could not be measured"),
    ],
)
def test_what_cannot_be_compared_fails(gated, arms, said):
    """Unequal work and a side that dies fail the gate, and the text says which side."""
    done = gated(**arms)
    found = {one.name.partition("[")[0]: one for one in gated.suite.outcomes()}

    assert (1, "failed") == (done.returncode, found["test_gate_measures"].what)
    assert said in found["test_gate_measures"].text
    assert {LABEL: "fail"} == answers(gated)


def test_fewer_blocks_than_the_level_needs_fail(gated):
    """Eight blocks cannot decide on five measures at a level of 1 %; the text says how many can."""
    gated("--loader-gate-blocks", "8")
    found = {one.name.partition("[")[0]: one for one in gated.suite.outcomes()}

    assert "failed" == found["test_gate_measures"].what
    assert "--loader-gate-blocks 9" in found["test_gate_measures"].text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--loader-gate", "5"), "in percent"),
        (("--loader-gate", "0%"), "in percent"),
        (("--loader-gate-blocks", "7"), "from 8 on"),
        (("--loader-isolation", "none"), "processes of its own"),
        (("-n", "2"), "leave -n out"),
        (("--loader-against", ""), "nothing to compare with"),
        (("--loader-against", "no-such-thing"), "no-such-thing"),
    ],
)
def test_refusals(gated, words, said):
    """What makes no sense is refused before anything runs."""
    done = gated(*words)

    assert (4, True) == (done.returncode, said in done.stdout)


def test_a_margin_without_a_base_is_refused(gated):
    """Whoever gives a margin believes that something is gated."""
    done = gated("--loader-gate", "3%", options=("--loader", "resident"))

    assert (4, True) == (done.returncode, "--loader-against" in done.stdout)


def test_without_the_option_there_is_no_gate(gated):
    """A run that does not ask for it has neither its tests nor its files."""
    gated(chosen="gate or test_len", options=("--loader", "resident"))

    assert "test_gate_measures" not in outcomes(gated)
    assert not gated.report.exists()


def test_an_interrupted_run_leaves_no_answer(gated):
    """An earlier answer is gone when a run begins, and one that is interrupted in its gate leaves none."""
    gated()
    own = gated.suite.folder / "conftest.py"
    own.write_text(
        "import pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_call(item):\n"
        "    if 'test_gate_decides' in item.name: raise KeyboardInterrupt\n"
    )
    shutil.move(own, gated.suite.folder / "stop.py")

    assert 2 == gated("-p", "stop").returncode
    assert not (gated.report / "gate.json").exists()


def test_all_loaders_share_one_decision(gated):
    """All are measured before any is decided on, and each has a test of its own."""
    gated("--loader", "resident", "--loader-against", "memmap")
    names = [one.name.partition("[")[0] for one in gated.suite.outcomes()]

    assert ["test_gate_measures"] * 3 + ["test_gate_decides"] * 3 == names
    assert {LABEL: "pass", "resident": "pass", "resident-device": "pass"} == answers(gated)


def test_stored_runs(gated):
    """A first run is recorded, a later one is compared with it, and without one the gate fails before it measures."""
    against = ("--loader", "torch_dataloader", "--loader-workers", "0", "--loader-against")
    lacking = gated(options=(*against, "stored"))
    recorded = gated("--benchmark-save=base", options=(*against, "nothing"))
    again = gated(options=(*against, "stored"))
    slower = gated(
        "--benchmark-autosave",
        options=(*against, "stored"),
        **dict.fromkeys(("candidate", "base", "base_again"), SLOWER),
    )
    kept = list((gated.suite.folder / ".benchmarks").rglob("*.json"))

    assert [1, 0, 0, 1] == [one.returncode for one in (lacking, recorded, again, slower)]
    assert "--loader-against nothing" in lacking.stdout
    assert ["0001_base.json"] == [one.name for one in kept]
