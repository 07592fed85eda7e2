"""What becomes of files that others put among those of an adapter; in the process of its loader."""

from __future__ import annotations

import os
import tempfile
import traceback
from pathlib import Path

from loaderproof.loaders.contract import Source
from loaderproof.suite.answers import Among
from loaderproof.suite.experiments.recorder import Recorder
from loaderproof.suite.experiments.watching import length
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.observation import Observation, Scenario

STRAY_FOLDER = ".ckpt"
MOST_COPIED = 1 << 20  # bytes


def open_among_strays(bench: Workbench, scenario: Scenario, kind: str) -> Among:
    """Write the format into a folder of its own, put stray files among it, and watch one epoch.

    Args:
        bench: of an adapter that has a format on disk.
        scenario: what is asked for.
        kind: of strays, `hidden` or `visible`.
    """
    source = bench.fresh_source(scenario)
    with tempfile.TemporaryDirectory(prefix="loaderproof-") as root:
        directory = Path(root, "data")
        directory.mkdir()
        bench.adapter.prepare(source, directory)
        strays = sorted(_scatter(directory, kind))
        try:
            return Among(strays, _watch(bench, scenario, source, directory), "")
        except Exception as raised:  # noqa: BLE001 - any exception will do that names a stray
            told = "".join(traceback.format_exception(raised))
            # Else the traceback would keep the loader, and its workers, until some later collection.
            traceback.clear_frames(raised.__traceback__)
            return Among(strays, None, told)


def _watch(bench: Workbench, scenario: Scenario, source: Source, directory: Path) -> Observation:
    catalogue = bench.catalogue(scenario)
    seen = Observation(scenario, catalogue.labels, source.image_shape, None)
    loader = bench.adapter.open(source, directory, scenario.request)
    try:
        seen.length = length(loader)
        start_epoch(loader, 0)
        seen.epochs.append(Recorder(catalogue, scenario).epoch(0, loader))
    finally:
        close(loader)
    return seen


def _scatter(directory: Path, kind: str) -> set[str]:
    """Put strays into a folder and into all folders in it; return their names."""
    entries = sorted(directory.rglob("*"))
    files = [path for path in entries if path.is_file()]
    folders = [directory, *(path for path in entries if path.is_dir())]
    put = {"hidden": _put_hidden, "visible": _put_visible}[kind]
    return {name for folder in folders if os.access(folder, os.W_OK) for name in put(folder, files)}


def _put_hidden(folder: Path, files: list[Path]) -> list[str]:
    beside = next((file.name for file in files if file.parent == folder), "folder")
    _write(folder / ".DS_Store", b"\0\0\0\1Bud1")
    # macOS puts one beside each file that it copies to a foreign disk.
    _write(folder / f"._{beside}", b"\0\5\x16\7\0\2\0\0Mac OS X")
    # Editors and notebooks keep copies of a folder's files in a hidden folder there.
    (folder / STRAY_FOLDER).mkdir(exist_ok=True)
    for file in [file for file in files if file.stat().st_size <= MOST_COPIED][:1]:
        _write(folder / STRAY_FOLDER / file.name, file.read_bytes())
    return [".DS_Store", f"._{beside}", STRAY_FOLDER]


def _put_visible(folder: Path, files: list[Path]) -> list[str]:
    del files
    _write(folder / "Thumbs.db", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    _write(folder / "notes.txt", b"to do: check the labels\n")
    return ["Thumbs.db", "notes.txt"]


def _write(path: Path, content: bytes) -> None:
    if not path.exists():  # else it is the adapter's own
        path.write_bytes(content)
