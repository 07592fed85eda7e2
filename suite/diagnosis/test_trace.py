"""What torch does in a loader's own process while it trains, traced by torch.profiler."""

from __future__ import annotations

import pytest

from loaderproof.suite.diagnosis import tracing
from loaderproof.suite.diagnosis.profiled import profiled
from loaderproof.suite.diagnosis.recordings import Trace
from loaderproof.suite.judged import Judged

SECTION = "trace: operations of torch in the process that trains"
STEPS = 20


@pytest.mark.diagnosis
def test_trace(subject: Judged) -> None:
    """While the loader trains, torch.profiler traces twenty steps of its process."""
    scenario = subject.timed_scenario()
    file = subject.report_folder() / "trace.json"
    trace: Trace = profiled(subject, "profiled_trace:record", file=str(file.resolve()), active=STEPS)
    if not trace.steps:
        why = f"an epoch of {scenario.data} ended before the profiler had begun, and then no batch came"
        subject.tell(SECTION, f"no trace: {why}")
        pytest.skip(why)
    subject.tell(SECTION, tracing.report(trace, workers=subject.case.workers, file=file))
