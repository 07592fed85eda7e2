import gc
import gzip
import hashlib
import os
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from loaderproof.loaders import sources
from loaderproof.loaders.sources import SourceError, mnist

NAMES = tuple(mnist.KNOWN["fashion-mnist"].checksums)
IMAGES = NAMES[0]
LEAVES_RESPONSES_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def md5(data):
    """Return a checksum."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def encode(array):
    """Return an array of bytes in MNIST's format."""
    array = np.asarray(array, np.uint8)
    return struct.pack(f">{array.ndim + 1}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def content(monkeypatch, tmp_path):
    """Four tiny files that pass for Fashion-MNIST, and neither a cache nor Debian's package."""
    pixels = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
    parts = (pixels[:2], [9, 0], pixels[2:], [5])
    files = dict(zip(NAMES, map(encode, parts), strict=True))
    known = mnist.Known("FashionMNIST", {name: md5(data) for name, data in files.items()})
    monkeypatch.setitem(mnist.KNOWN, "fashion-mnist", known)
    monkeypatch.setattr(mnist, "DEBIAN", tmp_path / "debian")
    monkeypatch.setenv("LOADERPROOF_CACHE", str(tmp_path / "cache"))
    return files


@pytest.fixture
def debian(content, tmp_path):
    """The files as Debian's package has them."""
    folder = tmp_path / "debian" / "fashion-mnist"
    folder.mkdir(parents=True)
    for name, data in content.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(data))
    return folder


class Mirror(BaseHTTPRequestHandler):
    """Serves what `server.files` holds, cut off or not at all where the test says so."""

    def do_GET(self):
        name = self.path.strip("/")
        self.server.asked.append(name)
        if name in self.server.missing:
            self.send_error(404)
            return
        if name in self.server.silent:
            self.server.over.wait(10)
            return
        data = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:-20] if name in self.server.cut_off else data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def mirror(content, monkeypatch):
    """A server on this machine that torchvision downloads from, in this process for once."""
    datasets = pytest.importorskip("torchvision.datasets", exc_type=ImportError)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.files = {f"{name}.gz": gzip.compress(data) for name, data in content.items()}
    server.asked, server.over = [], threading.Event()
    server.missing, server.silent, server.cut_off = set(), set(), set()
    monkeypatch.setattr(datasets.FashionMNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
    resources = [(name, md5(data)) for name, data in server.files.items()]
    monkeypatch.setattr(datasets.FashionMNIST, "resources", resources)
    monkeypatch.setattr(mnist.child, "run", lambda _, *arguments: mnist.download(*arguments))
    before = socket.getdefaulttimeout()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    socket.setdefaulttimeout(before)
    gc.collect()  # torchvision leaves responses open; their warnings belong to this test


def test_debian_has_it(debian):
    """Where Debian's package is installed, its files are read, and nothing is downloaded."""
    read = sources.load("fashion-mnist")
    assert [("fashion-mnist/train", 2, 10), ("fashion-mnist/test", 1, 10)] == [
        (source.name, len(source), source.num_classes) for source in read.values()
    ]
    assert [9, 0] == read["train"].labels.tolist()


def test_the_cache_has_it_the_second_time(debian):
    """Once read, the files are not needed any more."""
    expected = sources.load("fashion-mnist")["train"].fingerprint
    for path in debian.iterdir():
        path.unlink()
    assert expected == sources.load("fashion-mnist")["train"].fingerprint


def test_a_changed_file_is_refused(debian, content):
    """A file in the right form, but with another checksum than the original, is named; nothing is kept."""
    changed = bytearray(content[IMAGES])
    changed[-1] ^= 1
    path = debian / f"{IMAGES}.gz"
    path.write_bytes(gzip.compress(changed))
    message = f"{re.escape(str(path))}' has another checksum .*{md5(changed)}.*{md5(content[IMAGES])}"
    with pytest.raises(SourceError, match=message):
        sources.load("fashion-mnist")
    assert [] == list(Path(os.environ["LOADERPROOF_CACHE"], "sources").iterdir())


@LEAVES_RESPONSES_OPEN
def test_it_is_downloaded_once(mirror):
    """Without a package, torchvision downloads the four files; afterwards they are in the cache."""
    assert [9, 0] == sources.load("fashion-mnist")["train"].labels.tolist()
    assert set(mirror.files) == set(mirror.asked)
    mirror.asked.clear()
    assert [5] == sources.load("fashion-mnist")["test"].labels.tolist()
    assert [] == mirror.asked
    kept = {path.name for path in Path(os.environ["LOADERPROOF_CACHE"], "sources", "fashion-mnist").iterdir()}
    assert "download" not in kept


def other_content(server):
    """Have the server send another file than it should."""
    server.files[f"{IMAGES}.gz"] = gzip.compress(b"something else")


@pytest.mark.parametrize(
    ("disturb", "message"),
    [
        (other_content, "not found or corrupted"),
        (lambda server: server.cut_off.add(f"{IMAGES}.gz"), "not found or corrupted"),
        (lambda server: server.missing.add(f"{IMAGES}.gz"), "HTTP Error 404"),
        (lambda server: server.silent.add(f"{IMAGES}.gz"), "timed out"),
    ],
    ids=["checksum", "truncated", "missing", "silent"],
)
@LEAVES_RESPONSES_OPEN
def test_a_failed_download_is_reported(mirror, monkeypatch, disturb, message):
    """The message says what happened and what else can be done, and nothing is kept."""
    monkeypatch.setattr(mnist, "PATIENCE_SECONDS", 0.3)
    disturb(mirror)
    remedy = "or give idx:DIR if you have the files elsewhere; Debian has them as dataset-fashion-mnist"
    with pytest.raises(
        SourceError, match=f"fashion-mnist could not be downloaded: .*{message}.*; try again, {remedy}"
    ):
        sources.load("fashion-mnist")
    assert [] == list(Path(os.environ["LOADERPROOF_CACHE"], "sources").iterdir())


def test_a_missing_torchvision_is_named(content, monkeypatch, tmp_path):
    """Downloading takes an extra, and the message says which."""
    blocked = tmp_path / "blocked" / "torchvision.py"
    blocked.parent.mkdir()
    blocked.write_text("raise ModuleNotFoundError(\"No module named 'torchvision'\", name='torchvision')")
    monkeypatch.setenv("PYTHONPATH", str(blocked.parent))
    with pytest.raises(SourceError, match=r"takes torchvision .*: pip install 'loaderproof\[vision\]'"):
        sources.load("fashion-mnist")


@pytest.mark.parametrize("name", mnist.KNOWN)
def test_torchvision_has_files_of_these_names(name):
    """What is checked after a download is what torchvision downloads."""
    datasets = pytest.importorskip("torchvision.datasets", exc_type=ImportError)
    resources = getattr(datasets, mnist.KNOWN[name].torchvision).resources
    assert sorted(mnist.KNOWN[name].checksums) == sorted(file.removesuffix(".gz") for file, _ in resources)


@pytest.mark.skipif(not (mnist.DEBIAN / "fashion-mnist").is_dir(), reason="needs dataset-fashion-mnist")
def test_the_whole_of_fashion_mnist(monkeypatch, tmp_path):
    """Debian's package holds the original: 60,000 and 10,000 images, as many of each class."""
    monkeypatch.setenv("LOADERPROOF_CACHE", str(tmp_path))
    read = sources.load("fashion-mnist")
    assert [[6000] * 10, [1000] * 10] == [np.bincount(source.labels).tolist() for source in read.values()]
    expected = {"train": "9bc7da13603a96ac28dfc399b0873314", "test": "0e6e63fbb79d9d6ce75374370ad3d4ff"}
    assert expected == {split: source.fingerprint for split, source in read.items()}


def test_a_given_folder_comes_before_all_others(content, debian, tmp_path):
    """The files of a folder that is named are taken, wherever else there are some."""
    given = tmp_path / "mine"
    given.mkdir()
    for name, data in content.items():
        (given / name).write_bytes(data)
    for file in debian.iterdir():
        file.write_bytes(b"other")

    assert [9, 0] == sources.load(f"fashion-mnist:{given}")["train"].arrays()[1].tolist()


def test_a_given_folder_without_the_files_is_refused(content, debian, tmp_path):
    """A folder that is named and does not hold all four files is an error, not a reason to look elsewhere."""
    with pytest.raises(SourceError, match="does not hold the four files of fashion-mnist"):
        sources.load(f"fashion-mnist:{tmp_path}")
