"""MNIST and Fashion-MNIST: from Debian's packages, else downloaded, and kept in the cache."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources import child, idx
from loaderproof.loaders.sources.arrays import read_arrays, write_arrays
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.store import cache_root, keep


@dataclass(frozen=True)
class Known:
    """What is known of a data set.

    Attributes:
        torchvision: its class in `torchvision.datasets`.
        checksums: MD5 of each file's content, not gzipped.
    """

    torchvision: str
    checksums: dict[str, str]


KNOWN = {
    "mnist": Known(
        "MNIST",
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "fashion-mnist": Known(
        "FashionMNIST",
        {
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
}
CLASSES = 10
DEBIAN = Path("/usr/share/datasets")  # where dataset-fashion-mnist and its like put their files
PATIENCE_SECONDS = 60.0


def load(name: str, rest: str) -> dict[str, Source]:
    """Return the source of each split of `mnist` or `fashion-mnist`.

    Args:
        name: which of them.
        rest: a folder that holds its four files, if they are not to be looked for.

    Raises:
        SourceError: the folder does not hold them, or they cannot be had.
    """
    given = Path(rest).expanduser() if rest else DEBIAN / name
    if rest and not _is_complete(given):
        msg = f"{given} does not hold the four files of {name}: {', '.join(KNOWN[name].checksums)}, gzipped or not"
        raise SourceError(msg)
    target = cache_root() / "sources" / name
    return keep(target, partial(_write, name, given), partial(read_arrays, name=name))


def _write(name: str, given: Path, directory: Path) -> None:
    raw = given if _is_complete(given) else _fetch(name, directory / "download")
    write_arrays(directory, idx.read_folder(raw, name, CLASSES, KNOWN[name].checksums))
    shutil.rmtree(directory / "download", ignore_errors=True)


def _is_complete(directory: Path) -> bool:
    return all(idx.find(directory, split, part) for split in idx.PREFIXES for part in idx.DIMENSIONS)


def _fetch(name: str, directory: Path) -> Path:
    # In another process, for torchvision brings torch along, and a download may hang.
    child.run(f"{__name__}:download", name, str(directory))
    return directory / KNOWN[name].torchvision / "raw"


def download(name: str, directory: str) -> None:
    """Download a data set through torchvision, which checks what it gets.

    Args:
        name: `mnist` or `fashion-mnist`.
        directory: where torchvision makes its folders.

    Raises:
        SourceError: torchvision is not installed, or the files could not be had.
    """
    elsewhere = f"or give idx:DIR if you have the files elsewhere; Debian has them as dataset-{name}"
    try:
        from torchvision import datasets
    except ModuleNotFoundError as error:
        msg = (
            f"downloading {name} takes torchvision ({error}): pip install 'loaderproof[vision]'; {elsewhere}"
        )
        raise SourceError(msg) from error
    socket.setdefaulttimeout(PATIENCE_SECONDS)
    try:
        getattr(datasets, KNOWN[name].torchvision)(directory, download=True)
    except (OSError, RuntimeError) as error:
        msg = f"{name} could not be downloaded: {' '.join(str(error).split())}; try again, {elsewhere}"
        raise SourceError(msg) from error
