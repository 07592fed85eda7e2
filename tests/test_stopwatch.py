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
    assert figures["samples_per_s"] == pytest.approx(64 / figures["seconds"])
    # pytest's side of a round holds the loader's side, and the way there and back.
    assert figures["seconds"] <= stats["median"]
    assert 0 < figures["first_batch_s"]
    assert 0 < figures["wait_share"] <= 1
    assert figures["to_ceiling"]["low"] <= figures["to_ceiling"]["value"] <= figures["to_ceiling"]["high"]


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
    assert ["1/1", *["-"] * 8] == table(done.stdout)["judged:right"]


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
