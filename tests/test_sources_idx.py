import gzip
import struct

import numpy as np
import pytest

from loaderproof.loaders import sources
from loaderproof.loaders.sources import SourceError

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
IMAGES, LABELS, TEST_IMAGES, TEST_LABELS = NAMES


def encode(array):
    """Return an array of bytes in MNIST's format."""
    array = np.asarray(array, np.uint8)
    return struct.pack(f">{array.ndim + 1}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def content():
    """The four files: six and two images of 3 by 4 pixels, four classes."""
    pixels = np.arange(8 * 12).reshape(8, 3, 4)
    labels = [3, 0, 1, 2, 3, 0, 1, 1]
    parts = (pixels[:6], labels[:6], pixels[6:], labels[6:])
    return dict(zip(NAMES, map(encode, parts), strict=True))


def write(folder, content):
    """Write the four files and return what `--loader-data` takes for them."""
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return f"idx:{folder}"


@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_files_are_read_under_all_their_names(tmp_path, content, zipped, dotted):
    """Gzipped or not, with a dash or a dot before `idx`."""
    for name, data in content.items():
        there = tmp_path / (name.replace("-idx", ".idx" if dotted else "-idx") + ".gz" * zipped)
        there.write_bytes(gzip.compress(data) if zipped else data)
    read = sources.load(f"idx:{tmp_path}")
    train, test = read["train"], read["test"]
    assert (f"idx:{tmp_path}/train", 6, (3, 4, 1), 4) == (
        train.name,
        len(train),
        train.image_shape,
        train.num_classes,
    )
    assert [3, 0, 1, 2, 3, 0] == train.arrays()[1].tolist()
    assert np.arange(12).reshape(3, 4, 1).tolist() == train[0][0].tolist()
    assert [72, 84] == [image[0, 0, 0] for image, _ in test]


def test_content_decides_whether_a_file_is_zipped(tmp_path, content):
    """A zipped file may have lost its ending."""
    content[IMAGES] = gzip.compress(content[IMAGES])
    assert 6 == len(sources.load(write(tmp_path, content))["train"])


def test_images_can_be_written_to(tmp_path, content):
    """No loader is warned of read-only arrays."""
    sources.load(write(tmp_path, content))["train"][0][0][:] = 1


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (IMAGES, lambda data: b"<htm" + data[4:], r"magic number 0x3c68746d, not 0x00000803 .* 3 dimensions"),
        (LABELS, lambda _: encode(np.zeros((6, 1, 1))), "magic number 0x00000803, not 0x00000801"),
        (
            IMAGES,
            lambda data: data[:-1],
            r"87 bytes, but announces 88 \(shape \(6, 3, 4\)\): it is truncated",
        ),
        (IMAGES, lambda data: data[:7], "7 bytes, but announces .*truncated"),
        (IMAGES, lambda _: b"", "magic number"),
        (IMAGES, lambda data: data + b"\n", "89 bytes, but announces 88 .*something trails the data"),
        (IMAGES, lambda data: data[:4] + b"\xff" * 12, "announces 79228162458924105385300197391"),
        (IMAGES, lambda data: gzip.compress(data)[:-9], "cannot be unpacked: .*truncated or damaged"),
        (IMAGES, lambda data: gzip.compress(data)[:30] + b"\xff" * 9, "cannot be unpacked"),
        (IMAGES, lambda data: gzip.compress(data) + b"more", "cannot be unpacked"),
        (LABELS, lambda _: encode([0] * 7), "has 6 images, but 7 labels for train"),
        (IMAGES, lambda _: encode(np.zeros((0, 3, 4))), r"is empty: its shape is \(0, 3, 4\)"),
        (TEST_LABELS, lambda _: encode([1, 4]), r"label 4 of sample 1 is out of range; .*0\.\.3"),
        (
            TEST_IMAGES,
            lambda _: encode(np.zeros((2, 4, 3))),
            r"different shapes .*\(3, 4, 1\).*\(4, 3, 1\)",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, name, change, message):
    """The message names the option, the file or the split, and what is wrong with it."""
    content[name] = change(content[name])
    with pytest.raises(SourceError, match=message) as caught:
        sources.load(write(tmp_path, content))
    assert str(caught.value).startswith(f"--loader-data idx:{tmp_path}: ")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(tmp_path, content, name):
    """The message says which of the four files is missing, and what is there instead."""
    del content[name]
    there = next(iter(sorted(content)))
    with pytest.raises(SourceError, match=f"has no {name}, gzipped or not; it has {there}"):
        sources.load(write(tmp_path, content))


def test_an_empty_folder_is_refused(tmp_path):
    """The message says that there is nothing."""
    with pytest.raises(SourceError, match=f"has no {IMAGES}, gzipped or not; it has nothing"):
        sources.load(f"idx:{tmp_path}")
