"""The gate: no loader is slower than the one that it replaces."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite.gate import measuring, report
from loaderproof.suite.gate.keeper import Gatekeeper
from loaderproof.suite.gate.running import NotMeasured
from loaderproof.suite.judged import Judged, NotKept


@pytest.mark.gate
@pytest.mark.benchmark(group="gate")
def test_gate_measures(subject: Judged, benchmark: BenchmarkFixture, gatekeeper: Gatekeeper) -> None:
    """Loader and base do equal work side by side, in blocks of fresh processes."""
    loader = subject.case.label
    try:
        measuring.possible(benchmark, gatekeeper.broken.get(loader))
        gatekeeper.add(*measuring.measure(subject, benchmark, gatekeeper))
    except NotMeasured as error:
        gatekeeper.refuse(loader, str(error))
        raise NotKept(report.why(gatekeeper.judgements[loader], subject.command)) from None


@pytest.mark.decision
def test_gate_decides(subject: Judged, gatekeeper: Gatekeeper) -> None:
    """The loader is not worse than its base by more than the margin."""
    gatekeeper.decide()
    judgement = gatekeeper.judgements.get(subject.case.label)
    if judgement is None:
        gatekeeper.refuse(subject.case.label, "it was not measured: the test test_gate_measures did not run")
        judgement = gatekeeper.judgements[subject.case.label]
    if not gatekeeper.lets_pass(judgement):
        raise NotKept(report.why(judgement, subject.command))
