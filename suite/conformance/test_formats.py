"""What a loader makes of its own files on disk."""

from __future__ import annotations

import pytest

from loaderproof.suite.answers import Among
from loaderproof.suite.conformance.health import content, difference, undisturbed
from loaderproof.suite.conformance.scenarios import plain
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Observation


@pytest.mark.parametrize("kind", ["hidden", "visible"])
def test_stray_files_are_no_samples(subject: Judged, kind: str) -> None:
    """Files that others leave among the prepared ones are ignored, or refused by name, and are no samples.

    Why: file managers, notebooks and training runs leave files in data folders. A folder that is
    taken for a class shifts every label behind it, and nothing fails.

    Reports: open-mmlab/mmpretrain#507

    Causes: a listing that takes whatever lies in a folder, or a pattern such as *.png that also fits
    the hidden files of macOS and what lies in hidden folders.

    Remedy: write a list of the files in `prepare` and read that, or leave out names that begin
    with a dot and endings that are not yours; or raise an error that names the file.
    """
    if subject.case.description.on_disk is None:
        pytest.skip(f"{subject.case.description.name} has no format of its own on disk")
    scenario = plain(subject)
    clean = undisturbed(subject, scenario)
    found: Among = subject.run("formats:open_among_strays", scenario, kind=kind)
    got = _unexplained(found) if found.seen is None else _change(clean, found.seen)
    if got:
        subject.fail(
            Place(scenario, 0),
            expected=f"the same epoch with {', '.join(found.strays[:3])}{', ...' if found.strays[3:] else ''}"
            " among the prepared files, or an error that names one of them",
            got=got,
            hint="a listing that takes every entry of a folder for a class or a sample",
        )


def _unexplained(found: Among) -> str:
    """Return the exception if it names no stray."""
    if any(name in found.raised for name in found.strays):
        return ""
    return f"an exception that names none: {found.raised.strip().splitlines()[-1]}"


def _change(clean: Observation, seen: Observation) -> str:
    """Return in which way an epoch is not the one without strays."""
    if clean.length != seen.length:
        return f"len() == {seen.length}, without them {clean.length}"
    one, other = clean.epochs[0], seen.epochs[0]
    return "" if content(one) == content(other) else difference(other, one)
