"""The benchmarks, and pytest-benchmark's own options with them."""

import json
import re
from dataclasses import fields

import pytest

from loaderproof.suite import stopwatch

DATA = (
    *("--loader-data", "probe:64:28x26x1:10", "--loader-samples", "64"),
    *("--loader-device", "emulated:2ms"),
)
WAITS = ("wait_p50_s", "wait_p95_s", "wait_p99_s")


def saved(run) -> list[dict]:
    """Return the benchmarks that a run saved by itself."""
    (path,) = (run.folder / ".benchmarks").rglob("*.json")
    return json.loads(path.read_text())["benchmarks"]


def table(text: str) -> dict[str, list[str]]:
    """Return the cells of the table of loaders, by loader."""
    lines = text.partition(" loaders ===")[2].splitlines()
    rows = [re.split(r" {2,}", line.strip()) for line in lines if line.startswith("judged:")]
    return {label: cells for label, *cells in rows}


def test_saving_and_comparing(suite_run):
    """What one run saved, later ones compare with: a loader that became slower fails, within bounds it passes."""
    timed = ("-k", "test_loading", *DATA, *suite_run.loaders("right"))
    compared = (*timed, "--benchmark-compare")

    first = suite_run.judge(*timed, "--benchmark-autosave")
    (benchmark,) = saved(suite_run)
    within = suite_run.judge(*compared, "--benchmark-compare-fail=median:100000%")
    suite_run.environment["PAUSE_S"] = "0.2"
    slower = suite_run.judge(*compared, "--benchmark-compare-fail=median:10%")

    assert [0, 0, 1] == [first.returncode, within.returncode, slower.returncode]
    assert "Performance has regressed" in slower.stdout
    assert "test_loading[judged:right] (0001_" in within.stdout
    assert [field.name for field in fields(stopwatch.Figures)] == list(benchmark["extra_info"]["loader"])
    assert_figures_agree(benchmark)


def assert_figures_agree(benchmark: dict) -> None:
    """Check what was saved for one loader of 64 samples against itself and against pytest-benchmark's own."""
    figures, stats = benchmark["extra_info"]["loader"], benchmark["stats"]

    assert ("judged:right", "64 samples of probe:64:28x26x1:10", "emulated 2 ms step") == tuple(
        figures[name] for name in ("loader", "data", "device")
    )
    assert ([64] * (1 + stats["rounds"]), 64, 1) == tuple(
        figures[name] for name in ("delivered", "samples", "batches")
    )
    assert figures["equal_work"]
    assert figures["samples_per_s"]["value"] == pytest.approx(64 / figures["seconds"]["value"])
    # pytest's side of a round holds the loader's side, and the way there and back.
    assert figures["seconds"]["value"] <= stats["mean"]
    assert 0 < figures["first_batch_s"]
    assert 0 < figures["wait_share"]["value"] <= 1
    # Nothing is steady in one batch, and nothing computes where a loader runs alone.
    assert {"steady_samples_per_s", "utilisation", "stall_share", *WAITS} == {
        name for name, figure in figures.items() if figure is None
    }
    for figure in (one for one in figures.values() if isinstance(one, dict)):
        assert figure["low"] <= figure["value"] <= figure["high"]


def test_figures_of_training(suite_run):
    """Of an epoch with several steps every figure is saved; times and shares fit together."""
    suite_run.environment["PAUSE_S"] = "0.005"
    data = "probe:256:28x26x1:10"
    asked = ("--loader-data", data, "--loader-device", "emulated:2ms", "-k", "test_training")

    suite_run.judge(*asked, *suite_run.loaders("right"), "--benchmark-autosave")

    (benchmark,) = saved(suite_run)
    figures = benchmark["extra_info"]["loader"]
    value = {name: one["value"] if isinstance(one, dict) else one for name, one in figures.items()}
    assert None not in value.values()
    assert 0.005 <= value["wait_p50_s"] <= value["wait_p95_s"] <= value["wait_p99_s"]
    assert 0.005 <= value["next_first_batch_s"] < value["seconds"] - value["tail_s"]
    assert 0 <= value["ending_s"] < value["tail_s"]
    # A step of 2 ms gets its batch every 5 ms at best.
    assert value["utilisation"] <= 2 / 5
    assert value["steady_samples_per_s"] <= 64 / 0.005
    assert value["stall_share"] < 1


def test_only_benchmarks(suite_run):
    """With `--benchmark-only` a loader is timed, and has no rank as nobody knows whether it is right."""
    done = suite_run.judge(
        "-k", "test_shapes or test_training", *DATA, *suite_run.loaders("right"), "--benchmark-only"
    )

    kept, samples_per_s, *_, rank = table(done.stdout)["judged:right"]
    assert 0 == done.returncode
    assert ("-", "-") == (kept, rank)
    assert "judged:right is not ranked: conformance was not tested" in done.stdout
    assert float(samples_per_s.replace(",", "")) > 0


def test_no_benchmarks(suite_run):
    """With `--benchmark-skip` a loader is judged, and not timed."""
    done = suite_run.judge(
        "-k", "test_shapes or test_training", *DATA, *suite_run.loaders("right"), "--benchmark-skip"
    )

    assert 0 == done.returncode
    assert ["1/1", *["-"] * 9] == table(done.stdout)["judged:right"]


def test_disabled_benchmarks(suite_run):
    """With `--benchmark-disable` each benchmark is run once, and its figures say so with their intervals."""
    done = suite_run.judge(
        "-k", "test_shapes or test_training", *DATA, *suite_run.loaders("right"), "--benchmark-disable"
    )

    kept, samples_per_s, *_, rank = table(done.stdout)["judged:right"]
    assert 0 == done.returncode
    assert ("1/1", "1") == (kept, rank)
    assert float(samples_per_s.replace(",", "")) > 0


def test_article_on_small_data(suite_run):
    """A row of the article's experiment is run and shown beside its own figures."""
    done = suite_run.judge(*DATA, "--loader", "torch_dataloader", "-k", "plain-1workers")

    text = done.stdout.partition(" the article's experiment ===")[2]
    (row,) = [re.split(r" {2,}", line) for line in text.splitlines() if line.startswith("plain-1workers")]
    assert 0 == done.returncode
    assert ["70.93", "0.615"] == row[1:3]
    assert "equal" == row[-1]
    assert 1.0 == float(row[4].split()[0])
    assert "torch" not in suite_run.modules()
