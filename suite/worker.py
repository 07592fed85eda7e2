"""A loader's own process, the loader's side: takes experiments, runs them, sends what came out.

Started by `subject.py` as `python -m loaderproof.suite.worker`.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import importlib
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from loaderproof.suite.experiments.workbench import Workbench


def main(connection_fd: int, lifeline_fd: int, spec: str) -> None:
    """Serve one adapter until the suite hangs up."""
    _die_with(lifeline_fd)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    connection = Connection(connection_fd)
    bench: Workbench | None = None
    while True:
        try:
            path, arguments = connection.recv()
        except EOFError:
            break
        raised = False
        try:
            bench = bench or Workbench(spec)
            connection.send((True, experiment(path)(bench, **arguments)))
        except BaseException as error:  # noqa: BLE001 - whatever a loader raises is a finding, SystemExit too
            connection.send((False, _told(error)))
            raised = True
        if raised:
            # A loader that a traceback still holds must not be alive when the next one forks its workers.
            gc.collect()
    if bench:
        bench.close()


def experiment(path: str) -> Any:
    """Return the function behind `module:function` of this package."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"loaderproof.suite.experiments.{module}"), name)


def _told(error: BaseException) -> dict[str, str]:
    return {
        "type": f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins."),
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


def _die_with(lifeline_fd: int) -> None:
    """Have the kernel kill this process and all its children once the suite is gone.

    The suite holds the other end of the lifeline and never writes. A thread that waits for the
    end of file could not act while a loader holds the interpreter's lock; a signal can.
    """
    if not hasattr(fcntl, "F_SETSIG"):
        return
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, fcntl.fcntl(lifeline_fd, fcntl.F_GETFL) | os.O_ASYNC)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
