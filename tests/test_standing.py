"""Ranks, reasons for having none, and what is compared with what."""

import math

import pytest

from loaderproof.suite import article_rows, standing
from loaderproof.suite.standing import Standing, standings

RANDOM_ORDER = "test_another_seed_gives_another_order"


def report(label: str, test: str = "test_shapes", what: str = "passed", **more) -> pytest.TestReport:
    """Return the report of a test as pytest makes it, with the suite's properties."""
    phase = "speed" if test in {"test_training", "test_loading", "test_article"} else "conformance"
    made = pytest.TestReport(
        nodeid=f"test_it.py::{test}[{label}]",
        location=("", None, ""),
        keywords={},
        outcome="skipped" if what == "xfailed" else what,
        longrepr=more.pop("text", None),
        when=more.pop("when", "call"),
        user_properties=[("loader", label), ("phase", phase), *more.items()],
    )
    if what == "xfailed":
        made.wasxfail = "reason: known"
    return made


def speed(value: float, width: float = 0.01) -> dict[str, float]:
    """Return a share of the ceiling with its interval."""
    return {"value": value, "low": value * (1 - width), "high": value * (1 + width)}


def timed(
    label: str, to_ceiling: float, width: float = 0.01, seconds: float = 1.0, **figures
) -> pytest.TestReport:
    """Return the report of a benchmark; a second an epoch, unless told otherwise."""
    noted = {
        "samples": 100,
        "batches": 2,
        "delivered": [100, 100],
        "equal_work": True,
        "seconds": {"value": seconds, "low": 0.9 * seconds, "high": 1.1 * seconds},
        "to_ceiling": speed(to_ceiling, width),
        "first_batch_s": 0.1,
        "prepare_s": 0.0,
        "open_s": 0.0,
    }
    return report(label, "test_training", loader_train=noted | figures)


def rows(*reports: pytest.TestReport) -> dict[str, Standing]:
    """Return the rows by label."""
    return {row.label: row for row in standings(reports)}


def test_outcomes_are_counted():
    """Passed, failed, deviating and unobserved tests are owed; what is not promised is not."""
    row = rows(
        report("a", "test_shapes"),
        report("a", "test_dtypes", "failed"),
        report("a", "test_values", "xfailed"),
        report("a", "test_labels", "skipped", text=("file", 1, "Skipped: not observed, for the reason ...")),
        report("a", "test_drop_last", "skipped", text=("file", 1, "Skipped: a does not promise drop_last")),
        report("a", "test_shapes", when="setup"),
        report("a", "test_shapes", when="teardown"),
    )["a"]

    assert (["test_shapes[a]"], ["test_dtypes[a]"]) == (row.passed, row.failed)
    assert (["test_values[a]"], ["test_labels[a]"]) == (row.deviating, row.unobserved)
    assert 4 == row.owed


def test_tests_of_others_do_not_count():
    """A report without the suite's properties is no row."""
    other = report("a")
    other.user_properties = []

    assert {} == rows(other)


def test_rank_by_share_of_the_ceiling():
    """Who comes closest to the ceiling is first; seconds alone, taken at different times, decide nothing."""
    found = rows(report("a"), timed("a", 0.5, seconds=1.0), report("b"), timed("b", 0.9, seconds=7.0))

    assert {"a": 2, "b": 1} == {label: row.rank for label, row in found.items()}


def test_ties_share_a_rank():
    """Who cannot be told from the first of a group shares its rank, and the next one's counts them all."""
    speeds = {"a": 0.90, "b": 0.895, "c": 0.80, "d": 0.50}

    found = rows(*map(report, speeds), *(timed(label, value) for label, value in speeds.items()))

    assert {"a": 1, "b": 1, "c": 3, "d": 4} == {label: row.rank for label, row in found.items()}


def test_a_chain_of_ties_does_not_reach_down():
    """Who can be told from the first of a group is not in it, even if it cannot from the second."""
    found = rows(*map(report, "abc"), timed("a", 0.9, 0.02), timed("b", 0.87, 0.02), timed("c", 0.84, 0.02))

    assert [1, 1, 3] == [found[label].rank for label in "abc"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([report("a", "test_labels", "failed"), timed("a", 0.9)], "does not keep: labels"),
        (
            [report("a", "test_labels", "xfailed"), report("a", "test_shapes", "failed"), timed("a", 0.9)],
            "does not keep: shapes and 1 more",
        ),
        (
            [report("a", "test_labels", "skipped", text="not observed, ..."), timed("a", 0.9)],
            "not observed: labels",
        ),
        ([timed("a", 0.9, equal_work=False, delivered=[96, 104])], "unequal work: 96 to 104 samples for 100"),
        (
            [timed("a", 0.9, equal_work=False)],
            "unequal work: 100 samples, but not always in 2 batches",
        ),
        ([], "not timed"),
    ],
)
def test_no_rank_without_equal_work_and_kept_rules(more, reason):
    """Who breaks a rule, or does other work than was asked for, is timed but has no rank, and hears why."""
    found = rows(report("a"), *more, report("b"), timed("b", 0.5))

    assert (None, reason) == (found["a"].rank, found["a"].reason)
    assert (1, "") == (found["b"].rank, found["b"].reason)


def test_no_rank_without_conformance():
    """Who was only timed has no rank."""
    assert "conformance was not tested" == rows(timed("a", 0.9))["a"].reason


def test_plain_is_the_best_plain_loader():
    """Speeds are compared with the best PyTorch loader's, through the ceilings that both ran beside."""
    found = rows(
        timed("torch_dataloader-0workers", 0.4),
        timed("torch_dataloader-2workers", 0.5),
        timed("torch_dataloader_of_mine", 0.8),
        timed("other", 0.75, seconds=9.0),
    )

    assert 1.0 == found["torch_dataloader-2workers"].to_plain.value
    assert [0.8, 1.6, 1.5] == pytest.approx(
        [
            found[label].to_plain.value
            for label in ("torch_dataloader-0workers", "torch_dataloader_of_mine", "other")
        ]
    )
    assert found["other"].to_plain.low < 1.5 < found["other"].to_plain.high


def test_nothing_to_compare_with():
    """Without a plain loader in the run there is no ratio to one."""
    assert (None, None) == (rows(timed("a", 0.9))["a"].to_plain, rows(timed("a", 0.9))["a"].break_even)


@pytest.mark.parametrize(
    ("figures", "epochs"),
    [
        # As fast again as plain, so plain's epoch takes 2 s here, and each epoch saves 1 s.
        ({"to_ceiling": 1.0, "prepare_s": 2.0, "open_s": 1.0, "first_batch_s": 0.1}, 3.0),
        ({"to_ceiling": 1.0, "prepare_s": 0.0, "open_s": 0.0, "first_batch_s": 2.6}, 2.5),
        # Plain's epoch takes 5 s beside the slower ceiling of this loader, and each epoch saves 1 s.
        ({"to_ceiling": 0.625, "prepare_s": 3.0, "open_s": 0.0, "first_batch_s": 0.1, "seconds": 4.0}, 3.0),
        ({"to_ceiling": 1.0, "prepare_s": 0.0, "open_s": 0.0, "first_batch_s": 0.1}, 0.0),
        ({"to_ceiling": 0.1, "prepare_s": 0.0, "open_s": 0.0, "first_batch_s": 0.0}, 0.0),
        ({"to_ceiling": 0.5, "prepare_s": 2.0, "open_s": 0.0, "first_batch_s": 0.1}, math.inf),
        ({"to_ceiling": 0.4, "prepare_s": 2.0, "open_s": 0.0, "first_batch_s": 0.1}, math.inf),
    ],
)
def test_break_even(figures, epochs):
    """The dearer setup is divided by what each epoch saves: at once if it is not dearer, else maybe never."""
    share = figures.pop("to_ceiling")

    found = rows(timed("torch_dataloader-0workers", 0.5), timed("a", share, **figures))

    assert epochs == pytest.approx(found["a"].break_even.value)
    assert found["torch_dataloader-0workers"].break_even is None


def test_break_even_has_the_interval_of_the_speed():
    """A gain that is uncertain pays back sooner or later than its mean does; one that may be none, perhaps never."""
    setup = {"prepare_s": 2.0, "open_s": 1.0, "first_batch_s": 0.1}
    plain = timed("torch_dataloader-0workers", 0.5, 0.0)

    sure = rows(plain, timed("a", 1.0, 0.1, **setup))["a"]
    unsure = rows(plain, timed("a", 0.52, 0.1, **setup))["a"]

    expected = [3 / (speed - 1) for speed in (sure.to_plain.value, sure.to_plain.high, sure.to_plain.low)]
    assert expected == pytest.approx([*vars(sure.break_even).values()])
    assert sure.break_even.low < sure.break_even.value < sure.break_even.high < math.inf
    assert math.inf == unsure.break_even.high


def article(row: str, to_ceiling: float) -> pytest.TestReport:
    """Return the report of one row of the article's experiment."""
    published = next(one.published_s for one in article_rows.ROWS if one.label == row)
    noted = {"row": row, "published_s": published, "to_ceiling": speed(to_ceiling)}
    return report(row, "test_article", loader_article=noted)


def test_article_rows_stand_beside_its_own_ratios():
    """Each row has its ratio to the best plain row, in the article and here: its claim was 1.137."""
    reports = [
        article("plain-1workers", 0.3),
        article("plain-4workers", 0.4),
        article("mixture-equal-work", 0.5),
    ]

    found = {row.figures["row"]: row for row in standing.article(reports)}

    assert ["0.615", "1.000", "1.137"] == [f"{row.published_ratio:.3f}" for row in found.values()]
    assert [0.75, 1.0, 1.25] == pytest.approx([row.ratio.value for row in found.values()])


def test_article_without_a_plain_row():
    """If no plain row was measured, only the published ratio is given."""
    (row,) = standing.article([article("mixture-equal-work", 0.5)])

    assert row.ratio is None
    assert "1.137" == f"{row.published_ratio:.3f}"
