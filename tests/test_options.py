"""The command line options, as pytest itself reads them."""

import math
import sys
from pathlib import Path

import pytest

from loaderproof.loaders import Description, Promise, Variant
from loaderproof.loaders.contract import promised
from loaderproof.suite import options
from loaderproof.suite.judged import repeat_command
from loaderproof.suite.options import Settings
from loaderproof.suite.session import Case, Session, cases_of

pytest_plugins = ["pytester"]
SETTINGS = Settings((), "glyphs", (0, 2), "auto", "process", 60.0, 6400)


@pytest.fixture
def config(pytester):
    """Parse words as pytest does where the plugin is installed."""
    return pytester.parseconfig


def test_defaults(config):
    """Without options every loader is judged on 6,400 glyphs, with the workers 0 and 2, a minute at the most."""
    assert SETTINGS == options.read(config())


def test_every_option_is_read(config):
    """Each option reaches its setting."""
    words = "--loader a --loader b.py:c --loader-data probe --loader-workers=4,0,4 --loader-device cpu"
    words += (
        " --loader-isolation none --loader-timeout 1.5 --loader-samples all --loader-seed 5 --loader-soak"
        " --loader-profile trace,stages --loader-tune --loader-report there"
    )

    more = {"soak": True, "profiles": ("stages", "trace"), "tune": True, "report": Path("there")}
    assert Settings(("a", "b.py:c"), "probe", (4, 0), "cpu", "none", 1.5, None, 5, **more) == options.read(
        config(*words.split())
    )


def test_a_timeout_may_be_endless(config):
    """A person who wants no time-out can have none."""
    assert math.inf == options.read(config("--loader-timeout", "inf")).timeout_s


@pytest.mark.parametrize(
    ("option", "values", "remedy"),
    [
        ("--loader-workers", ["", "two", "-1", "0,,2", "1.5"], "give whole numbers"),
        ("--loader-timeout", ["", "0", "-1", "soon", "nan"], "give a number above 0"),
        ("--loader-seed", ["", "-1", "x", "2147483648"], "give a whole number below 2147483648"),
        ("--loader-profile", ["stage", "stages,all"], "'[a-z]+' is none of stages, stacks, trace, memory"),
        ("--loader-samples", ["", "0", "-64", "0.5", "inf", "some"], "give a whole number above 0, or all"),
    ],
)
def test_senseless_values_are_refused(config, option, values, remedy):
    """A value that makes no sense is quoted, with what would make sense."""
    for value in values:
        with pytest.raises(pytest.UsageError, match=f"^{option} '{value}': {remedy}"):
            options.read(config(f"{option}={value}"))


def test_given_options_are_those_that_differ(config):
    """What repeats a run are the options that differ from their defaults; loaders are named apart."""
    words = ("--loader", "a", "--loader-data", "probe", "--loader-timeout", "5", "--loader-soak")

    assert ["--loader-data", "probe", "--loader-timeout", "5", "--loader-soak"] == options.given(
        config(*words)
    )


def labels(description: Description, workers: tuple[int, ...] = (0, 2)) -> list[str]:
    """Return the labels of an adapter's cases."""
    return [case.label for case in cases_of("spec", description, workers)]


def test_one_case_for_each_variant_and_number_of_workers():
    """A loader with workers is judged with each number of them, in those variants that make sense with it."""
    variants = {"": Variant(), "ahead": Variant(options={"prefetch_factor": 4}, min_workers=1)}
    description = Description(name="mine", promises=promised(), variants=variants)

    assert ["mine-0workers", "mine-2workers", "mine-ahead-2workers"] == labels(description)


def test_without_workers_there_is_one_case_for_each_variant():
    """A loader that promises nothing about workers is judged once in each variant, and asked for none."""
    description = Description(
        name="mine", promises=promised(Promise.WORKERS), variants={"": Variant(), "other": Variant()}
    )

    assert ["mine", "mine-other"] == labels(description)
    assert {0} == {case.request().num_workers for case in cases_of("spec", description, (2,))}


def test_a_library_that_is_missing_leaves_its_loaders_out(monkeypatch):
    """By default those built-in loaders are judged whose library is installed."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    session = Session(SETTINGS)

    assert {"torch_dataloader", "resident", "memmap"} == {case.spec for case in session.cases()}
    assert {"tfds_numpy", "tfds_article", "tf_slices", "tfds_builder"} == set(session.left_out())


def test_repeat_command_is_one_line_for_a_shell():
    """What a shell would take apart is quoted, and what -k would not understand is left out."""
    case = Case("my file.py:make", "my loader@my file.py:make", Description(name="my loader"))

    command = repeat_command(["suite/"], ["--loader-data", "probe:9"], f"test_x[{case.label}-KeyError]", case)

    assert (
        "pytest suite/ --loader 'my file.py:make' --loader-data probe:9 -k 'test_x[my and loader-KeyError]'"
        == command
    )
