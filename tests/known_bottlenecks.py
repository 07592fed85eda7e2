"""The planted bottlenecks, what each of them is, and how one is diagnosed."""

from pathlib import Path

from loaderproof.loaders import Request
from loaderproof.suite.diagnosis.causes import Cause
from loaderproof.suite.diagnosis.differential import compare
from loaderproof.suite.diagnosis.verdict import Verdict, judge
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Subject

FILE = Path(__file__).with_name("planted") / "bottlenecks.py"
SAMPLES, TIMEOUT_S = 6_400, 300
QUICK, SLOW = "emulated:2ms", "emulated:5ms"

# Planted bottleneck: its loader, number of workers, device, and the cause that it is.
PLANTED: dict[str, tuple[str, int, str, Cause]] = {
    "slow storage": ("storage", 2, QUICK, Cause.FETCH),
    "slow decode": ("decode", 2, QUICK, Cause.PREPARATION),
    "slow augmentation holding the GIL": ("lock", 0, QUICK, Cause.GIL),
    "slow collate": ("collate", 2, QUICK, Cause.PREPARATION),
    "oversized batches through queues": ("queue", 2, QUICK, Cause.HAND_OVER),
    "slow transfer": ("transfer", 0, QUICK, Cause.TRANSFER),
    "worker restart at each epoch": ("restart", 2, QUICK, Cause.START_UP),
    "one slow worker in k": ("straggler", 2, QUICK, Cause.STRAGGLERS),
    "one slow batch in eight": ("every_eighth", 2, QUICK, Cause.STRAGGLERS),
    "too many threads": ("threads", 0, QUICK, Cause.OVER_SUBSCRIPTION),
    "slow accelerator": ("memory", 0, SLOW, Cause.COMPUTE),
    "none": ("nothing", 0, "emulated:6ms", Cause.NONE),
}


def verdict_on(name: str, seed: int) -> Verdict:
    """Judge one loader once, in a process of its own."""
    loader, workers, device, _ = PLANTED[name]
    request = Request(num_workers=workers, shuffle=True, seed=seed)
    subject = Subject(f"{FILE}:{loader}", TIMEOUT_S)
    try:
        found = compare(subject.run, Scenario("glyphs", request, 1, SAMPLES), device, f"{name} {seed}")
    finally:
        subject.close()
    return judge(found)
