"""The plugin, in runs of pytest as a user starts them."""

import re
import shlex
from itertools import groupby
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "loaders_for_tests"
FILE = FOLDER / "judged.py"
# Small, so that nothing takes time; as large as the article's network needs.
DATA = ("--loader-data", "probe:64:28x26x1:10", "--loader-samples", "64")
HEAVY = {"torch", "tensorflow"}
# For one loader everything but real training; for all a rule that anything keeps, some about len()
# and the rest of an epoch, and two that share an observation.
SOME = "right and not learns or test_shapes or test_len_counts_batches or test_drop_last or own_order or another_order"


# What tests have beside loaders.
PARAMETERS = r"train|test|\w+Error|hidden|visible|memory|descriptors|threads|shared_memory|removed|read-only"


def label(name: str) -> str:
    """Return the loader's part of the name of a test."""
    return re.search(rf"\[(.*?)(-({PARAMETERS}))?\]$", name)[1]


def is_timed(name: str) -> bool:
    """Tell a test of speed by its name."""
    return name.startswith(("test_training", "test_loading"))


# One run that several tests look at.


@pytest.fixture(scope="module")
def judged(tmp_path_factory, suite_run_in):
    """A run with right, modest, deviating, stale and crashing loaders."""
    run = suite_run_in(tmp_path_factory.mktemp("judged"))
    chosen = run.loaders("right", "modest", "deviating", "stale", "crashing")
    run.done = run.judge(*DATA, *chosen, "-k", SOME)
    return run


@pytest.fixture(scope="module")
def results(judged):
    """The outcome of each test of that run, by name."""
    return {one.name: one for one in judged.outcomes()}


def test_a_run_imports_neither_torch_nor_tensorflow(judged):
    """The process of pytest judges loaders without importing what they are made of."""
    assert set() == HEAVY & judged.modules()


def test_loaders_take_turns(results):
    """One loader is judged after the other, and each by its conformance before its speed."""
    turns = [turn for turn, _ in groupby(results, key=lambda name: (label(name), is_timed(name)))]

    names = ["right", "modest", "deviating", "deviating-long", "stale", "crashing"]
    assert [("judged:right", False), ("judged:right", True)] == turns[:2]
    assert [(f"judged:{name}", False) for name in names[1:]] == turns[2:]


def test_a_skip_names_the_promise(results):
    """A loader is not judged by what it does not promise, and the skip says which promise that is."""
    skipped = {name: one.text for name, one in results.items() if one.what == "skipped" and "modest" in name}

    assert {
        "test_drop_last[judged:modest]": "judged:modest does not promise drop_last",
        "test_every_epoch_has_its_own_order[judged:modest]": "judged:modest does not promise shuffle",
        "test_another_seed_gives_another_order[judged:modest]": "judged:modest does not promise shuffle",
    } == {name: text.splitlines()[0] for name, text in skipped.items()}


def test_a_deviation_is_expected_to_fail(results):
    """A declared failure counts as expected, with reason and link; other variants have to pass."""
    long = results["test_len_counts_batches[judged:deviating-long]"]

    assert "passed" == results["test_len_counts_batches[judged:deviating]"].what
    assert ("xfailed", "one too many (https://example.org/issues/1)") == (
        long.what,
        long.text.splitlines()[0],
    )


def test_a_deviation_that_passes_is_a_failure(results):
    """A declared failure that does not happen fails the run, and the text says what was declared."""
    outcome = results["test_len_counts_batches[judged:stale]"]

    assert "failed" == outcome.what
    assert "[XPASS(strict)] mended since (https://example.org/issues/1)" in outcome.text


def test_a_crash_is_reported_once(results):
    """The first test that meets a crash reports it; those that need the same observation are skipped."""
    met = [one for name, one in results.items() if "crashing" in name and one.what != "passed"]

    assert [
        ("test_shapes[judged:crashing]", "failed"),
        ("test_len_counts_batches[judged:crashing]", "skipped"),
    ] == [(one.name, one.what) for one in met]
    assert "exit code 3" in met[0].text
    reason = "not observed, for the reason that test_shapes gives"
    assert reason == met[1].text.splitlines()[0]


def test_the_run_goes_on_after_a_crash(results):
    """What a loader does not crash at is judged in a new process."""
    after = [
        "test_drop_last",
        "test_every_epoch_has_its_own_order",
        "test_another_seed_gives_another_order",
    ]

    assert ["passed"] * 3 == [results[f"{test}[judged:crashing]"].what for test in after]


def test_progress_names_loader_and_phase(judged):
    """While it works, the run says which loader's turn it is, of how many, and what is done."""
    turns = re.findall(r"^\[(\d/\d)\] (.*)$", judged.done.stdout, re.MULTILINE)

    assert [("1/6", "judged:right: conformance"), ("1/6", "judged:right: speed")] == turns[:2]
    assert [f"{number}/6" for number in range(2, 7)] == [turn for turn, _ in turns[2:]]


def test_the_table_ranks_or_says_why_not(judged):
    """Every loader has a line in the table at the end with its rank, or one below with the reason for none."""
    table = judged.done.stdout.partition(" loaders ===")[2]
    ends = {
        line.split()[0]: re.split(r" {2,}", line)[-1]
        for line in table.splitlines()
        if line.startswith("judged:")
    }

    assert "1" == ends.pop("judged:right")
    assert {name: f"{name} is not ranked: not timed" for name in ends} == ends
    assert 5 == len(ends)


def test_a_failure_repeats(judged, results):
    """The command that a failure gives runs that test alone, and comes to the same failure."""
    failure = results["test_shapes[judged:crashing]"].text
    command = shlex.split(re.search(r"^ *repeat +(pytest .*)$", failure, re.MULTILINE)[1])

    again = judged.end_of(judged.popen(*command))

    assert 1 == again.returncode
    assert "1 failed" in again.stdout.splitlines()[-1]
    said = failure[failure.rindex("No answer") :].strip()
    assert said in again.stdout


# Runs that are used in other ways.


def test_collecting_imports_nothing_heavy(suite_run):
    """To list the tests, neither torch nor tensorflow is imported, and every loader comes in its order."""
    done = suite_run.judge("--collect-only", "-q")
    names = re.findall(r"::(.*)$", done.stdout, re.MULTILINE)
    phases = [
        phase
        for phase, _ in groupby(
            ("article",)
            if "test_article" in name
            else (label(name), "test_training" in name or "test_loading" in name)
            for name in names
        )
    ]

    assert set() == HEAVY & suite_run.modules()
    assert len(set(phases)) == len(phases)
    assert ("resident", False) in phases
    assert ("article",) == phases[-1]
    for name, timed in phases[:-1]:
        assert timed or phases.index((name, True)) == phases.index((name, False)) + 1


def test_a_run_without_the_suite_is_unchanged(suite_run):
    """Where nothing is judged, the plugin changes no output and imports nothing but parts of itself."""
    (suite_run.folder / "test_own.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('case', [1, 2])\ndef test_own(case):\n    assert case\n\n"
        "def test_wrong(benchmark):\n    assert not benchmark(int)\n    assert benchmark is None\n"
    )

    texts, modules = [], []
    for words in (["-p", "no:loaderproof"], []):
        done = suite_run.pytest("-q", "--benchmark-disable", *words)
        texts.append(re.sub(r"\d+\.\d+s|0x[0-9a-f]+", "", done.stdout))
        modules.append(suite_run.modules())

    assert texts[0] == texts[1]
    ours = modules[1] - modules[0]
    assert ours
    assert set() == {module for module in ours if module.partition(".")[0] != "loaderproof"}
    assert set() == {"numpy", *HEAVY} & modules[1]


def test_stopping_and_resuming(suite_run):
    """`-x` stops at the first failure, and `--lf` begins there again."""
    chosen = [*DATA, *suite_run.loaders("crashing"), "-k", SOME]

    first = suite_run.judge("-x", *chosen)
    stopped = suite_run.outcomes()
    again = suite_run.judge("--lf", *chosen)

    assert 1 == first.returncode
    assert ["test_shapes[judged:crashing]"] == [one.name for one in stopped if one.what == "failed"]
    assert stopped[-1].what == "failed"
    assert 1 == again.returncode
    assert ["test_shapes[judged:crashing]"] == [one.name for one in suite_run.outcomes()]


def test_a_loader_that_always_dies_ends_some_day(suite_run):
    """Who dies wherever it is opened fails three tests, and is then spared the others, which say why."""
    done = suite_run.judge(*DATA, *suite_run.loaders("dying"), "-k", "not learns")

    outcomes = suite_run.outcomes()
    failed = [one for one in outcomes if one.what == "failed"]
    spared = [one for one in outcomes if "not observed, for the reason that test_" in one.text]
    assert 1 == done.returncode
    assert [True] * 3 == ["ended with exit code 4" in one.text for one in failed]
    assert {"skipped"} == {one.what for one in outcomes if one not in failed}
    assert outcomes[-1] in spared


def test_in_place(suite_run):
    """`--loader-isolation none` opens the loader in pytest's own process."""
    note = suite_run.environment["NOTE"] = str(suite_run.folder / "note")

    done = suite_run.judge(
        "--loader-isolation", "none", *DATA, *suite_run.loaders("right"), "-k", "test_shapes"
    )

    assert 0 == done.returncode
    assert str(suite_run.pid()) == Path(note).read_text()
    assert {"torch"} == HEAVY & suite_run.modules()


def test_as_an_installed_package(suite_run):
    """By its name the suite is found from any folder, and what a loader keeps is counted just as well."""
    done = suite_run.pytest(
        "--pyargs", "loaderproof.suite", *DATA, *suite_run.loaders("right"), "-k", "test_shapes"
    )

    assert 0 == done.returncode
    assert re.search(r"^judged:right +1/1 ", done.stdout, re.MULTILINE)


def test_odd_and_double_names(suite_run):
    """Loaders of one name are told apart, and a failure repeats whatever the loader is called."""
    specs = [f"{folder}/judged.py:oddly_named" for folder in ("one", "other")]
    for spec in specs:
        file = suite_run.folder / spec.partition(":")[0]
        file.parent.mkdir()
        file.write_text(FILE.read_text())

    done = suite_run.judge("-q", *DATA, "--loader", specs[0], "--loader", specs[1], "-k", "test_len_counts")
    failed = re.findall(r"^FAILED .*::(test_len\w+\[.*\]) - ", done.stdout, re.MULTILINE)
    commands = re.findall(r"^ *repeat +(pytest .*)$", done.stdout, re.MULTILINE)
    again = suite_run.end_of(suite_run.popen(*shlex.split(commands[1]), "--collect-only", "-q"))

    assert [f"test_len_counts_batches[my [own] loader@{spec}]" for spec in specs] == failed
    assert 1 == again.stdout.count("::test_len_counts_batches[my [own] loader]")
    assert again.stdout.splitlines()[-1].startswith("1/")
