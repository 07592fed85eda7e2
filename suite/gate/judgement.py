"""What the gate found out about one loader. Plain data, for reports and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loaderproof.suite.gate.decision import Answer, Effect
from loaderproof.suite.gate.measures import Measure


@dataclass(frozen=True)
class Judgement:
    """The gate's answer for one loader.

    Attributes:
        loader: label of the case.
        base: what it was compared with, for people, such as `HEAD~1 (1a2b3c4)`.
        answer: for the loader as a whole.
        reason: why no measurement decided, or an empty text.
        answers, effects: by measure; empty where none decided.
        tests: among how many the level was shared.
        seconds: that measuring took.
        missing: measures that could not be taken, each with the reason.
    """

    loader: str
    base: str
    answer: Answer
    reason: str = ""
    answers: Mapping[Measure, Answer] = field(default_factory=dict)
    effects: Mapping[Measure, Effect] = field(default_factory=dict)
    tests: int = 1
    seconds: float = 0.0
    missing: Mapping[Measure, str] = field(default_factory=dict)
