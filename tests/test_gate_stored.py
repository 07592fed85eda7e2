"""Baselines of earlier runs: which of them may be compared with, and which runs become one."""

import json
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_benchmark.utils import get_machine_id

from loaderproof.suite import environment
from loaderproof.suite.gate.record import FORMAT, Record, Unusable, parse
from loaderproof.suite.gate.stored import newest, of_file, read

GUIDE = Path(__file__).parents[1] / "docs" / "history.md"
LABEL = "torch_dataloader-0workers"
WORK = {
    "data": "6400 samples of glyphs",
    "samples": 6400,
    "batches": 100,
    "batch_size": 64,
    "seed": 1,
    "processes": 1,
    "device": "emulated 2 ms step",
}
MACHINE = {
    "cpu": "Intel Xeon",
    "cores": 4,
    environment.MEMORY: 15.6,
    "torch": "2.14.1",
    "loaderproof": "0.1.0",
}
LEVELS = [0.1, 0.11, 0.09, 0.1, 0.12, 0.1, 0.08, 0.1]
OURS = Record(LABEL, MACHINE, WORK, "recorded", {"training": LEVELS, "wait share": LEVELS})
# A gate of one made-up loader, and the call that the suite's own gate makes at its end.
BENCHMARK = f"""
import os
from loaderproof.suite.gate.record import Record

def test_gate(benchmark):
    benchmark.pedantic(int, rounds=3)
    answer, levels = os.environ["ANSWER"], {LEVELS}
    measures = dict.fromkeys(("training", "loading", "first batch", "wait share"), levels)
    record = Record({LABEL!r}, {MACHINE}, {WORK}, answer, measures)
    benchmark.extra_info["gate"] = record.as_data()
    assert answer == "recorded"
"""
KEEPER = """
import pytest
from loaderproof.suite.gate import stored

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    if session.exitstatus:
        print("TOLD", stored.keep_out(session.config))
    print("FOLDER", stored.folder(session.config))
    return (yield)
"""


def saved(storage, number, *records, machine_id=None, name="base"):
    """Write a run as pytest-benchmark stores it, with these records, and return its file."""
    path = storage / (machine_id or get_machine_id()) / f"{number:04}_{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [one.as_data() if isinstance(one, Record) else one for one in records]
    path.write_text(json.dumps({"benchmarks": [{"extra_info": {"gate": one}} for one in data]}))
    return path


def changed(**fields):
    """Return our record as data, with some fields changed."""
    return {**OURS.as_data(), **fields}


def refusal(call, *arguments, **more):
    """Return why something is refused."""
    with pytest.raises(Unusable) as caught:
        call(*arguments, **more)
    return str(caught.value)


# One record.


def test_a_record_survives_json():
    """What was written is what is read."""
    assert OURS == parse(json.loads(json.dumps(OURS.as_data())))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "the record is not an object"),
        (changed(format=FORMAT + 1), "made by format 2: this version reads 1"),
        (changed(format=True), "made by format True: this version reads 1"),
        ({"loader": LABEL}, "made by format None: this version reads 1"),
        (changed(answer="fail"), "its own gate failed"),
        (changed(answer="inconclusive"), "its own gate was inconclusive"),
        (changed(answer="undecided"), "its own gate never came to an answer"),
        (changed(answer=None), "its answer is missing"),
        (changed(work={**WORK, "samples": 6400.0}), "its work's samples is not a whole number"),
        (changed(work={**WORK, "seed": True}), "its work's seed is not a whole number"),
        (changed(work={"data": "glyphs"}), "its work's samples is missing"),
        (changed(environment={"cpu": ["a"]}), "its cpu is no finite number"),
        (changed(environment={"cpu": "\x1b[31m"}), "its cpu is no text to show"),
        (changed(environment=[]), "its environment is not an object"),
        (changed(to_ceiling={}), "it holds no measure"),
        (changed(to_ceiling={"training": 1.0}), "its training is not a list"),
        (changed(to_ceiling={"training": LEVELS[:7]}), "it has 7 blocks, and fewer than 8 decide nothing"),
        (
            changed(to_ceiling={"training": LEVELS, "loading": LEVELS * 2}),
            "its measures are of unlike numbers of blocks: 8, 16",
        ),
        *(
            (changed(to_ceiling={"training": [*LEVELS, bad]}), "its training is no finite number")
            for bad in (float("nan"), float("-inf"), 10**400, "0.1", True, None)
        ),
    ],
)
def test_what_is_no_baseline_is_refused(data, told):
    """A record that is broken, or whose own run did not pass, says so in a sentence, also by way of a file."""
    assert told == refusal(parse, data)
    if isinstance(data, dict):
        assert told == refusal(parse, json.loads(json.dumps(data)))


# One file.


def test_a_file_is_read(tmp_path):
    """All records of a file come by their labels."""
    other = replace(OURS, loader="resident")

    assert {LABEL: OURS, "resident": other} == read(saved(tmp_path, 1, OURS, other))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (json.dumps({"benchmarks": [{"extra_info": {"gate": OURS.as_data()}}]}).encode()[:-20], "cut off"),
        (pickle.dumps({"benchmarks": []}), "no JSON"),
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "the whole is not an object"),
        (b"{}", "its list of benchmarks is missing"),
        # As --benchmark-json of a run with benchmarks of other tests.
        (b'{"benchmarks": [{"name": "test_other", "extra_info": {}}]}', "no record of a gate"),
        (b'{"benchmarks": [1, {"extra_info": 2}, {"extra_info": {"gate": 3}}]}', "no record of a gate"),
        (b'{"benchmarks": [{"extra_info": {"gate": {}}}]}', "the label of a loader is no text"),
    ],
)
def test_what_is_no_result_file_is_refused(tmp_path, content, told):
    """Whatever lies in a file, it is refused in a sentence and nothing of it runs."""
    path = tmp_path / "run.json"
    path.write_bytes(content)

    assert told in refusal(read, path)


def test_files_that_cannot_be_read_are_refused(tmp_path, monkeypatch):
    """There may be no file, or a folder, or one too large to be looked at, or two answers in one."""
    assert "there is no such file" == refusal(read, tmp_path / "none.json")
    assert "there is no such file" == refusal(read, tmp_path)
    twice = saved(tmp_path, 1, OURS, OURS)
    assert f"it holds two records of {LABEL}" == refusal(read, twice)
    monkeypatch.setattr("loaderproof.suite.gate.stored._LARGEST_BYTES", 100)
    assert "it is larger than" in refusal(read, twice)


def test_a_renamed_benchmark_is_missed(tmp_path):
    """The refusal says which loaders the file has."""
    path = saved(tmp_path, 1, OURS, replace(OURS, loader="resident"))

    told = refusal(of_file, path, replace(OURS, loader="torch"))

    assert f"no record of torch; it has {LABEL}, resident" in told
    assert "--loader-against nothing --benchmark-save=base" in told


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("data", "64 samples of probe"),
        ("samples", 64),
        ("batches", 99),
        ("batch_size", 32),
        ("seed", 2),
        ("device", "cpu"),
    ],
)
def test_unequal_work_is_refused(tmp_path, name, there):
    """Every part of the work counts, on any machine."""
    path = saved(tmp_path, 1, replace(OURS, work={**WORK, name: there}))

    for any_machine in (False, True):
        told = refusal(of_file, path, OURS, any_machine=any_machine)
        assert f"of unequal work ({name}: {there} there, {WORK[name]} here)" in told
        assert "--loader-gate-machine" not in told


def test_all_that_differs_is_told(tmp_path):
    """Work and machine are told together, so that one look is enough."""
    theirs = replace(OURS, work={**WORK, "seed": 2, "samples": 64}, environment={**MACHINE, "cores": 2})

    told = refusal(of_file, saved(tmp_path, 1, theirs), OURS)

    assert "of unequal work (samples: 64 there, 6400 here; seed: 2 there, 1 here)" in told
    assert "and of another machine (cores: 2 there, 4 here)" in told


def test_other_measures_are_unequal_work(tmp_path):
    """A measure that one side lacks could not fail."""
    path = saved(tmp_path, 1, replace(OURS, to_ceiling={"training": LEVELS, "loading": LEVELS}))

    told = refusal(of_file, path, OURS, any_machine=True)

    assert "wait share: not measured there; loading: not measured here" in told


def test_another_machine_is_refused_unless_told(tmp_path):
    """The refusal says how the machines differ, and which option accepts that; then it is shown."""
    path = saved(tmp_path, 1, replace(OURS, environment={**MACHINE, "cpu": "AMD EPYC"}))

    told = refusal(of_file, path, OURS)
    accepted = of_file(path, OURS, any_machine=True)

    assert "of another machine (cpu: AMD EPYC there, Intel Xeon here)" in told
    assert "--loader-gate-machine=any" in told
    assert LEVELS == accepted.to_ceiling["training"]
    assert "0001_base.json (cpu: AMD EPYC there, Intel Xeon here)" == accepted.source


# The storage.


def test_the_newest_run_is_found(tmp_path):
    """The number decides, as pytest-benchmark counts, and not the name behind it."""
    for number, name in ((2, "zero"), (10, "base"), (9, "zero")):
        saved(tmp_path, number, OURS, name=name)

    assert "0010_base.json" == newest(tmp_path, OURS).source


def test_what_cannot_be_compared_with_is_passed_over(tmp_path):
    """The newest run of equal work on this machine counts, whatever was saved after it."""
    saved(tmp_path, 1, replace(OURS, answer="pass"))
    saved(tmp_path, 2, replace(OURS, answer="fail"))
    saved(tmp_path, 3, replace(OURS, environment={**MACHINE, "cores": 2}))
    saved(tmp_path, 4, replace(OURS, work={**WORK, "seed": 2}))
    saved(tmp_path, 5, OURS).write_text("{")
    saved(tmp_path, 6)

    assert "0001_base.json" == newest(tmp_path, OURS).source


def test_an_empty_storage_is_no_pass(tmp_path):
    """The refusal says how a baseline is recorded."""
    told = refusal(newest, tmp_path, OURS)

    assert f"no run in {tmp_path} can be compared with. no run was saved." in told
    assert "--loader-against nothing --benchmark-save=base" in told
    assert "--loader-gate-machine" not in told


def test_a_storage_without_baseline_says_what_it_has(tmp_path):
    """The newest runs are named with what is in the way of each; the rest is counted."""
    for number in range(1, 6):
        saved(tmp_path, number, replace(OURS, answer="fail"))
    saved(tmp_path, 6, replace(OURS, loader="resident"))

    told = refusal(newest, tmp_path, OURS)

    assert f"{get_machine_id()}/0006_base.json: no record of {LABEL}; it has resident" in told
    assert f"{get_machine_id()}/0005_base.json: its own gate failed" in told
    assert "and 3 older ones" in told


def test_other_kinds_of_machines_come_last(tmp_path):
    """pytest-benchmark has a folder for each kind; what lies in others is seen, and told or taken."""
    there = replace(OURS, environment={**MACHINE, "cpu": "Apple M4"})
    saved(tmp_path, 7, there, machine_id="Zarwin-CPython-3.11-64bit")

    assert "Zarwin-CPython-3.11-64bit/0007_base.json: of another machine" in refusal(newest, tmp_path, OURS)
    assert newest(tmp_path, OURS, any_machine=True).source.startswith("0007_base.json")
    saved(tmp_path, 1, OURS)
    assert "0001_base.json" == newest(tmp_path, OURS, any_machine=True).source


# The machine.


def test_the_fingerprint_is_plain_data():
    """Texts and finite numbers, which a record takes."""
    told = environment.fingerprint()

    assert told == parse({**OURS.as_data(), "environment": json.loads(json.dumps(told))}).environment
    assert told["cores"] >= 1
    assert told["cores by quota"] <= told["cores"]
    assert "" not in {told[name] for name in ("cpu", "kernel", "python", "torch", "numpy", "loaderproof")}
    assert [] == environment.differences(told, told)


def test_gpus_are_told_by_their_driver(tmp_path, monkeypatch):
    """The names come from nvidia-smi, one for each; without it there are none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "" == environment.fingerprint.__wrapped__()["gpus"]
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho NVIDIA H200\necho NVIDIA L4\n")
    program.chmod(0o755)
    assert "NVIDIA H200, NVIDIA L4" == environment.fingerprint.__wrapped__()["gpus"]
    program.write_text("#!/bin/sh\nexit 9\n")
    assert "" == environment.fingerprint.__wrapped__()["gpus"]


def test_another_machine_is_told_in_words():
    """What counts is told by name, with both values; what is not installed is none."""
    theirs = {**MACHINE, "cpu": "AMD EPYC 7B13", "torch": "", environment.MEMORY: 31.2}
    del theirs["cores"]

    assert [
        "cores: not told there, 4 here",
        "cpu: AMD EPYC 7B13 there, Intel Xeon here",
        "memory in GiB: 31.2 there, 15.6 here",
        "torch: none there, 2.14.1 here",
    ] == environment.differences(MACHINE, theirs)


def test_some_things_make_no_other_machine():
    """What is gated differs anyway, and a kernel does not always leave the same memory."""
    theirs = {**MACHINE, "loaderproof": "0.2.0", environment.MEMORY: 15.5}

    assert [] == environment.differences(MACHINE, theirs)
    assert ["loaderproof: 0.2.0 there, 0.1.0 here"] == environment.remarks(MACHINE, theirs)


# Real runs of pytest.


@pytest.fixture(scope="module")
def history(tmp_path_factory, suite_run_in):
    """A recorded run, a regressed one, and one that is compared with the newest; the last two save themselves."""
    run = suite_run_in(tmp_path_factory.mktemp("history"))
    (run.folder / "test_made_up.py").write_text(BENCHMARK)
    (run.folder / "conftest.py").write_text(KEEPER)
    words = ("-s", "test_made_up.py", "--benchmark-storage=kept")
    done = []
    for answer, more in (
        ("recorded", ["--benchmark-save=base"]),
        ("fail", ["--benchmark-autosave", "--benchmark-json=failed.json"]),
        ("recorded", ["--benchmark-compare"]),
        ("recorded", ["--benchmark-disable", "--benchmark-json=disabled.json"]),
    ):
        run.environment["ANSWER"] = answer
        done.append(run.pytest(*words, *more))
    return run, done


def test_a_regressed_run_never_becomes_the_baseline(history):
    """It is not saved, and says so; the newest baseline is the one before, where --benchmark-storage says."""
    run, (recorded, regressed, *_) = history

    assert [0, 1] == [recorded.returncode, regressed.returncode], recorded.stdout + regressed.stdout
    assert ["0001_base.json"] == [path.name for path in (run.folder / "kept").rglob("*.json")]
    assert "it must not become the baseline" in regressed.stdout
    assert f"FOLDER {run.folder / 'kept'}" in regressed.stdout
    assert "0001_base.json" == newest(run.folder / "kept", replace(OURS, to_ceiling=_all())).source
    assert not (run.folder / ".benchmarks").exists()


def test_a_regressed_run_still_writes_its_result_file(history):
    """It is there for people, and refused as a baseline."""
    run, _ = history

    assert "its own gate failed" == refusal(read, run.folder / "failed.json")


def test_nothing_is_told_where_nothing_would_be_saved(suite_run):
    """A failed run that was not to be saved needs no word about it."""
    (suite_run.folder / "test_made_up.py").write_text(BENCHMARK)
    (suite_run.folder / "conftest.py").write_text(KEEPER)
    suite_run.environment["ANSWER"] = "fail"

    assert "TOLD \n" in suite_run.pytest("-s", "test_made_up.py").stdout


def test_pytest_benchmark_compares_files_with_records(history):
    """Its own option and its own program read what is stored with a record."""
    run, (*_, compared, _) = history
    program = run.popen(
        "pytest-benchmark", "--storage=kept", "compare", "--csv=table.csv", "--columns=median"
    )
    listed = run.end_of(program)

    assert 0 == compared.returncode
    assert re.search(r"test_gate \(0001_base\)", compared.stdout)
    assert 0 == listed.returncode, listed.stdout
    assert 2 == len((run.folder / "table.csv").read_text().splitlines())


def test_disabled_benchmarks_leave_no_baseline(history):
    """pytest-benchmark writes no file of them, or one without a record; neither is compared with."""
    run, (*_, disabled) = history

    assert 0 == disabled.returncode
    assert refusal(read, run.folder / "disabled.json") in {
        "there is no such file",
        "it holds no record of a gate",
    }


@pytest.mark.skipif(not shutil.which("jq"), reason="docs/history.md converts with jq, which is not installed")
def test_the_guide_makes_a_history(tmp_path, suite_run):
    """The commands that docs/history.md shows make of stored runs what its otava.yaml names."""
    blocks = dict(
        re.findall(r"```(shell|yaml)\n# (?:history|otava)\.\w+\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    )
    for number in (1, 2):
        path = saved(
            tmp_path / "history", number, replace(OURS, to_ceiling=_all()), replace(OURS, loader="other")
        )
        info = {"datetime": f"2026-12-0{number}T00:00:00+00:00", "commit_info": {"id": "1a2b3c"}}
        path.write_text(json.dumps({**json.loads(path.read_text()), **info}))
    saved(tmp_path / "history", 3)

    done = suite_run.end_of(suite_run.popen("sh", "-eu", "-c", blocks["shell"]))
    assert 0 == done.returncode, done.stdout
    header, *rows = (tmp_path / f"{LABEL}.csv").read_text().splitlines()

    assert 2 == len(rows)
    assert '"2026-12-01T00:00:00+00:00","1a2b3c",1.105' in rows[0]
    metrics = re.findall(r"^      (\w[\w ]+):", blocks["yaml"], re.MULTILINE)
    assert ["time", "commit", *metrics] == header.split(",")


def _all():
    return dict.fromkeys(("training", "loading", "first batch", "wait share"), LEVELS)


def test_before_a_measurement_only_loader_and_machine_count(tmp_path):
    """What has not been measured yet refuses a file for its loader or its machine, and not for its work."""
    path = saved(tmp_path, 1, OURS)
    nothing = replace(OURS, work={}, to_ceiling={})

    assert OURS.to_ceiling == of_file(path, nothing).to_ceiling
    assert "no record of torch" in refusal(of_file, path, replace(nothing, loader="torch"))
    assert "cores" in refusal(of_file, path, replace(nothing, environment={**OURS.environment, "cores": 64}))
