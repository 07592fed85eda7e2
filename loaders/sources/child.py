"""Work that needs a library which this process must not import: a Python process of its own does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from typing import IO

from loaderproof.loaders.sources.error import SourceError

PROGRAM = "from loaderproof.loaders.sources.child import main; main()"
REFUSED = 3  # exit code of a child that says why
TAIL_LINES = 15
TAIL_BYTES = 4_000


def run(task: str, *arguments: str) -> None:
    """Call a function in a new Python process, and wait for it.

    Args:
        task: `module:function`.
        arguments: what it is called with.

    Raises:
        SourceError: the function raised it, or the process ended in another way than it should.
    """
    # -P: the folder that one happens to stand in is no place to import from.
    command = [sys.executable, "-P", "-c", PROGRAM, task, *arguments]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log) as process:
            answer = process.stdout.read().decode() if process.stdout else ""
            process.wait()  # with its input still open, for the child ends at once when that closes
        if process.returncode == REFUSED:
            raise SourceError(answer)
        if process.returncode:
            msg = f"{task} in its own process {_ending(process.returncode)}; its last lines:\n{_tail(log)}"
            raise SourceError(msg)


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
    return "\n".join(log.read().decode(errors="replace").splitlines()[-TAIL_LINES:])


def main() -> None:
    """Do the child's part: call the function, answer on standard output if it refuses."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # and comes before a traceback
    threading.Thread(target=_end_with_parent, daemon=True).start()
    module, _, function = sys.argv[1].partition(":")
    try:
        getattr(import_module(module), function)(*sys.argv[2:])
    except SourceError as error:
        answer.write(str(error))
        answer.close()
        sys.exit(REFUSED)


def _end_with_parent() -> None:
    """Wait until the parent closes its end, by dying if not otherwise, and end at once."""
    os.read(0, 1)
    os._exit(1)
