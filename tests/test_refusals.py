"""Runs that stop before they begin, as nothing can be judged."""

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "names", "said"),
    [
        (["--loader-workers", "two"], [], "--loader-workers 'two': give whole numbers"),
        (["--loader-timeout", "0"], [], "--loader-timeout '0': give a number above 0"),
        (["--loader-samples", "0.5"], [], "--loader-samples '0.5': give a whole number above 0, or all"),
        (["--loader-isolation", "some"], [], "invalid choice: 'some' (choose from"),
        (["--loader-data", "glyph"], ["right"], "no kind of data called 'glyph'; did you mean glyphs?"),
        (["--loader-device", "emulated:fast"], ["right"], "'fast' is no step time"),
        (["--loader", "residnet"], ["right"], "no loader 'residnet' (did you mean 'resident'?)"),
        ([], ["rihgt"], "no 'rihgt' in"),
        ([], ["needy"], "loader 'judged:needy' needs no_such_library: pip install no_such_library"),
        ([], ["misspelt"], "'test_len_counts_batch', which is no conformance test; there is test_len_c"),
        ([], ["of_no_variant"], "a deviation for the variants ['short']; there are ['']"),
    ],
)
def test_what_cannot_be_judged_is_refused(suite_run, words, names, said):
    """Bad options, data, devices and loaders end the run with one message, before any loader opens."""
    note = suite_run.environment["NOTE"] = str(suite_run.folder / "note")

    done = suite_run.judge("-q", *words, *suite_run.loaders(*names))

    assert 4 == done.returncode, done.stdout
    assert said in done.stdout
    assert 1 == len(re.findall(r"^ERROR: ", done.stdout, re.MULTILINE)), done.stdout
    assert not Path(note).exists()


def test_a_broken_file_shows_its_traceback(suite_run):
    """A file that cannot be imported ends the run with its own traceback, once."""
    (suite_run.folder / "mine.py").write_text("import torch\n\nmake = torch.no_such_thing\n")

    done = suite_run.judge("-q", "--loader", "mine.py:make")

    assert 4 == done.returncode
    assert re.search(r'mine.py", line 3, in <module>\n +make = torch.no_such_thing', done.stdout)
    assert 1 == done.stdout.count("Traceback")
