from __future__ import annotations

from types import SimpleNamespace

import conftest
import faults
import pytest
from faults import FAULTS, KINDS, Caught
from test_broken_loaders import FILES, FOLDER

CAUGHT = {row: [Caught("file", "Loader", ("test_range",))] for row in FAULTS if not FAULTS[row].out_of_reach}


def test_every_row_is_caught_or_explained():
    """Each reported fault is caught by a test that fails a loader made with it, or the page says why not."""
    assert [] == faults.mistakes(faults.named())


def test_page_is_up_to_date():
    """docs/faults.md is what `python tests/faults.py` writes."""
    assert faults.page(faults.named()) == faults.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("row", ["A5", "J4"])
def test_row_without_a_loader_is_a_mistake(row):
    """A row that no loader names is a mistake."""
    (mistake,) = faults.mistakes({name: found for name, found in CAUGHT.items() if name != row})

    assert mistake.startswith(f"{row}: no loader")


def test_row_whose_loader_passes_everything_is_a_mistake():
    """A row that only right loaders name is a mistake."""
    (mistake,) = faults.mistakes({**CAUGHT, "B1": [Caught("file", "Loader", ())]})

    assert mistake.startswith("B1: no loader")


def test_unknown_row_is_a_mistake():
    """A loader that names a row which there is not is a mistake."""
    assert ["Z9: a loader names this row, and there is none"] == faults.mistakes(
        {**CAUGHT, "Z9": CAUGHT["B1"]}
    )


def test_explained_row_that_is_caught_is_a_mistake():
    """A row that is out of reach and caught is a mistake."""
    assert ["E12: said to be out of reach, and caught"] == faults.mistakes({**CAUGHT, "E12": CAUGHT["B1"]})


def test_rows_are_in_order():
    """Rows stand by kind and number, none twice, each with a public report."""
    places = [(list(KINDS).index(row[0]), int(row[1:])) for row in FAULTS]

    assert sorted(set(places)) == places
    assert len(faults.REPORTED.strip().splitlines()) == len(FAULTS)
    assert all("/" in report and "#" in report for fault in FAULTS.values() for report in fault.reports)


def test_matrix_fits_a_log():
    """No line of the matrix is wider than a log is, whatever fails."""
    tests = tuple(f"test_number_{number}_of_many_that_it_fails" for number in range(9))
    found = [Caught("file", f"LoaderNumber{number}OfMany", tests) for number in range(9)]

    lines = faults.matrix(dict.fromkeys(CAUGHT, found))

    assert len(FAULTS) + 1 == len(lines)
    assert [] == [line for line in lines if len(line) > faults.WIDTH]


def test_matrix_says_what_was_caught():
    """The matrix tells caught rows from those that were not, and counts them."""
    rows = {"B1": [Caught("order", "Same", ("test_order",))], "D1": [Caught("epochs", "Samples", ())]}

    first, second, *explained, last = faults.matrix(rows)

    assert ["B1", "order", "Same"] == first.split()
    assert ["D1", "NOT", "CAUGHT", "Samples"] == second.split()
    assert [fault.row for fault in FAULTS.values() if fault.out_of_reach] == [
        line.split()[0] for line in explained
    ]
    assert last.startswith(f"1 of {len(FAULTS)} rows caught")


class Terminal:
    """What a plugin writes at the end of a run.

    Attributes:
        stats: the reports of the run, by outcome.
        lines: what was written.
    """

    def __init__(self, **stats):
        self.stats, self.lines = stats, []

    def section(self, title):
        self.lines.append(title)

    def write_line(self, line):
        self.lines.append(line)


def test_run_ends_with_the_matrix_of_what_it_judged():
    """The end of a run shows which rows were caught in it, by the verdicts that came, right or wrong."""
    right = report(("order", "SameOrderEachEpoch"), ["test_every_epoch_has_its_own_order"])
    wrong = report(("epochs", "LengthInSamples"), [])
    terminal = Terminal(passed=[right], failed=[wrong], deselected=[object()])

    conftest.pytest_terminal_summary(terminal)

    _, first, second, *_, last = terminal.lines
    assert ["B1", "every_epoch_has_its_own_order", "SameOrderEachEpoch"] == first.split()
    assert ["D1", "NOT", "CAUGHT", "LengthInSamples"] == second.split()
    assert last.startswith(f"1 of {len(FAULTS)} rows caught")


def test_run_that_judged_nothing_ends_without_a_matrix():
    """A run without verdicts on loaders shows no matrix."""
    terminal = Terminal(passed=[SimpleNamespace(when="call", user_properties=[])])

    conftest.pytest_terminal_summary(terminal)

    assert [] == terminal.lines


def report(name, failed):
    """Return the report of a test that judged one loader."""
    return SimpleNamespace(when="call", user_properties=[("judged", (name, failed))])


def test_every_file_of_loaders_is_judged():
    """A file of broken loaders that is in no list would be judged by nobody."""
    files = {path.stem for path in FOLDER.glob("*.py") if "@fails(" in path.read_text(encoding="utf-8")}

    assert set(FILES) == files
