"""On which machine, and with what, a figure was measured."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from loaderproof.suite.diagnosis.cores import cores

Fingerprint = Mapping[str, str | int | float]

# The first distribution that is installed tells the version; TensorFlow has several.
_LIBRARIES = {
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "tensorflow-datasets": ("tensorflow-datasets",),
    "numpy": ("numpy",),
    "pytest-benchmark": ("pytest-benchmark",),
    "loaderproof": ("loaderproof",),
}
# loaderproof's adapters are what is gated, and pytest-benchmark keeps figures that it does not make.
NO_OTHER_MACHINE = frozenset({"loaderproof", "pytest-benchmark"})
MEMORY = "memory in GiB"
# A kernel keeps some memory for itself, and another start of the same machine keeps another share.
_MEMORY_TOLERANCE = 0.05
_CARDS = Path("/proc/driver/nvidia/gpus")
_DRIVER_PATIENCE_S = 20


@cache
def fingerprint() -> dict[str, str | int | float]:
    """Return what tells this machine and its software from others; plain data, texts for people.

    What is not installed, or not there, is an empty text. The versions are those of this process.
    """
    allowed = cores(own=Path(os.devnull))
    return {
        "cpu": _cpu(),
        "architecture": platform.machine(),
        "cores": int(allowed),
        "cores by quota": cores(),
        MEMORY: round(_memory_bytes() / 2**30, 1),
        "gpus": ", ".join(_gpus()),
        "kernel": " ".join([platform.system(), _release(platform.release())]),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: _version(distributions) for name, distributions in _LIBRARIES.items()},
    }


def differences(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """Return in words what makes another machine of theirs; none if figures may be compared.

    All that `fingerprint` tells counts, but for `NO_OTHER_MACHINE`, and memory that is within 5 %.

    Args:
        ours: of this run.
        theirs: of another one.
    """
    return in_words(ours, theirs, sorted(_unequal(ours, theirs) - NO_OTHER_MACHINE))


def remarks(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """Return in words what differs and does not count; see `differences`."""
    return in_words(ours, theirs, sorted(_unequal(ours, theirs) & NO_OTHER_MACHINE))


def in_words(ours: Mapping[str, object], theirs: Mapping[str, object], names: Iterable[str]) -> list[str]:
    """Return a phrase for each value that differs, such as `cores: 4 there, 2 here`."""
    return [f"{name}: {_shown(theirs.get(name))} there, {_shown(ours.get(name))} here" for name in names]


def _shown(value: object) -> str:
    return "not told" if value is None else str(value) or "none"


def _unequal(ours: Fingerprint, theirs: Fingerprint) -> set[str]:
    return {name for name in {*ours, *theirs} if not _same(name, ours.get(name), theirs.get(name))}


def _same(name: str, one: object, other: object) -> bool:
    if name == MEMORY and isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_MEMORY_TOLERANCE)
    return one == other


def _cpu() -> str:
    """Return the model; a virtual machine may hide the name, so with the numbers behind it."""
    import cpuinfo  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with pytest-benchmark; a run without a gate needs none

    told = cpuinfo.get_cpu_info()
    numbers = [f"{part} {told[part]}" for part in ("family", "model", "stepping") if part in told]
    return ", ".join([told.get("brand_raw") or platform.processor() or "unknown", *numbers])


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # no such figure on this system
        return 0


def _gpus() -> list[str]:
    """Return the names of NVIDIA's GPUs, without asking torch, which would take hold of them."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DRIVER_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return _cards()
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _cards(folder: Path = _CARDS) -> list[str]:
    told = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/information"))]
    return [name.strip() for text in told for name in re.findall(r"^Model:(.*)$", text, re.MULTILINE)]


def _release(text: str) -> str:
    return ".".join(re.findall(r"\d+", text)[:2])


def _version(distributions: Iterable[str]) -> str:
    for place, name in enumerate(distributions):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return f"{version} ({name})" if place else version
    return ""
