from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest

from loaderproof.loaders import Request
from loaderproof.suite import chance, options, trial
from loaderproof.suite.trial import Trial

pytest_plugins = ["pytester"]
FOLDER = Path(__file__).with_name("broken_loaders")
SEARCH = Path(__file__).parents[1] / "suite" / "conformance" / "test_search.py"
IN_PLACE = ("--loader-data", "probe:300", "--loader-isolation", "none")
NAME = "test_every_request_keeps_the_rules"
FOUND = "The smallest request that breaks it: "


def loaders() -> dict[str, str]:
    """Return the smallest request that each loader fails."""
    sys.path.insert(0, str(FOLDER))
    try:
        found = vars(importlib.import_module("search"))
    finally:
        sys.path.remove(str(FOLDER))
    return {name: value.smallest for name, value in found.items() if hasattr(value, "smallest")}


SMALLEST = loaders()


def spec(name: str) -> str:
    """Return the option for a loader that only a search finds to be broken."""
    return f"--loader={FOLDER / 'search.py'}:{name}"


@pytest.fixture(scope="module")
def found(tmp_path_factory, suite_run_in):
    """Search once for the requests of all loaders; return the reports by loader."""
    run = suite_run_in(tmp_path_factory.mktemp("search"))
    run.pytest(SEARCH, *IN_PLACE, "--loader-search=300", "--loader-workers=2", *map(spec, SMALLEST))
    return {re.search(r"\w+:(\w+)", one.name)[1]: one.text for one in run.outcomes()}


@pytest.mark.parametrize("name", SMALLEST)
def test_search_comes_to_the_smallest_request(found, name):
    """The request at which a search ends is the smallest that the loader fails, given as a command."""
    report = found[name]

    assert SMALLEST[name] == report.split(FOUND)[1].strip()
    assert f"--loader-request '{SMALLEST[name]}'" in report


def test_report_is_that_of_the_rule_that_is_broken(found):
    """The report of a search is that of the property, with its page."""
    report = found["LosesOneOfMany"]

    assert "Not kept: Every sample of the source comes exactly once in the first epoch." in report
    assert "docs/properties/every_sample_once.md" in report
    assert "Traceback" not in report


def test_command_repeats_the_request(found, suite_run):
    """The command in a report tries that request alone, and fails in the same way."""
    report = found["LosesOneOfMany"]
    command = shlex.split(re.search(r"\n  repeat +pytest (.*)", report)[1])

    suite_run.pytest(*command)

    assert [(NAME, report.split(FOUND)[1])] == [
        (one.name.partition("[")[0], one.text.split(FOUND)[1]) for one in suite_run.outcomes()
    ]


def test_request_that_was_found_is_tried_first(suite_run):
    """A second search begins with the request that the first one found."""
    suite_run.pytest(SEARCH, *IN_PLACE, "--loader-search=300", spec("LosesOneOfMany"))

    suite_run.pytest(SEARCH, *IN_PLACE, "--loader-search=1", spec("LosesOneOfMany"))

    assert [SMALLEST["LosesOneOfMany"]] == [one.text.split(FOUND)[1].strip() for one in suite_run.outcomes()]


DISASTERS = """
import os, time
import torch
from loaderproof.loaders import Promise
from loaderproof.loaders.function import adapter

class Loader:
    def __init__(self, source, request, disaster):
        self.source, self.request, self.disaster = source, request, disaster

    def __iter__(self):
        size, count = self.request.batch_size, len(self.source)
        for start in range(0, count, size):
            if size == 3:
                self.disaster()
            samples = [self.source[place] for place in range(start, min(start + size, count))]
            images = torch.stack([torch.from_numpy(image).permute(2, 0, 1) / 255 for image, _ in samples])
            yield images, torch.tensor([label for _, label in samples])

@adapter(promises=[])
def dies(source, request):
    return Loader(source, request, lambda: os._exit(3))

@adapter(promises=[])
def hangs(source, request):
    return Loader(source, request, lambda: time.sleep(60))

@adapter(promises=[])
def raises(source, request):
    return Loader(source, request, lambda: 1 / 0)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [("dies", "exit code 3"), ("hangs", "no answer within"), ("raises", "ZeroDivisionError")],
)
def test_disasters_are_reported_with_their_request(suite_run, name, words):
    """A loader that dies, hangs or raises in a search is reported with the smallest request that makes it."""
    (suite_run.folder / "disasters.py").write_text(DISASTERS)

    suite_run.pytest(
        SEARCH,
        "--loader-data=probe",
        "--loader-timeout=4",
        "--loader-search=40",
        f"--loader=disasters.py:{name}",
    )

    (outcome,) = suite_run.outcomes()
    assert words in outcome.text
    assert "samples=1 batch_size=3" == outcome.text.split(FOUND)[1].strip()


def test_search_is_left_out_unless_asked_for(suite_run):
    """A run without the option holds no search, and one with a request holds nothing else."""
    words = ("--collect-only", "-q", "--loader", "resident")

    assert NAME not in suite_run.judge(*words).stdout
    asked = suite_run.judge(*words, "--loader-request", "samples=3 batch_size=2").stdout
    assert {NAME} == set(re.findall(r"::(test_\w+)", asked))


def test_search_says_what_it_needs(pytester, monkeypatch):
    """Where Hypothesis is not installed, whoever asks for a search is told how to get it."""
    monkeypatch.setattr(importlib.util, "find_spec", {}.get)
    config = pytester.parseconfig("--loader-search")

    with pytest.raises(pytest.UsageError, match=re.escape("pip install 'loaderproof[search]'")):
        options.read(config)


@pytest.mark.parametrize(
    "one",
    [
        Trial(samples=3, batch_size=2),
        Trial(samples=1, batch_size=1, shuffle=True, seed=2**31, epochs=4, shape="8x8x3"),
        Trial(samples=7, batch_size=9, drop_last=True, workers=2, world_size=3, resume_after=1),
    ],
    ids=str,
)
def test_words_of_a_request_are_read_again(one):
    """A request that is printed and read again is the same."""
    assert one == trial.parse(str(one))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("samples=3", "batch_size must be given"),
        ("samples=3 batch_size=2 speed=1", "there is no 'speed'; there is samples, batch_size"),
        ("samples=0 batch_size=2", "samples is '0'; give a whole number of at least 1"),
        ("samples=3 batch_size=-1", "batch_size is '-1'; give a whole number"),
        ("samples=3 batch_size=2 shuffle=yes", "shuffle is 'yes'; give True or False"),
        ("samples=3 batch_size=2 shape=1x1x1", "shape is '1x1x1'"),
    ],
)
def test_words_without_sense_are_refused(words, complaint):
    """Words that say nothing that can be tried are refused, with what would."""
    with pytest.raises(trial.NotATrial, match=re.escape(complaint)):
        trial.parse(words)


def test_request_asks_every_rank():
    """A request of several ranks is tried on each of them, with the workers and options of the case."""
    one = Trial(samples=5, batch_size=2, world_size=2, epochs=3)

    scenarios = one.scenarios(Request(num_workers=2, options={"depth": 1}))

    assert [(0, 2, 2, {"depth": 1}), (1, 2, 2, {"depth": 1})] == [
        (made.request.rank, made.request.world_size, made.request.num_workers, made.request.options)
        for made in scenarios
    ]
    assert {("probe:5:9x14x1", 3)} == {(made.data, made.epochs) for made in scenarios}


def test_chances_are_counted():
    """Orders, groupings and remainders are counted as by hand."""
    assert (24, 2 * 2 * 2) == (chance.orders(4, None), chance.orders(4, 2))
    assert 3 == chance.groupings([2, 2])  # of four samples the first has three possible partners
    assert 6**2 == chance.remainders(4, 2, 3)
