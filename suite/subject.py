"""A loader's own process, the suite's side: starts it, asks it, and survives whatever it does."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import IO, Any, cast

from loaderproof.suite.family import Family
from loaderproof.suite.home import Home

OUTPUT_LIMIT = 32 * 2**20
_TAIL = 24 * 2**10
_GRACE_S = 5.0
_GLANCE_S = 0.2


class SubjectError(Exception):
    """The loader gave no answer; the text says what it did instead."""


class Raised(SubjectError):
    """The loader raised an exception.

    Attributes:
        type: qualified name of the exception's class.
        message: its text.
        traceback: as Python prints it, with the causes.
    """

    def __init__(self, type: str, message: str, traceback: str) -> None:  # noqa: A002 - as it is called there
        super().__init__(f"the loader raised {type}: {message}\n\n{traceback}")
        self.type, self.message, self.traceback = type, message, traceback

    @property
    def plain(self) -> str:
        """What to tell a person: our own errors explain themselves, all others need their traceback."""
        return self.message if self.type.startswith("loaderproof.") else str(self)


class Died(SubjectError):
    """The loader's process ended in the middle of an experiment."""


class Hung(SubjectError):
    """The loader did not answer in time."""


class Flooded(SubjectError):
    """The loader printed without end."""


@dataclass(frozen=True)
class Limit:
    """How long an experiment may take.

    Attributes:
        timeout_s: the time-out of a small one.
        times: how many of them.
    """

    timeout_s: float
    times: float

    @property
    def seconds(self) -> float:
        """The seconds."""
        return self.timeout_s * self.times

    def __str__(self) -> str:
        """Say how the seconds come from the option."""
        how = f", {self.times:g} times --loader-timeout, as this takes longer" if self.times != 1 else ""
        return f"{self.seconds:g} s{how}"


class Subject:
    """One adapter in a process of its own, which is started when first asked.

    Args:
        spec: built-in name, `module:attr` or `path.py:attr`.
        timeout_s: the longest that one experiment may take.
        home: where its code comes from, if not from where this run's does.
    """

    def __init__(self, spec: str, timeout_s: float, home: Home | None = None) -> None:
        self.spec = spec
        self._timeout_s = timeout_s
        self._home = home or Home()
        self._process: _Process | None = None

    def run(self, experiment: str, *, times: float = 1, **arguments: object) -> Any:
        """Run `module:function` of this package in the loader's process and return its result.

        Args:
            experiment: the function; called with the workbench and the arguments.
            times: how many time-outs the experiment may take.
            arguments: plain data.

        Raises:
            SubjectError: the loader raised, died, hung or flooded its output. After the last
                three the process is gone, and the next experiment gets a new one.
        """
        self._process = self._process or _Process(self.spec, self._home)
        try:
            return self._process.ask(experiment, arguments, Limit(self._timeout_s, times))
        except Raised:
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process and everything that it started."""
        if self._process:
            self._process.end()
            self._process = None


class _Process:
    def __init__(self, spec: str, home: Home) -> None:
        self._family = Family()
        self._connection, theirs = Pipe()
        lifeline, self._lifeline = os.pipe()
        self._popen = subprocess.Popen(
            [
                home.python,
                "-P",  # a folder called loaderproof where pytest was started must not hide the package
                "-m",
                "loaderproof.suite.worker",
                str(theirs.fileno()),
                str(lifeline),
                spec,
            ],
            pass_fds=(theirs.fileno(), lifeline),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=self._family.environment | home.environment,
        )
        theirs.close()
        os.close(lifeline)
        self._output = _Output(self._popen)

    def ask(self, experiment: str, arguments: dict[str, object], limit: Limit) -> Any:
        try:
            self._connection.send((experiment, arguments))
            self._wait(limit)
            good, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._why_gone() from error
        if good:
            return answer
        raise Raised(**answer)

    def _wait(self, limit: Limit) -> None:
        """Wait for the answer.

        Raises:
            EOFError: there will be none. A process that the loader forked holds the connection
                open, so its end alone does not tell.
            Hung: time is up.
        """
        deadline = time.monotonic() + limit.seconds
        while not self._connection.poll(min(max(deadline - time.monotonic(), 0), _GLANCE_S)):
            if self._popen.poll() is not None and not self._connection.poll():
                raise EOFError
            if time.monotonic() >= deadline:
                raise Hung(self._why_hung(limit))

    def end(self) -> None:
        self._family.end()
        self._popen.wait()
        self._output.join()
        self._connection.close()
        os.close(self._lifeline)

    def _why_gone(self) -> SubjectError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_GRACE_S)
        code = self._popen.returncode
        self._family.kill()
        self._output.join()
        if self._output.flooded:
            return Flooded(
                f"the loader printed more than {OUTPUT_LIMIT >> 20} MiB and was stopped; it began with\n\n"
                f"{self._output.head}"
            )
        return Died(f"{_end_of_process(code)}; its last output was\n\n{self._output.tail()}")

    def _why_hung(self, limit: Limit) -> str:
        before = self._output.count
        self._family.print_stacks(self._output.note)
        stacks = self._output.tail(since=before)
        return (
            f"the loader gave no answer within {limit}.{_step(stacks)} If it is only slow, allow more with"
            f" --loader-timeout. Every thread stood at\n\n{stacks}"
        )


# Functions of the suite, and what it waits for in them; the first that is found in the stacks counts.
_STEPS = {
    ("workbench.py", "close"): "it was being closed",
    ("workbench.py", "open"): "it was being opened",
    ("workbench.py", "start_epoch"): "it was told which epoch comes",
    ("workbench.py", "_write"): "its data were being prepared",
    ("workbench.py", "ending"): "it was asked for a batch, or for the end of an epoch",
    ("recorder.py", "batches"): "it was asked for a batch, or for the end of an epoch",
}


def _step(stacks: str) -> str:
    """Say in which step a loader stood, as far as its stacks tell."""
    for (file, function), step in _STEPS.items():
        if re.search(rf'suite/experiments/{re.escape(file)}", line \d+ in {function}$', stacks, re.MULTILINE):
            return f" It did not return when {step}."
    return ""


def _end_of_process(code: int | None) -> str:
    if code is None:
        return "the loader's process closed the suite's connection to it, which is no file of the loader's"
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"the loader's process ended with {how}"


class _Output:
    """Reads what a process prints, keeps both ends of it, and stops a process that floods."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._head = b""
        self._tail = b""
        self.count = 0
        self.flooded = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def head(self) -> str:
        return self._head.decode(errors="replace")

    def tail(self, since: int = 0) -> str:
        """Return the last of the output, or what came of it since so many bytes."""
        kept = self._tail[-max(self.count - since, 0) :] if since < self.count else b""
        return kept.decode(errors="replace").strip() or "(nothing)"

    def note(self, text: str) -> None:
        self._add(text.encode())

    def join(self) -> None:
        self._thread.join(_GRACE_S)

    def _read(self) -> None:
        stream = cast("IO[bytes]", self._popen.stdout)
        with stream:
            for chunk in iter(lambda: os.read(stream.fileno(), 2**16), b""):
                self._add(chunk)
                if self.count > OUTPUT_LIMIT and not self.flooded:
                    self.flooded = True
                    self._popen.kill()

    def _add(self, chunk: bytes) -> None:
        self.count += len(chunk)
        self._head = self._head + chunk[: 400 - len(self._head)] if len(self._head) < 400 else self._head
        self._tail = (self._tail + chunk)[-_TAIL:]


class InPlace:
    """An adapter in this process, for debuggers; the same interface as `Subject`."""

    def __init__(self, spec: str, timeout_s: float) -> None:
        del timeout_s
        self.spec = spec
        self._bench: Any = None

    def run(self, experiment: str, *, times: float = 1, **arguments: object) -> Any:
        """Run the experiment here; whatever the loader raises goes through."""
        del times
        worker = importlib.import_module("loaderproof.suite.worker")
        self._bench = self._bench or worker.Workbench(self.spec)
        return worker.experiment(experiment)(self._bench, **arguments)

    def close(self) -> None:
        """Remove what the adapter wrote."""
        if self._bench:
            self._bench.close()
            self._bench = None
