"""Starts the ranks of a loader, or joins those of other machines, in the loader's own process.

Ranks on this machine are started by torchrun's own launcher. Where pytest was started by torchrun, this
process is a rank already, and the loader's processes under the other pytests are the others.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import tempfile
import uuid
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, ProcessFailure, Std
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from loaderproof.suite import family
from loaderproof.suite.experiments import ranks
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.fingerprint import Coverage
from loaderproof.suite.identities import Difference
from loaderproof.suite.observation import Scenario
from loaderproof.suite.sharding import Sharded, Step, Trouble, group_size

_POLL_S = 0.02
# To end after SIGTERM; a rank has nothing to save.
_GRACE_S = 1
_TAIL = 8_000


def take(bench: Workbench, scenario: Scenario, spec: str, steps: list[Step]) -> Sharded:
    """Have ranks take some steps.

    Args:
        bench: the adapter.
        scenario: the first step's, which stands for all in reports.
        spec: of the adapter, for the ranks that are started.
        steps: those of the largest world first.
    """
    del scenario
    owed = {step.name: bench.catalogue(step.scenario).coverage for step in steps if step.kind == "cover"}
    for step in steps if bench.own_data else ():
        bench.catalogue(step.scenario)  # gone through now, where there is no group and no rank
    if group_size() > 1:
        return _joined(bench, spec, steps, owed)
    return _launched(spec, steps, owed, bench.first_passes)


def _joined(bench: Workbench, spec: str, steps: list[Step], owed: dict[str, Coverage]) -> Sharded:
    """Be one of the ranks that there are; each of them gets the same answer."""
    outcomes: list[list[Any]] = []
    lost = []
    # In pytest's own process there is somebody at a debugger, who needs time.
    deadly = family.MARK in os.environ
    try:
        outcomes.extend(ranks.walk(bench, steps, owed, f"{spec} {steps[0].scenario}", deadly=deadly))
    except ranks.Lost as error:
        lost = [Trouble(error.step, next(iter(error.ranks), None), str(error))]
    found = Sharded.of(steps, outcomes)
    found.troubles += lost
    return found


def _launched(
    spec: str, steps: list[Step], owed: dict[str, Coverage], first_passes: dict[Any, Any]
) -> Sharded:
    """Start as many ranks as the largest world has, and wait until they have ended."""
    with tempfile.TemporaryDirectory(prefix="loaderproof-", ignore_cleanup_errors=True) as place:
        results = Path(place) / "outcomes"
        results.touch()
        start_method = multiprocessing.get_start_method(allow_none=True)
        orders = ranks.Orders(spec, steps, owed, results, start_method, first_passes)
        failure = _launch(steps[0].world, place, orders)
        found = Sharded.of(steps, outcomes := _unpickled(results))
        if failure:
            step = steps[min(len(outcomes), len(steps) - 1)]
            found.troubles.append(Trouble(step, failure.local_rank, _why(step, failure, Path(place))))
        return found


def _launch(world: int, place: str, orders: ranks.Orders) -> ProcessFailure | None:
    """Run the ranks; return which of them failed first, if one did."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=world,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=_POLL_S,
        start_method="forkserver",
        logs_specs=DefaultLogsSpecs(log_dir=place, redirects=Std.ALL),
        signals_to_handle="SIGTERM",
        shutdown_timeout=_GRACE_S,
    )
    with _undisturbed():
        # A folder called loaderproof where pytest was started must not hide the package.
        os.environ["PYTHONSAFEPATH"] = "1"
        # One server imports torch, and ranks are forked from it. It has done nothing else, so that
        # whatever the libraries of this process hold is not in them.
        multiprocessing.set_forkserver_preload([ranks.__name__])
        forkserver.ensure_running()
        before = {process.pid for process in family.relatives()}
        try:
            elastic_launch(config, ranks.serve)(orders)
        except ChildFailedError as error:
            return error.get_first_failure()[1]
        except SignalException as error:
            # The launcher has caught what was meant for this process, and it is no fault of the loader.
            raise KeyboardInterrupt from error
        finally:
            _sweep(before)
    return None


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put back what the launcher changes in this process, and keep its log to itself: reports say it better."""
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    disabled = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(disabled)
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGTERM, handler)


def _sweep(before: set[int]) -> None:
    """End the processes that ranks left behind; whether loaders leave any is another test's matter."""
    for process in family.relatives():
        if process.pid not in before:
            with contextlib.suppress(psutil.Error):
                process.kill()


def _unpickled(results: Path) -> list[list[Any]]:
    outcomes = []
    with results.open("rb") as file, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            outcomes.append(pickle.load(file))  # noqa: S301 - our own file
    return outcomes


def _why(step: Step, failure: ProcessFailure, place: Path) -> str:
    """Say what became of a rank that failed."""
    logs = place.glob(f"*/attempt_*/{failure.local_rank}/stderr.log")
    tail = "".join(log.read_text(errors="replace") for log in logs)[-_TAIL:].strip() or "(nothing)"
    if "Timeout (" in tail:
        return f"it gave no answer within {step.limit_s:g} s, and stood at\n\n{tail}"
    code = failure.exitcode
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"its process ended with {how}; its last output was\n\n{tail}"


def named(bench: Workbench, scenario: Scenario, images: np.ndarray, labels: np.ndarray) -> Difference:
    """Name the differences between whole data and what came of it on all ranks together."""
    different: Difference = bench.catalogue(scenario).compare(images, labels)
    return different
