"""Loaders over a person's own data, judged with the truth and without it."""

import re
from pathlib import Path

import pytest

from loaderproof import suite
from loaderproof.loaders import Description
from loaderproof.suite import own_data, rules
from loaderproof.suite.own_data import Facts, batch_size, why_not

FILE = Path(__file__).parent / "loaders_for_tests" / "own_data.py"
GUIDE = Path(__file__).parents[1] / "docs" / "own-data.md"
SOME = (
    "shapes or dtypes or range or labels_belong or values or sample_once or second_epoch or no_content"
    " or drop_last or own_order or source_order or same_seed or as_handed_out or writable or errors_surface"
    " or len_counts or batch_sizes or sample_of_the_data"
)
TRUTH = ("--loader-data", f"object:{FILE}:pictures")


def loaders(*names: str) -> list[str]:
    """Return the options for some loaders over own data."""
    return [word for name in names for word in ("--loader", f"{FILE}:{name}")]


def failed(run) -> dict[str, set[str]]:
    """Return the tests that failed in the last run, by loader; none for a loader that only passed."""
    found: dict[str, set[str]] = {}
    for one in run.outcomes():
        test, label = re.match(r"(\w+)\[own_data:(\w+)", one.name).groups()
        if one.what != "skipped":
            found.setdefault(label, set()).update({test} if one.what == "failed" else ())
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory, suite_run_in):
    """A run without a truth."""
    run = suite_run_in(tmp_path_factory.mktemp("alone"))
    names = ("right", "heedless", "normalised", "lossy_with_ids", "label_off_by_one", "always_augmenting")
    run.done = run.judge(
        *loaders(*names, "losing_with_workers", "forgetful"), "--loader-workers", "2", "-k", SOME
    )
    return run


@pytest.fixture(scope="module")
def beside_the_truth(tmp_path_factory, suite_run_in):
    """A run with the truth."""
    run = suite_run_in(tmp_path_factory.mktemp("truth"))
    names = ("right", "heedless", "lossy_with_ids", "resized_with_ids", "label_off_by_one", "half_as_bright")
    run.done = run.judge(*loaders(*names), *TRUTH, "--loader-workers", "0", "-k", SOME)
    return run


def test_a_loader_is_compared_with_its_own_first_pass(alone):
    """Without a truth right loaders pass, duplicates and values off the range or not, and inconsistent ones fail."""
    first, later, data = (
        "test_every_sample_once",
        "test_second_epoch_is_complete",
        "test_every_sample_of_the_data_once",
    )

    assert {
        "right": set(),
        "heedless": set(),
        "normalised": set(),
        "lossy_with_ids": set(),
        "label_off_by_one": set(),  # always the same: it takes the truth to see it
        "always_augmenting": {later},
        "losing_with_workers": {first, data, "test_workers_change_no_content"},
        "forgetful": {later},
    } == failed(alone)


def test_a_loader_is_compared_with_the_truth(beside_the_truth):
    """With the truth wrong labels and values are found, too; ids tell samples whose values are far off."""
    labels, data = "test_labels_belong_to_their_samples", "test_every_sample_of_the_data_once"

    assert {
        "right": set(),
        "heedless": set(),
        "lossy_with_ids": set(),
        "resized_with_ids": set(),
        "label_off_by_one": {labels, data},
        "half_as_bright": {"test_values"},
    } == failed(beside_the_truth)


def test_what_could_not_be_checked_is_listed(alone, beside_the_truth):
    """The report ends with what was not checked, by the reason."""
    parts = [run.done.stdout.partition("could not be checked ===")[2] for run in (alone, beside_the_truth)]
    lists = [text.partition(" loaders ===")[0].partition("own_data:right")[2] for text in parts]
    without, beside = (text.partition("own_data:heedless")[0] for text in lists)

    assert f"{own_data.NEEDS_TRUTH}:\n    values" in without
    assert own_data.NEEDS_TRUTH not in beside
    for text in (without, beside):
        (skipped,) = re.findall(rf"{own_data.NEEDS_SOURCE}:\n    (.*)", text)
        assert "errors surface" in skipped


def test_data_is_read_in_the_process_of_the_loader(alone, beside_the_truth):
    """The module of a person is not imported by pytest's own process, and neither is torch."""
    for run in (alone, beside_the_truth):
        assert set() == {"torch", "tensorflow", "own_data"} & run.modules()


def test_own_data_is_a_source_like_any_other(suite_run):
    """A loader that takes a source is judged on own data as on any other."""
    done = suite_run.judge(
        "--loader", "torch_dataloader", *TRUTH, "--loader-workers", "0", "-k", "of_the_data_once"
    )

    assert 0 == done.returncode
    assert ["passed"] * 2 == [one.what for one in suite_run.outcomes() if "-0workers" in one.name]


def test_ids_tell_the_whole_data_of_a_lossy_loader(suite_run):
    """A loader whose values are not exact is checked on whole data by the ids in its batches."""
    data = ("--loader-data", "probe:300", "--loader-workers", "0")
    done = suite_run.judge(*loaders("lossy_over_source"), *data, "-k", "of_the_data_once")

    assert 0 == done.returncode
    assert ["passed"] * 2 == [one.what for one in suite_run.outcomes()]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing", "it is int; give an object with len()"),
        ("pictrues", "did you mean 'pictures'"),
        ("right", "calling it with 'train' raised"),
    ],
)
def test_what_is_no_data_is_told(suite_run, name, told):
    """Whoever names something that holds no samples learns what it takes, before anything is judged."""
    done = suite_run.judge(*loaders("right"), "--loader-data", f"object:{FILE}:{name}", "-k", "shapes")

    assert 4 == done.returncode
    assert told in done.stdout


def test_the_guide_runs(suite_run):
    """What docs/own-data.md shows is right as it stands there."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name, text in blocks:
        (suite_run.folder / name).write_text(text)
    commands = re.findall(r"^\$ pytest (.*)$", GUIDE.read_text(), re.MULTILINE)

    assert ["my_training.py"] == [name for name, _ in blocks]
    assert 2 == len(commands)
    for command in commands:
        done = suite_run.pytest(*command.split(), "-k", "shapes or values or sample_once or second_epoch")
        assert 0 == done.returncode, done.stdout


def test_every_test_of_own_data_is_there():
    """Names of tests that apply to own data are names of tests."""
    assert set() == own_data.FITTING - rules.names()
    assert set() == own_data.FITTING_WITH_TRUTH - rules.names()
    rooms = [Path(suite.__file__).with_name(name) for name in ("benchmarks", "diagnosis")]
    there = {path.stem for room in rooms for path in room.glob("test_*.py")} - {"test_article"}
    assert there == own_data.MEASURING
    assert own_data.REPORTS_UNSTABLE in own_data.FITTING


def test_other_loaders_are_judged_by_every_test():
    """What does not fit own data is no reason to spare a loader that takes a source."""
    assert why_not(None, "test_errors_surface") is None


@pytest.mark.parametrize(
    ("fresh", "again", "stable"), [(0, 0, True), (100, 100, True), (100, 11, True), (100, 10, False)]
)
def test_samples_that_never_come_again_are_told_from_lost_ones(fresh, again, stable):
    """Only where hardly any sample comes again as it was, it is random augmentation."""
    assert stable == Facts(100, ("train",), fresh, again).stable


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 90, 128, 256, 1000, 60_000])
def test_batches_are_several_and_leave_a_rest(count):
    """So many samples are asked for that there are several batches, and a rest where that can be."""
    size = batch_size(Description(name="any", own_data=True), count)

    assert 1 <= size <= 64
    assert count < 4 or count // size >= 4
    assert size == 1 or count % size > 1
