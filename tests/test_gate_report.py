"""What people and machines read of the gate."""

import json
import math
import os
import re
from dataclasses import replace

import pytest

from loaderproof.suite.gate import decision, report, results, wording
from loaderproof.suite.gate.decision import Answer
from loaderproof.suite.gate.judgement import Judgement
from loaderproof.suite.gate.measures import Measure, margin_of
from loaderproof.suite.gate.report import ResultError

EVIL = "my|`loader`<b>*x*\n# _y_ [z](u)"


def judgement(loader="mine", base="main (1a2b3c4)", spread=0.001, noise=None, missing=None, **worse):
    """Return the answer for a loader that is so much worse in some measures, as a share; by their names."""
    effects = {}
    for measure in Measure:
        mean = worse.get(measure.name.lower(), 0.0)
        level = mean if measure is Measure.WAIT else math.log1p(mean)
        swings = [spread * (-1) ** block for block in range(12)]
        effects[measure] = decision.paired(
            margin_of(measure, 0.05),
            [level + one for one in swings],
            [one / 2 + (noise or 0) for one in swings],
        )
    for measure in missing or {}:
        del effects[measure]
    answers = decision.decide(effects)
    return Judgement(
        loader,
        base,
        decision.overall(list(answers.values())),
        answers=answers,
        effects=effects,
        tests=5,
        seconds=60,
        missing=missing or {},
    )


PASSED = judgement()
FAILED = judgement("slow", training=0.25, wait=0.12)
NOISY = judgement("noisy", spread=0.1)
LOST = Judgement("lost", "main", Answer.FAIL, "the base could not be measured:\nit died")
NEW = Judgement("new", "nothing", Answer.RECORDED)
ALL = [PASSED, FAILED, NOISY, LOST, NEW]


def cells(text, loader):
    """Return the cells of the lines of one loader in the table."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{loader} "))
    table = lines[first : first + len(Measure)]
    return [[cell for cell in re.split(r"\s{2,}", line) if cell] for line in table]


# The table.


def test_the_table_has_every_measure_in_percent_and_points():
    """A line has the effect, both bounds, the margin, what would be seen, the blocks, and the answer."""
    found = cells(report.text([FAILED]), "slow")

    assert ["slow", "training", "+25.0 %", "+24.9 %", "+25.1 %", "5 %"] == found[0][:6]
    assert ["12", "fail"] == found[0][-2:]
    assert ["loading", "0.0 %", "-0.1 %", "+0.1 %", "5 %"] == found[1][:5]
    assert ["wait share", "+12.0 points", "+11.9 points", "+12.1 points", "5 points"] == found[3][:5]
    assert ["fail", "pass", "pass", "fail", "pass"] == [line[-1] for line in found]


def test_what_would_be_seen_is_of_the_noise_of_the_base():
    """The smallest visible effect is larger than the margin, and grows with how the base differs from itself."""
    small, large = (cells(report.text([judgement(spread=one)]), "mine")[0][-3] for one in (0.001, 0.01))

    assert 5 < float(small.split()[0]) < float(large.split()[0])


def test_a_measure_that_was_not_taken_is_in_the_table():
    """What the kernel does not tell has a line of its own, and the reason stands below."""
    text = report.text([judgement(missing={Measure.MEMORY: "the kernel is silent"})], width=1000)

    assert ["peak memory", *["-"] * 6, "not compared"] == cells(text, "mine")[4]
    assert "peak memory was not compared: the kernel is silent" in text


def test_loaders_without_figures_have_a_line():
    """A loader that was not compared, and one that was measured for later, are in the table with their answers."""
    text = report.text([LOST, NEW])

    assert ["fail", "recorded"] == [cells(text + "\n" * 5, name)[0][-1] for name in ("lost", "new")]
    assert all(words in text for words in ("it died", "--loader-against stored"))


def test_the_table_fits_figures_of_any_size():
    """Effects beyond all numbers are shown as none, and raise nothing."""
    effect = decision.paired(0.05, [-800.0, 900.0] * 6, [0.0] * 12)
    effects = dict.fromkeys(Measure, effect)
    wild = replace(PASSED, effects=effects, answers=decision.decide(effects))

    assert "-" in cells(report.text([wild]), "mine")[0]


# Words.


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (PASSED, ["no measure is worse by more than 5 % or 5 points", "level of 1 %", "12 blocks"]),
        (FAILED, ["training +25.0 %", "(allowed 5 %)", "--loader-profile stages tells", "--loader-gate"]),
        (judgement(memory=0.3), ["peak memory +30.0 %", "--loader-profile memory tells"]),
        (judgement(memory=0.3, loading=0.3), ["--loader-profile stages,memory"]),
        (
            NOISY,
            [
                "from -",
                "too noisy",
                "--loader-gate-blocks",
                "--loader-gate-inconclusive=pass",
                "quieter machine",
            ],
        ),
        (judgement(loading=0.0495), ["whether by more than the margin is not shown", "wider margin"]),
        (
            judgement(noise=0.2),
            ["base differs from itself", "quieter machine", "--loader-gate-inconclusive=pass"],
        ),
        (LOST, ["the base could not be measured"]),
        (NEW, ["nothing to compare with", "--benchmark-save=base"]),
    ],
    ids=["passed", "failed", "memory", "both", "noisy", "near", "disturbed", "lost", "new"],
)
def test_sentences(one, words):
    """The sentence of each kind of answer has what was measured, what it means, and what to do."""
    said = wording.sentence(one).lower()

    assert [] == [word for word in words if word.lower() not in said]
    assert said.startswith(f"{one.answer}, against {one.base}".lower())


def test_the_blocks_that_are_asked_for_are_more_and_would_do():
    """In noise, the number of blocks that is given is more than there were, and decides if noise stays."""
    noisy = judgement(spread=0.06)
    asked = int(re.search(r"--loader-gate-blocks (\d+)", wording.sentence(noisy))[1])
    effect = noisy.effects[Measure.TRAINING]
    again = decision.paired(effect.margin, (list(effect.differences) * 9)[:asked])

    assert asked > effect.blocks
    assert Answer.PASS == decision.decide({"again": again})["again"]


def test_blocks_without_end_are_not_asked_for():
    """Where the effect lies at the margin no number of blocks decides, and none is given."""
    assert "--loader-gate-blocks" not in wording.sentence(judgement(loading=0.0499))


@pytest.mark.parametrize(
    ("one", "heading"), [(FAILED, "Not kept:"), (NOISY, "Inconclusive:"), (LOST, "Not compared:")]
)
def test_text_of_a_failed_test(one, heading):
    """A failed test says in aligned lines who was compared with what, where to read on, and how to repeat it."""
    lines = report.why(one, "pytest -k mine").splitlines()

    assert lines[0].startswith(heading)
    assert f"  loader    {one.loader}" in lines
    assert f"  base      {one.base}" in lines
    assert "  about     docs/gate.md" in lines
    assert "  repeat    pytest -k mine" in lines
    assert ("  blocks    12" in lines) == bool(one.effects)


def test_text_of_a_failed_test_has_every_measure_that_failed():
    """Each measure beyond the margin has a line with effect, bound and margin; a reason stands whole below."""
    text = report.why(FAILED)

    assert "  measured  training +25.0 %, at least +24.9 % (allowed 5 %)\n" in text
    assert "\n            wait share +12.0 points, at least +11.9 points (allowed 5 points)\n" in text
    assert report.why(LOST).endswith("\n\nthe base could not be measured:\nit died")


# The page of a job.


@pytest.mark.parametrize(
    ("loaders", "heading"),
    [
        ([PASSED], "pass"),
        ([PASSED, NOISY], "inconclusive"),
        (ALL, "fail"),
        ([NEW], "recorded"),
        ([NEW, PASSED], "inconclusive"),
    ],
)
def test_the_heading_is_the_answer_for_all(loaders, heading):
    """The page begins with the answer of the whole run: one that fails fails it, and all have to pass."""
    assert f"## Gate: {heading}" == report.markdown(loaders).splitlines()[0]


def test_a_run_that_is_not_complete_has_no_answer():
    """If a loader has no answer, those of the others are no pass."""
    assert "## Gate: not complete" == report.markdown([PASSED], complete=False).splitlines()[0]


def test_names_cannot_break_the_page():
    """Bars, backticks, tags, emphasis, links and newlines in names are shown as they are."""
    text = report.markdown([replace(FAILED, loader=EVIL, base=EVIL)])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    columns = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}

    assert {len(wording.COLUMNS) + 1} == columns
    assert 2 + len(Measure) == len(rows)
    assert "my\\|\\`loader\\`&lt;b&gt;\\*x\\* # \\_y\\_ \\[z\\](u)" in rows[2]
    assert "<b>" not in text


def test_long_reasons_are_cut():
    """A crash with pages of stacks takes a few lines of the page."""
    assert len(report.markdown([replace(LOST, reason="stack " * 10_000)])) < 5_000


def test_summary_goes_to_the_page_of_the_job(monkeypatch, tmp_path):
    """What the environment names gets the summary, after what is there already."""
    page = tmp_path / "page.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))

    assert (None, "before\n\n## Gate\n") == (report.publish("## Gate\n"), page.read_text())


def test_no_page_is_no_trouble(monkeypatch, tmp_path):
    """Without a page nothing happens; one that cannot be written is a warning."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    without = report.publish("text")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder"))

    assert (None, True) == (without, "GITHUB_STEP_SUMMARY" in report.publish("text"))


# Files.


def test_files_hold_every_number(tmp_path):
    """What is written is read again: every effect with its bounds, chances and differences, and the machine."""
    report.write(tmp_path / "new" / "folder", ALL, {"cpu": "some"}, complete=True)
    path = tmp_path / "new" / "folder" / "gate.json"
    found = {one["loader"]: one for one in report.read(path)}
    training, effect = found["slow"]["measures"]["training"], FAILED.effects[Measure.TRAINING]

    assert {one.loader: one.answer for one in ALL} == {name: one["answer"] for name, one in found.items()}
    assert (list(effect.differences), list(effect.noise)) == (training["differences"], training["noise"])
    assert (effect.mean, *effect.interval()) == (training["mean"], training["low"], training["high"])
    assert (effect.p_worse(), effect.p_within()) == (training["p_worse"], training["p_within"])
    assert (1, {"cpu": "some"}) == tuple(
        json.loads(path.read_text())[name] for name in ("format", "environment")
    )
    assert report.markdown(ALL) == path.with_suffix(".md").read_text()


def test_files_hold_no_infinity(tmp_path):
    """Numbers that JSON does not know become null."""
    effect = decision.Effect(0.05, [0.0] * 12, [math.nan] * 12, math.inf, 1.0, 11)
    wild = replace(PASSED, effects=dict.fromkeys(Measure, effect))
    report.write(tmp_path, [wild], {}, complete=True)

    text = (tmp_path / "gate.json").read_text()
    assert (False, True) == ("NaN" in text or "Infinity" in text, '"mean": null' in text)


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    """A full disk leaves the file as it was, and nothing beside it."""
    path = tmp_path / "gate.json"
    path.write_text("before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        results.put(path, "after")

    assert (["gate.json"], "before") == ([one.name for one in tmp_path.iterdir()], path.read_text())


def test_earlier_answers_are_discarded(tmp_path):
    """What an earlier run wrote, or one that was killed while it wrote, is gone; all else stays."""
    report.discard(tmp_path / "not there")
    report.write(tmp_path, ALL, {}, complete=True)
    for name in (".gate.json.123", "other.json"):
        (tmp_path / name).touch()
    report.discard(tmp_path)

    assert ["other.json"] == [one.name for one in tmp_path.iterdir()]


def changed(tmp_path, change):
    """Write an answer, have it changed as data, and return the file."""
    report.write(tmp_path, [PASSED, FAILED], {}, complete=True)
    path = tmp_path / "gate.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(format=2), "format is 2"),
        (lambda data: data.update(format=True), "format is True"),
        (lambda data: data.pop("format"), "format is None"),
        (lambda data: data.update(complete=False), "did not answer for all"),
        (lambda data: data.update(answer="pass"), "says 'pass'"),
        (lambda data: data.update(loaders=[]), "names no loaders"),
        (lambda data: data["loaders"].append(data["loaders"][0]), "twice"),
        (lambda data: data["loaders"][0].update(answer="maybe"), "no answer 'maybe'"),
        (lambda data: data["loaders"][0].pop("base"), "'base' is not there"),
        (lambda data: data["loaders"][0].update(measures={}), "passes unmeasured"),
        (lambda data: data["loaders"][1].update(answer="pass"), "its measures 'fail'"),
        (lambda data: data["loaders"][0]["measures"].update(speed={}), "no measure 'speed'"),
        (lambda data: data["loaders"][0]["measures"]["training"].pop("mean"), "lacks numbers"),
        (lambda data: data["loaders"][0]["measures"]["training"].update(mean=math.nan), "NaN is no number"),
        (lambda data: data["loaders"][0]["measures"]["training"].update(noise=["x"]), "lacks numbers"),
    ],
)
def test_other_files_are_refused(tmp_path, change, said):
    """A file of another format, not complete, at odds with itself, or with something missing is no answer."""
    with pytest.raises(ResultError, match=re.escape(said)):
        report.read(changed(tmp_path, change))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"format": 1, "format": 1}', "[" * 100_000, "\x00"])
def test_files_that_are_none_are_refused(tmp_path, text):
    """What is no such JSON at all is refused by name."""
    path = tmp_path / "gate.json"
    path.write_text(text)

    with pytest.raises(ResultError, match=r"gate\.json"):
        report.read(path)


def test_files_that_were_cut_are_refused(tmp_path):
    """A file that ends too early is no answer, wherever it ends."""
    whole = changed(tmp_path, lambda _: None).read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut.json").write_bytes(whole[:length])
        with pytest.raises(ResultError, match=r"cut\.json"):
            report.read(tmp_path / "cut.json")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    """No file is no answer."""
    with pytest.raises(ResultError, match=r"none\.json"):
        report.read(tmp_path / "none.json")
