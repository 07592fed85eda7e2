"""The tables at the end of a run."""

import math

from loaderproof.suite import table
from loaderproof.suite.standing import ArticleRow, Standing
from loaderproof.suite.statistics import Ratio

FIGURES = {
    "device": "emulated 2 ms step",
    "data": "100 samples of glyphs",
    "blocks": 6,
    "samples_per_s": 12345.6,
    "to_ceiling": {"value": 0.9, "low": 0.89, "high": 0.91},
    "first_batch_s": 0.0123,
    "prepare_s": 2.0,
    "open_s": 0.5,
}
ARTICLE = {
    "device": "cpu",
    "data": "128 samples of glyphs",
    "blocks": 3,
    "row": "mixture-as-published",
    "published_s": 38.35,
    "seconds": 3.0,
    "build_s": 0.25,
    "to_ceiling": {"value": 0.5, "low": 0.49, "high": 0.52},
    "trained": [128] * 10,
    "tested": [64] * 9 + [40],
    "owed": (128, 64),
    "shortened": True,
    "epochs": 10,
    "equal_work": False,
}


def shown(*rows: Standing, width: int = 200, colour: bool = False) -> list[str]:
    """Return the lines of the table of loaders."""
    return table.loaders(rows, width, colour=colour).splitlines()


def cells(line: str) -> list[str]:
    """Return the cells of a line; wide gaps lie between them."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_every_figure_has_its_cell():
    """A row has rules kept, samples a second, ratios, times with units, epochs to pay back, and the rank."""
    row = Standing(
        "mine",
        ["test_a"],
        deviating=["test_b"],
        training=FIGURES,
        loading={"samples_per_s": 54_321.0},
        to_plain=Ratio(2, 1, 4),
        break_even=2.1,
        rank=1,
    )

    _, line, caption = shown(row)

    assert [
        "mine",
        "1/2 (1 declared)",
        "12,346",
        "54,321",
        "2.000",
        "90.0 ±1.0 %",
        "12.3 ms",
        "2.5 s",
        "3 epochs",
        "1",
    ] == cells(line)
    assert "training on emulated 2 ms step, 100 samples of glyphs, 6 blocks, 95 % intervals" == caption


def test_what_was_not_measured_is_a_dash():
    """A loader that was not timed has dashes."""
    row = Standing("mine", ["test_a"], failed=["test_b"], reason="not timed")

    assert ["mine", "1/2", *["-"] * 8] == cells(shown(row)[1])


def test_why_a_loader_has_no_rank():
    """Where loaders are ranked, it is said below of each that is not why."""
    one = Standing("one", training=FIGURES, rank=1)
    other = Standing("other", training=FIGURES, reason="unequal work: 96 to 104 samples for 100")

    assert f"other is not ranked: {other.reason}" == shown(one, other)[-1]


def test_the_first_comes_first():
    """Ranked loaders come in the order of their ranks, the others after them."""
    rows = [Standing("c", reason="not timed"), Standing("b", rank=2), Standing("a", rank=1)]

    assert ["a", "b", "c"] == [cells(line)[0] for line in shown(*rows)[1:4]]


def test_paying_back():
    """A setup pays back at once, after whole epochs, or never; beside nothing it has nothing to pay."""
    paying = {0.0: "at once", 0.2: "1 epoch", 3.0: "3 epochs", math.inf: "never", None: "-"}

    for epochs, text in paying.items():
        row = Standing("mine", training=FIGURES, break_even=epochs, rank=1)
        assert text == cells(shown(row)[1])[-2]


def test_a_single_block_has_no_interval():
    """An interval that excludes nothing is left out."""
    endless = {**FIGURES, "to_ceiling": {"value": 0.9, "low": 0.0, "high": math.inf}}
    text = "\n".join(shown(Standing("mine", training=endless, rank=1)))

    assert "90.0 %" in text
    assert not any(word in text.lower() for word in ("inf", "nan"))


def test_a_narrow_terminal():
    """However narrow the terminal is, every label stays in one piece, and no line passes 140 columns."""
    label = "my_loader:make_with_a_long_name-variant-16workers"
    row = Standing(label, training=FIGURES, reason="unequal work: 96 to 104 samples for 100")

    lines = shown(row, width=20)

    assert any(line.startswith(label) for line in lines)
    assert max(map(len, lines)) <= 140


def test_names_are_shown_as_they_are():
    """Brackets and colons in names are no markup."""
    assert shown(Standing("my [bold] loader:smile:"))[1].startswith("my [bold] loader:smile:")


def test_colour_only_where_it_is_wanted():
    """Without colour there is no escape sequence in the text, with it the headings have some."""
    assert "\x1b" not in "\n".join(shown(Standing("mine")))
    assert "\x1b" in shown(Standing("mine"), colour=True)[0]


def test_a_row_of_the_article():
    """A row of the article says what was published, what was measured, and whether the work was equal."""
    row = ArticleRow(ARTICLE, 43.61 / 38.35, Ratio(1.25, 1.233, 1.268))

    _, line, caption = table.article([row], 200, colour=False).splitlines()

    expected = [
        "mixture-as-published",
        "38.35",
        "1.137",
        "3.00",
        "1.250 (1.233 to 1.268)",
        "50.0 ±1.5 %",
        "250.0 ms",
    ]
    assert [*expected, "unequal: 40 to 64 tested for 64 in an epoch"] == cells(line)
    assert caption.startswith(
        "10 epochs on cpu, 128 samples of glyphs, 3 blocks, 95 % intervals; so short a run"
    )


def test_an_article_without_a_plain_row():
    """Where nothing plain was measured, there is no ratio to it."""
    row = ArticleRow({**ARTICLE, "equal_work": True}, 1.0, None)

    line = table.article([row], 200, colour=False).splitlines()[1]

    assert ("-", "equal") == (cells(line)[4], cells(line)[-1])
