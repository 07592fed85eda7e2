"""Interpreters of their own in which a loader is used: how they end, and what they leave."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from loaderproof.suite import family, leftovers
from loaderproof.suite.answers import Ended
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario

MARK = "LOADERPROOF_INTERPRETER"
_GRACE_S = 3.0
_POLL_S = 0.05
_TAIL = 4_000
# A /dev/shm of its own, whose content is told at the end, when helpers have had time to clear it.
_IN_PRIVATE = """\
mount -t tmpfs loaderproof /dev/shm || exit 1
"$@"
for turn in $(seq 30); do [ "$(ls -A /dev/shm)" ] && sleep 0.1; done
ls -A /dev/shm > "$LEFT"
"""
_PRIVATE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _IN_PRIVATE, "sh")


def leave(bench: Workbench, scenario: Scenario, spec: str, limit_s: float) -> Ended:
    """Have a script take two batches and come to its end, with the loader still open."""
    del bench
    ended = run("leave", scenario, spec, limit_s)
    if ended.memory:
        # Entries in shared memory do not tell whose they are, where it is not the script's alone.
        with started("leave", scenario, spec, limit_s, _PRIVATE) as script:
            script.end(limit_s)
            ended.memory = script.in_private_memory()
    return ended


def run(act: str, scenario: Scenario, spec: str, limit_s: float, before: Sequence[str] = ()) -> Ended:
    """Have a script use a loader, and see how it ends; the arguments are those of `started`."""
    memory = leftovers.shared_memory()
    with started(act, scenario, spec, limit_s, before) as script:
        code = script.end(limit_s)
        processes = script.left()
        return Ended(
            code, script.output(), processes, leftovers.ownerless(leftovers.shared_memory() - memory)
        )


@dataclass
class Script:
    """A script that uses a loader.

    Attributes:
        popen: its process.
        mark: in the environment of all its processes.
        folder: for its output, and for the file that says that it is ready.
    """

    popen: subprocess.Popen[bytes]
    mark: str
    folder: Path

    def end(self, limit_s: float) -> int | None:
        """Wait for its end; return its exit code, or None if it is late."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.popen.wait(limit_s + _GRACE_S)
        return None

    def is_ready(self, limit_s: float) -> bool:
        """Wait until it waits to be killed."""
        deadline = time.monotonic() + limit_s
        while not self.ready.exists() and self.popen.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return self.ready.exists()

    @property
    def ready(self) -> Path:
        """The file that says so."""
        return self.folder / "ready"

    def in_private_memory(self) -> list[str]:
        """Return what was left in a /dev/shm of its own; nothing where it could have none."""
        found = self.folder / "left"
        return found.read_text().split() if found.exists() else []

    def output(self) -> str:
        """Return the last that it printed."""
        return (self.folder / "output").read_text(errors="replace")[-_TAIL:].strip() or "(nothing)"

    def left(self, grace_s: float = _GRACE_S) -> list[str]:
        """Return the processes that are still there some time after its end, but for helpers."""
        deadline = time.monotonic() + grace_s
        while (left := self._alive()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return left

    def _alive(self) -> list[str]:
        return [
            f"{one.pid} ({leftovers.command(one)})"
            for one in family.marked(MARK, self.mark)
            if not leftovers.is_helper(one)
        ]

    def kill_all(self) -> None:
        """End all its processes."""
        for one in family.marked(MARK, self.mark):
            with contextlib.suppress(psutil.Error):
                one.kill()
        self.popen.wait()


@contextlib.contextmanager
def started(
    act: str, scenario: Scenario, spec: str, limit_s: float, before: Sequence[str] = ()
) -> Iterator[Script]:
    """Start a script, and end whatever is left of it.

    Args:
        act: what it does, see `leaving`.
        scenario: what it asks the loader for.
        spec: the loader.
        limit_s: after so many seconds it prints its stacks.
        before: words of a command that runs it.
    """
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="loaderproof-") as name:
        folder = Path(name)
        (folder / "asked").write_bytes(pickle.dumps((spec, scenario, limit_s, str(folder / "ready"))))
        with (folder / "asked").open("rb") as asked, (folder / "output").open("wb") as output:
            popen = subprocess.Popen(
                [*before, sys.executable, "-P", "-m", "loaderproof.suite.experiments.leaving", act],
                stdin=asked,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, MARK: mark, "LEFT": str(folder / "left")},
            )
        script = Script(popen, mark, folder)
        try:
            yield script
        finally:
            script.kill_all()
