"""Figures of earlier runs, to compare with: in pytest-benchmark's own storage, or in a file of it.

Such a file holds a record for each loader that was gated. It is read as data only, and whatever in it
cannot be trusted is refused: a baseline that means something else would let anything pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loaderproof.suite import environment
from loaderproof.suite.gate.record import Record, Unusable, of_type, parse, text

__all__ = ["Record", "Unusable", "folder", "keep_out", "newest", "of_file", "read"]

# The record's name within `extra_info` of a benchmark.
KEY = "gate"
_LARGEST_BYTES = 64 * 2**20
_REASONS_SHOWN = 3
_RECORD = "Record a baseline on this machine: --loader-against nothing --benchmark-save=base"
_ACCEPT = ", or accept one of another machine: --loader-gate-machine=any"


def labels(path: Path) -> dict[str, Any]:
    """Return the records of a file of pytest-benchmark by the loaders' labels, none of them checked yet.

    Raises:
        Unusable: the file cannot be read, or is none of pytest-benchmark.
    """
    data = of_type(_json(path), dict, "the whole")
    found: dict[str, Any] = {}
    for benchmark in of_type(data.get("benchmarks"), list, "its list of benchmarks"):
        extra = benchmark.get("extra_info") if isinstance(benchmark, dict) else None
        record = extra.get(KEY) if isinstance(extra, dict) else None
        if isinstance(record, dict):
            label = text(record.get("loader"), "the label of a loader")
            if label in found:
                msg = f"it holds two records of {label}"
                raise Unusable(msg)
            found[label] = record
    return found


def _json(path: Path) -> object:
    try:
        if not path.is_file():
            msg = "there is no such file"
            raise Unusable(msg)
        with path.open("rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
        if len(raw) > _LARGEST_BYTES:
            msg = f"it is larger than {_LARGEST_BYTES // 2**20} MiB"
            raise Unusable(msg)
        return json.loads(raw)
    except OSError as error:
        msg = f"it cannot be read: {error.strerror}"
        raise Unusable(msg) from None
    except (ValueError, RecursionError):
        msg = "it is no JSON, or was cut off while it was written"
        raise Unusable(msg) from None


def read(path: Path) -> dict[str, Record]:
    """Return all records of a file of pytest-benchmark by the loaders' labels.

    Raises:
        Unusable: it has none, or one of them may not be a baseline.
    """
    found = labels(path)
    if not found:
        msg = "it holds no record of a gate"
        raise Unusable(msg)
    return {label: parse(data) for label, data in found.items()}


def _fitting(path: Path, ours: Record, *, any_machine: bool) -> Record:
    """Return the record of the same loader; see `of_file`."""
    found = labels(path)
    if ours.loader not in found:
        held = f"it has {', '.join(found)}" if found else "it has none of a gate"
        msg = f"no record of {ours.loader}; {held}"
        raise Unusable(msg)
    record = parse(found[ours.loader])
    # Before anything is measured, only that is not known yet.
    work = _unequal(ours.work, record.work) + _unmeasured(ours, record) if ours.to_ceiling else []
    machine = environment.differences(ours.environment, record.environment)
    if work or (machine and not any_machine):
        told = [f"of unequal work ({'; '.join(work)})"] if work else []
        told += [f"of another machine ({'; '.join(machine)})"] if machine else []
        raise Unusable(" and ".join(told), elsewhere=not work)
    shown = machine + environment.remarks(ours.environment, record.environment)
    return replace(record, source=f"{path.name} ({'; '.join(shown)})" if shown else path.name)


def _unequal(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    return environment.in_words(ours, theirs, names)


def _unmeasured(ours: Record, theirs: Record) -> list[str]:
    there, here = set(theirs.to_ceiling), set(ours.to_ceiling)
    return [f"{name}: not measured there" for name in sorted(here - there)] + [
        f"{name}: not measured here" for name in sorted(there - here)
    ]


def of_file(path: Path, ours: Record, *, any_machine: bool = False) -> Record:
    """Return the record in a result file to compare with.

    Args:
        path: a file of pytest-benchmark.
        ours: what this run measured; loader, work, measures and machine must be the same. If it has measured
            nothing yet, loader and machine.
        any_machine: whether it may be of another machine.

    Raises:
        Unusable: there is none; says what is in the way, and what to do.
    """
    try:
        return _fitting(path, ours, any_machine=any_machine)
    except Unusable as error:
        msg = f"{path} cannot be compared with: {error}. {_remedy(elsewhere=error.elsewhere)}"
        raise Unusable(msg, elsewhere=error.elsewhere) from None


def newest(storage: Path, ours: Record, *, any_machine: bool = False) -> Record:
    """Return the newest record in pytest-benchmark's storage that can be compared with.

    Args:
        storage: see `folder`.
        ours: see `of_file`.
        any_machine: whether it may be of another machine; those of this kind come first.

    Raises:
        Unusable: there is none; says what is in the way, and what to do.
    """
    refused: dict[str, Unusable] = {}
    for path in _newest_first(storage):
        try:
            return _fitting(path, ours, any_machine=any_machine)
        except Unusable as error:
            refused[f"{path.parent.name}/{path.name}"] = error
    elsewhere = any(error.elsewhere for error in refused.values())
    told = [f"{name}: {error}" for name, error in refused.items()]
    more = [f"and {len(told) - _REASONS_SHOWN} older ones"] if len(told) > _REASONS_SHOWN else []
    why = "; ".join(told[:_REASONS_SHOWN] + more) or "no run was saved"
    msg = f"no run in {storage} can be compared with. {why}. {_remedy(elsewhere=elsewhere)}"
    raise Unusable(msg, elsewhere=elsewhere)


def _remedy(*, elsewhere: bool) -> str:
    return _RECORD + (_ACCEPT if elsewhere else "")


def _newest_first(storage: Path) -> list[Path]:
    """Return the stored runs as pytest-benchmark numbers them, those of this kind of machine first."""
    from pytest_benchmark.storage.file import FileStorage  # noqa: PLC0415 - a run without a gate needs none
    from pytest_benchmark.utils import get_machine_id  # noqa: PLC0415

    own = get_machine_id()  # type: ignore[no-untyped-call]
    files = FileStorage(storage, logger=None).query("*/[0-9][0-9][0-9][0-9]_")  # type: ignore[no-untyped-call]
    return sorted(files, key=lambda path: (path.parent.name == own, path.name), reverse=True)


def folder(config: pytest.Config) -> Path:
    """Return pytest-benchmark's storage.

    Raises:
        Unusable: it is none of files.
    """
    benchmarks = config.pluginmanager.get_plugin("pytest-benchmark")
    path = getattr(getattr(benchmarks, "storage", None), "path", None)
    if path is None:
        msg = "stored runs are read from files alone: give --benchmark-storage a folder"
        raise Unusable(msg)
    return Path(path)


def keep_out(config: pytest.Config) -> str:
    """Keep a run whose gate did not pass from becoming a baseline; its `--benchmark-json` is still written.

    To be called before pytest-benchmark's own `pytest_sessionfinish` saves.

    Returns:
        A sentence about it, or an empty text where nothing was to be saved.
    """
    benchmarks = config.pluginmanager.get_plugin("pytest-benchmark")
    if benchmarks is None or not (benchmarks.save or benchmarks.autosave):
        return ""
    benchmarks.save = benchmarks.autosave = None
    return (
        "pytest-benchmark was told to save nothing of this run: it did not pass, and so it must not become the"
        " baseline of the next one. A file of --benchmark-json is still written."
    )
