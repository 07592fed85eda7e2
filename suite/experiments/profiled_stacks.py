"""The stacks of a loader's process and its workers while it trains, recorded by py-spy."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

from loaderproof.suite.diagnosis.pyspy import refusal, tool
from loaderproof.suite.diagnosis.recordings import Recording
from loaderproof.suite.experiments.profiled import training
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario

# From linux/prctl.h.
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
# For py-spy to write down what it has, when its time is over.
_GRACE_S = 30.0


def record(bench: Workbench, scenario: Scenario, device: str, seconds: int, rate: int) -> Recording:
    """Train for some seconds, with py-spy beside it.

    Args:
        bench: of the loader.
        scenario: what it is asked for.
        device: accelerator, as `--loader-device` takes it.
        seconds: how long py-spy samples; it takes whole ones.
        rate: samples in a second.
    """
    _let_others_look()
    os.register_at_fork(after_in_child=_let_others_look)
    with (
        tempfile.TemporaryDirectory(prefix="loaderproof-") as folder,
        training(bench, scenario, device) as run,
    ):
        raw, said = Path(folder) / "stacks", Path(folder) / "said"
        with said.open("wb") as messages:
            spy = subprocess.Popen(_command(raw, seconds, rate), stdout=messages, stderr=messages)
        try:
            run.until(lambda: spy.poll() is not None)
            spy.wait(seconds + _GRACE_S)
        finally:
            spy.kill()
            spy.wait()
        recorded = raw.read_text(errors="replace") if raw.exists() else ""
        why = "" if recorded else refusal(os.getpid())
        words = why or said.read_text(errors="replace")
        return Recording(recorded, words, os.getpid(), rate, run.steps, run.device.name)


def _command(raw: Path, seconds: int, rate: int) -> list[str]:
    return [
        *(tool() or "py-spy", "record", "--pid", str(os.getpid())),
        # Threads that wait are what shows a bottleneck that lies elsewhere.
        *("--subprocesses", "--idle", "--threads", "--full-filenames"),
        *("--duration", str(seconds), "--rate", str(rate), "--format", "raw", "--output", str(raw)),
    ]


def _let_others_look() -> None:
    """Let py-spy, a child, look at this process, where Yama lets only parents do so.

    Source: https://docs.kernel.org/admin-guide/LSM/Yama.html. Kernels without it answer with an error.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)
