"""The tables at the end of a run."""

import math

from loaderproof.suite import table
from loaderproof.suite.standing import ArticleRow, Standing
from loaderproof.suite.statistics import Estimate, Ratio


def about(value: float, width: float = 0.0) -> dict[str, float]:
    """Return a figure with its interval as it is noted."""
    return {"value": value, "low": value - width, "high": value + width}


FIGURES = {
    "device": "emulated 2 ms step",
    "data": "100 samples of glyphs",
    "blocks": 6,
    "samples_per_s": about(12345.6, 9),
    "steady_samples_per_s": about(23456.7, 9),
    "to_ceiling": about(0.9, 0.01),
    "utilisation": about(0.934, 0.02),
    "stall_share": about(0.07, 0.015),
    "wait_p50_s": about(12e-6),
    "wait_p95_s": about(0.5e-3),
    "wait_p99_s": about(1.5),
    "first_batch_s": 0.0123,
    "next_first_batch_s": about(0.011),
    "ending_s": about(0.25),
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
    """A row has rules kept, speeds, ratios, utilisation, times with units, epochs to pay back, and the rank."""
    row = Standing(
        "mine",
        ["test_a"],
        deviating=["test_b"],
        training=FIGURES,
        loading={"samples_per_s": about(54_321.0)},
        to_plain=Ratio(2, 1, 4),
        break_even=Estimate(2.1, 1.1, 9.9),
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
        "93.4 %",
        "12.3 ms",
        "2.5 s",
        "3 epochs",
        "1",
    ] == cells(line)
    assert "training on emulated 2 ms step, 100 samples of glyphs, 6 blocks, 95 % intervals" == caption


def test_what_was_not_measured_is_a_dash():
    """A loader that was not timed has dashes."""
    row = Standing("mine", ["test_a"], failed=["test_b"], reason="not timed")

    assert ["mine", "1/2", *["-"] * 9] == cells(shown(row)[1])


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
        even = None if epochs is None else Estimate(epochs, epochs, epochs)
        row = Standing("mine", training=FIGURES, break_even=even, rank=1)
        assert text == cells(shown(row)[1])[-2]


def test_a_single_block_has_no_interval():
    """An interval that excludes nothing is left out."""
    endless = {**FIGURES, "to_ceiling": {"value": 0.9, "low": 0.0, "high": math.inf}}
    text = "\n".join(shown(Standing("mine", training=endless, rank=1)))

    assert "90.0 %" in text
    assert not any(word in text.lower() for word in ("inf", "nan"))


def test_an_epoch_of_one_step():
    """What only several steps show is a dash."""
    one = {**FIGURES, "utilisation": None}

    assert ("90.0 ±1.0 %", "-") == tuple(cells(shown(Standing("mine", training=one))[1])[5:7])


def test_where_the_time_goes():
    """Below, each timed loader has its steady speed, shares with intervals, waits, start and end."""
    _, line, *caption = table.details(
        [Standing("mine", training=FIGURES), Standing("other")], 200, colour=False
    ).splitlines()

    times = ["12 us", "0.5 ms", "1.5 s", "11.0 ms", "250.0 ms"]
    assert ["mine", "23,457", "93.4 ±2.0 %", "7.0 ±1.5 %", *times] == cells(line)
    assert "AU, accelerator utilisation, is computing / total time" in caption[0]


def test_no_stall_has_no_sign():
    """A stall that is below 0 by chance, and by too little to be shown, is 0."""
    row = Standing("mine", training={**FIGURES, "stall_share": about(-1e-5, 0.002)})

    assert "0.0 ±0.2 %" == cells(table.details([row], 200, colour=False).splitlines()[1])[3]


def test_paying_back_with_its_interval():
    """Of a setup that may pay back it is said below when, at the earliest, and at the latest."""
    paying = {(2.1, 1.1, math.inf): "3 epochs (2 to never)", (math.inf, 0.3, math.inf): "never (1 to never)"}
    for bounds, text in paying.items():
        row = Standing("mine", training=FIGURES, break_even=Estimate(*bounds))
        assert table.details([row], 200, colour=False).endswith(f"\nmine: setup pays back: {text}")

    for bounds in ((0, 0, 0), (math.inf, math.inf, math.inf)):
        row = Standing("mine", training=FIGURES, break_even=Estimate(*bounds))
        assert "mine:" not in table.details([row], 200, colour=False)


def test_details_of_what_was_not_measured():
    """Figures that could not be had are dashes; where nothing was timed, nothing is said."""
    nothing = dict.fromkeys(FIGURES) | {"next_first_batch_s": about(0.1), "ending_s": about(0.1)}
    row = Standing("mine", training=nothing)

    line = table.details([row], 200, colour=False).splitlines()[1]

    assert ["mine", *["-"] * 6, "100.0 ms", "100.0 ms"] == cells(line)
    assert "" == table.details([Standing("other")], 200, colour=False)


def test_details_fit_a_log_file():
    """With a long label and wide figures no line passes 140 columns, and every cell stays in one piece."""
    label = "torch_dataloader-persistent-16workers"
    wide = {**FIGURES, "steady_samples_per_s": about(1_234_567.0), "stall_share": about(0.5, 0.25)}
    row = Standing(label, training=wide, break_even=Estimate(1e4, 1e3, math.inf))

    lines = table.details([row], 20, colour=False).splitlines()

    assert [label, "1,234,567", "93.4 ±2.0 %", "50.0 ±25.0 %"] == cells(lines[1])[:4]
    assert "250.0 ms" == cells(lines[1])[-1]
    assert max(map(len, lines)) <= 140


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
