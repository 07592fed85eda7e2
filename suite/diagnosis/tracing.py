"""What a trace of torch says, for a person."""

from __future__ import annotations

from pathlib import Path

from loaderproof.suite.diagnosis.recordings import UNSEEN, Trace


def report(trace: Trace, *, workers: int, file: Path) -> str:
    """Return the operations that took longest, and what cannot be seen.

    Args:
        trace: of some steps.
        workers: of the loader.
        file: with the trace.
    """
    on_device = any(one.self_device_us for one in trace.operations)
    heads = ["CPU ms a step", *(["device ms a step"] if on_device else []), "calls a step", "operation"]
    rows = [heads]
    for one in trace.operations:
        times = [one.self_cpu_us, *([one.self_device_us] if on_device else [])]
        rows.append(
            [
                *(f"{time / 1e3 / trace.steps:.3f}" for time in times),
                f"{one.calls / trace.steps:.1f}",
                one.name,
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads) - 1)]
    lines = ["  ".join([*map(str.rjust, row, widths), row[-1]]) for row in rows]
    unseen = f"{UNSEEN} This loader has {workers}; `--loader-profile stacks` sees them." if workers else ""
    return "\n".join(
        [
            f"{trace.steps} steps on {trace.device}; times of each operation without those that it called",
            "",
            *lines,
            "",
            *([unseen] if unseen else []),
            f"file: {file} (open it at https://ui.perfetto.dev or chrome://tracing)",
        ]
    )
