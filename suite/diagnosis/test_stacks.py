"""What the threads and processes of a loader do while it trains, sampled by py-spy."""

from __future__ import annotations

import pytest

from loaderproof.suite.diagnosis import flame, pyspy, stacks
from loaderproof.suite.diagnosis.frames import stacks as stacks_of
from loaderproof.suite.diagnosis.profiled import profiled
from loaderproof.suite.diagnosis.recordings import Recording
from loaderproof.suite.judged import Judged

SECTION = "stacks: what each thread did, in percent of its time"
SECONDS = 5
# In a second; more would slow down what is looked at.
RATE = 100


@pytest.mark.diagnosis
def test_stacks(subject: Judged) -> None:
    """While the loader trains for five seconds, py-spy samples all its threads and processes."""
    if not pyspy.tool():
        _skip(subject, pyspy.NOT_INSTALLED)
    scenario = subject.timed_scenario()
    recording: Recording = profiled(subject, "profiled_stacks:record", seconds=SECONDS, rate=RATE)
    found = stacks_of(recording.raw, recording.pid)
    if not found:
        _skip(subject, pyspy.trouble(recording.said))
    title = f"{subject.case.label}, {scenario.data}, {recording.device}"
    folder = subject.report_folder()
    files = {
        "stacks.svg": flame.flame_graph(found, RATE, title),
        "stacks.speedscope.json": flame.speedscope(found, RATE, title),
        "stacks.txt": recording.raw,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    subject.note("stacks", {"hottest": [vars(one) for one in stacks.hottest(found)]})
    subject.tell(SECTION, "\n".join([stacks.report(found, recording), f"files: {folder}/stacks.*"]))


def _skip(subject: Judged, why: str) -> None:
    subject.tell(SECTION, f"no stacks: {why}")
    pytest.skip(why)
