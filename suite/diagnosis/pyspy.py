"""py-spy, which reads the stacks of other processes: where it is, and what to do where it may not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

NOT_INSTALLED = "py-spy is not installed: pip install 'loaderproof[profile]'"
REFUSED = (
    "py-spy was refused the right to read this process (ptrace): in a container start it with --cap-add SYS_PTRACE,"
    " elsewhere run as root or allow it with sudo sysctl kernel.yama.ptrace_scope=0"
)
# What py-spy, and the kernel through it, say to that; its Docker advice names the capability.
_REFUSALS = ("permission denied", "operation not permitted", "sys_ptrace")
# A look at one process takes a fraction of a second, unless the kernel holds that process.
_DUMP_S = 5.0


def tool() -> str | None:
    """Return the path of py-spy, on PATH or beside this Python; None where it is not installed."""
    # An environment that was not activated is not on PATH.
    beside = os.fspath(Path(sys.executable).parent)
    return shutil.which("py-spy", path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside]))


def trouble(said: str) -> str:
    """Return one sentence for a person about a run of py-spy that came to nothing.

    Args:
        said: what it printed to stderr.
    """
    if any(refusal in said.lower() for refusal in _REFUSALS):
        return REFUSED
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = next(
        (line for line in lines if line.startswith("Error")), lines[-1] if lines else "it said nothing"
    )
    return f"py-spy recorded nothing: {why.removeprefix('Error: ')}"


def refusal(pid: int) -> str:
    """Return what py-spy says against looking at one process; empty if it does so.

    A recording of subprocesses says only that it found no Python, whatever the reason.
    """
    try:
        done = subprocess.run(
            [tool() or "py-spy", "dump", "--pid", str(pid)], capture_output=True, check=False, timeout=_DUMP_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"Error: {error}"
    return done.stderr.decode(errors="replace") if done.returncode else ""


def stacks_of(pid: int) -> str | None:
    """Return where every thread of a process stands, in the form of Python's faulthandler.

    Args:
        pid: of a Python process.

    Returns:
        None where py-spy is not installed, is refused, or finds no Python in the process.
    """
    spy = tool()
    if spy is None:
        return None
    command = [spy, "dump", "--json", "--full-filenames", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_DUMP_S)
        threads = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return "\n".join(_thread(one) for one in threads) or None


def _thread(seen: dict[str, object]) -> str:
    name = f" ({seen['thread_name']})" if seen.get("thread_name") else ""
    frames = seen.get("frames")
    lines = [
        # Like faulthandler it names functions without their class.
        f'  File "{frame["filename"]}", line {frame["line"]} in {frame["name"].rpartition(".")[2]}'
        for frame in (frames if isinstance(frames, list) else [])
    ]
    return "\n".join([f"Thread {seen.get('os_thread_id')}{name} (most recent call first):", *lines])
