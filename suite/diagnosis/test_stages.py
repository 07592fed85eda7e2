"""Where the time of each loader goes, found by changing one thing at a time."""

from __future__ import annotations

import pytest

from loaderproof.suite.diagnosis import stages_report
from loaderproof.suite.diagnosis.differential import investigate
from loaderproof.suite.diagnosis.verdict import judge
from loaderproof.suite.judged import Judged


@pytest.mark.diagnosis
def test_stages(subject: Judged) -> None:
    """The time of an epoch is divided among compute, transfer, start-up and the causes of waits for batches."""
    found = investigate(subject)
    judgement = judge(found)
    about = subject.case.description
    subject.note("verdict", stages_report.as_data(found, judgement, about))
    subject.tell("stages: where the time goes", stages_report.text(found, judgement, about))
