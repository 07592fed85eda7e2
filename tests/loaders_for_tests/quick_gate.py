"""A plugin for runs of the suite: the gate's processes are doubles, which tell times without taking any.

QUICK_GATE is JSON: by the name of an arm, `faster` (a factor on its speed), `spread` (of its noise),
`samples`, or `dies`.
"""

import json
import os
import random

from loaderproof.suite.answers import Setup
from loaderproof.suite.gate import running
from loaderproof.suite.subject import Died
from loaderproof.suite.timeline import Readings, timing

SAMPLES, BATCH = 64, 32
_STEP_NS = 1_000_000


class Double:
    """Answers as a loader's process does."""

    count = 0

    def __init__(self, spec, timeout_s, home):
        del spec, timeout_s, home
        arms = ("candidate", "base", "base again")
        # Processes of a block are made in the order of the arms.
        self.words = json.loads(os.environ["QUICK_GATE"]).get(arms[Double.count % len(arms)], {})
        self._draw = random.Random(Double.count)  # noqa: S311 - nobody has to be kept from guessing it
        Double.count += 1

    def run(self, experiment, **arguments):
        """Return what would have come of an experiment."""
        del arguments
        if self.words.get("dies"):
            raise Died("the loader's process ended with exit code 3")
        return {
            "gate_rounds:first_batch": lambda: self._times(0.001),
            "gate_rounds:peak": lambda: 2**28,
            "rounds:start": lambda: Setup(0.0, 0.001, SAMPLES, SAMPLES // BATCH, "emulated 1 ms step"),
            "rounds:settle": lambda: None,
            "rounds:train": self._epoch,
            "rounds:load": self._epoch,
            "rounds:train_on_ceiling": lambda: _timing(1.0, SAMPLES),
        }[experiment]()

    def close(self):
        """End nothing."""

    def _times(self, seconds):
        noise = self._draw.gauss(1, self.words.get("spread", 0.001))
        return seconds * noise / self.words.get("faster", 1)

    def _epoch(self):
        return _timing(self._times(1.0), self.words.get("samples", SAMPLES))


def _timing(factor, samples):
    step, batches = int(factor * _STEP_NS), samples // BATCH
    laps = [place * step + part * step // 4 for place in range(batches) for part in range(4)]
    return timing(Readings(laps, 0, batches * step, batches * step), [BATCH] * batches)


def pytest_configure(config):
    """Let the gate have doubles."""
    running.Subject = Double
