from __future__ import annotations

import pages
import pytest
from pages import PARTS, Property

BROKEN = pages.broken()
SEARCH = "every_request_keeps_the_rules"
every_property = pytest.mark.parametrize("one", pages.properties(), ids=lambda one: one.name)


def written(one: Property) -> str:
    """Return the page of a property as it is."""
    return (pages.FOLDER / f"{one.name}.md").read_text(encoding="utf-8")


@every_property
def test_docstring_says_why_and_what_to_do(one):
    """Each property says what is asserted, why, what usually breaks it and what to do then, in this order."""
    assert [part for part in PARTS if part in one.parts or part not in pages.OPTIONAL] == list(one.parts)


@every_property
def test_page_is_up_to_date(one):
    """Each page is what `python tests/pages.py` writes; the failure on it may be of an earlier day."""
    text = written(one)

    assert pages.page(one, BROKEN[one.name], pages.report_on(text)) == text


@every_property
def test_page_shows_a_failure_of_this_property(one):
    """The failure on a page begins with what is asserted now, and leads to the page."""
    report = pages.report_on(written(one))
    if not report and {file for file, _ in BROKEN[one.name]} == {pages.OF_CUDA}:
        pytest.skip(
            "its failure shows on a CUDA device alone, and none was at hand when the page was written"
        )

    # The search shows the rule that it found broken.
    names = {one.name} if one.name != SEARCH else {other.name for other in pages.properties()}
    rules = {other.rule for other in pages.properties() if other.name in names}
    outcome, _, rule = report.splitlines()[0].partition(": ")

    assert outcome in {"Not kept", "No answer when this was tried"}
    assert rule in rules
    assert any(f"docs/properties/{name}.md" in report for name in names)


def test_list_of_pages_is_up_to_date():
    """The list leads to every page, and no page is left over from a property that is gone."""
    assert pages.index(pages.properties()) == (pages.FOLDER / "README.md").read_text(encoding="utf-8")
    assert {f"{one.name}.md" for one in pages.properties()} | {"README.md"} == {
        page.name for page in pages.FOLDER.glob("*.md")
    }
