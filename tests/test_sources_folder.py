import copy
import os
import sys

import numpy as np
import pytest

from loaderproof.loaders import sources
from loaderproof.loaders.sources import SourceError, first, folder
from loaderproof.loaders.sources.arrays import ArraySource

Image = pytest.importorskip("PIL.Image", exc_type=ImportError)

SHAPE = (4, 6, 3)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Where the cache of this test keeps what it knows of folders."""
    monkeypatch.setenv("LOADERPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sources"


@pytest.fixture
def root(tmp_path):
    """A folder whose name is no plain word."""
    path = tmp_path / "my images.v2 Ω"
    path.mkdir()
    return path


def pixels(number, shape=SHAPE):
    """Return an image that this number tells from all others."""
    return np.random.default_rng(number).integers(0, 256, shape, np.uint8)


def save(path, array):
    """Save pixels in the format that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array.squeeze(axis=2) if array.shape[2] == 1 else array).save(path)


def fill(root, files, shape=SHAPE):
    """Save an image for each name; the first has the pixels of number 0, and so on."""
    for number, name in enumerate(files):
        save(root / name, pixels(number, shape))
    return f"folder:{root}"


def numbers(source, shape=SHAPE, count=20):
    """Return which of the numbered images a source holds, in its order."""
    known = {pixels(number, shape).tobytes(): number for number in range(count)}
    return [known[image.tobytes()] for image, _ in source]


def test_both_splits_are_read(root):
    """`train/CLASS/*.png` and `test/CLASS/*.png`, in the order of classes and names."""
    files = ["train/dog/b.png", "train/cat/z.png", "train/dog/a.png", "test/dog/c.png"]
    read = sources.load(fill(root, files))
    train, test = read["train"], read["test"]
    assert (f"folder:{root}/train", SHAPE, 2, ["cat", "dog"]) == (
        train.name,
        train.image_shape,
        train.num_classes,
        train.classes,
    )
    assert ([1, 2, 0], [0, 1, 1]) == (numbers(train), train.arrays()[1].tolist())
    assert ([3], [1]) == (numbers(test), test.arrays()[1].tolist())


def test_every_sixth_image_is_for_testing(root):
    """Where there are no splits, they are made by this rule."""
    read = sources.load(fill(root, [f"{'a' if i < 5 else 'b'}/{i:02}.png" for i in range(13)]))
    assert [5, 11] == numbers(read["test"])
    assert [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12] == numbers(read["train"])


def test_classes_may_be_called_train_and_test(root):
    """Folders of these names that hold images and no folders are classes."""
    read = sources.load(fill(root, ["train/a.png", "test/b.png"]))
    assert ["test", "train"] == read["train"].classes


def test_names_may_be_anything(root):
    """Dots, spaces, other alphabets and capital endings do no harm, nor does a name that is no text."""
    odd = os.fsdecode(b"odd\xff")
    files = ["a.b c/x.y.png", "a.b c/ ä.PNG", "日本/-.png", f"{odd}/{odd}.png"]
    train = sources.load(fill(root, files))["train"]
    assert ["a.b c", odd, "日本"] == sorted(train.classes)
    assert {0, 1, 2, 3} >= set(numbers(train))


@pytest.mark.parametrize("ending", ["jpg", "jpeg", "JPG"])
def test_jpeg_is_read_as_pillow_decodes_it(root, ending):
    """The truth of a lossy file is what its decoder gives."""
    files = [root / f"a/{name}.{ending}" for name in "xy"]
    for number, file in enumerate(files):
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels(number)).save(file, "JPEG")
    image, _ = sources.load(f"folder:{root}")["train"][0]
    with Image.open(files[0]) as expected:
        assert np.asarray(expected).tolist() == image.tolist()


def test_grey_images_have_one_channel(root):
    """An image without colours gets a third axis."""
    shape = (5, 3, 1)
    train = sources.load(fill(root, ["a/0.png", "a/1.png"], shape))["train"]
    assert shape == train.image_shape
    assert [0] == numbers(train, shape)


def test_numeric_classes_are_sorted_as_numbers(root):
    """Class 10 comes after class 9."""
    files = [f"{number}/x.png" for number in range(12)]
    train = sources.load(fill(root, files))["train"]
    assert list(map(str, range(12))) == train.classes


def test_hidden_entries_are_left_out(root):
    """A tool's hidden folder is no class, and its hidden file no image; a file beside the classes is none."""
    spec = fill(root, ["a/0.png", "b/1.png", ".ipynb_checkpoints/2.png"])
    (root / "a" / ".DS_Store").write_bytes(b"?")
    (root / "README.md").write_text("about")
    train = sources.load(spec)["train"]
    assert ["a", "b"] == train.classes
    assert [0] == numbers(train)


def test_images_can_be_written_to(root):
    """Each access decodes anew, and gives an array of its own."""
    train = sources.load(fill(root, ["a/0.png", "a/1.png"]))["train"]
    train[0][0][:] = 0
    assert [0] == numbers(train)


def test_the_fingerprint_is_that_of_the_pixels(root):
    """It is the same as that of an array of the same samples, and any other way to hold them."""
    train = sources.load(fill(root, ["train/a/0.png", "train/b/1.png", "test/a/2.png"]))["train"]
    assert ArraySource("same", *train.arrays(), 2).fingerprint == train.fingerprint
    assert first(train, 2).fingerprint == train.fingerprint
    assert copy.deepcopy(train).fingerprint == train.fingerprint


def test_a_known_folder_is_not_decoded_again(root, monkeypatch):
    """Its images are decoded one by one the first time, and not before they are asked for the second."""
    spec = fill(root, [f"a/{number:02}.png" for number in range(12)])
    expected = sources.load(spec)["train"].fingerprint
    decoded, decode = [], folder.decode
    monkeypatch.setattr(folder, "decode", lambda path: (decoded.append(path), decode(path))[1])
    assert expected == sources.load(spec)["train"].fingerprint
    assert [root / "a" / "00.png"] == decoded


def test_a_changed_image_is_noticed(root):
    """Other content makes another fingerprint, and damage in it is found."""
    spec = fill(root, ["a/0.png", "a/1.png", "a/2.png"])
    before = sources.load(spec)["train"].fingerprint
    save(root / "a" / "0.png", pixels(9))
    assert before != sources.load(spec)["train"].fingerprint
    (root / "a" / "1.png").write_bytes(b"no image")
    with pytest.raises(SourceError, match=r"1\.png"):
        sources.load(spec)


@pytest.mark.parametrize("content", ["", "{}", '{"train": "0"}', "[]", None])
def test_damage_in_the_cache_is_mended(root, cache, content):
    """What is known of the folder is found again if it was lost."""
    spec = fill(root, ["a/0.png", "a/1.png", "a/2.png"])
    before = sources.load(spec)["train"].fingerprint
    (found,) = cache.glob(f"*/{folder.FOUND}")
    found.unlink() if content is None else found.write_text(content)
    assert before == sources.load(spec)["train"].fingerprint


def cut_off(path):
    """Leave the last bytes out."""
    path.write_bytes(path.read_bytes()[:-30])


def save_as(mode):
    """Return a function that saves an image in one of Pillow's pixel formats."""
    return lambda path: Image.fromarray(pixels(1)).convert(mode).save(path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b""), "1.png' cannot be read as PNG or JPEG"),
        (lambda path: path.write_bytes(b"GIF89a"), "1.png' cannot be read as PNG or JPEG"),
        (lambda path: Image.fromarray(pixels(1)).save(path, "BMP"), "1.png' cannot be read as PNG or JPEG"),
        (cut_off, "1.png' cannot be read as PNG or JPEG: .*; replace or remove it"),
        (
            lambda path: (path.unlink(), path.symlink_to("nowhere"))[0],
            r"No such file .*1.png'; it must be there",
        ),
        (save_as("RGBA"), "1.png' has the pixel format 'RGBA'; .*convert"),
        (save_as("P"), "1.png' has the pixel format 'P'"),
        (save_as("1"), "1.png' has the pixel format '1'"),
        (save_as("I;16"), "1.png' has the pixel format 'I;16'"),
        (
            lambda path: save(path, pixels(1, (6, 4, 3))),
            r"1.png' has the shape \(6, 4, 3\) .* first image \(4, 6, 3\)",
        ),
        (lambda path: save(path, pixels(1, (4, 6, 1))), r"1.png' has the shape \(4, 6, 1\) .*grey to RGB"),
        (lambda path: path.rename(path.with_suffix(".gif")), r"1.gif' .* is no .png, .jpg or .jpeg file"),
    ],
)
@pytest.mark.parametrize("split", ["train", "test"])
def test_an_image_that_will_not_do_is_named(root, split, spoil, message):
    """It is found before any loader opens, in whichever split it is; the message says what is wrong."""
    spec = fill(root, ["train/a/0.png", "train/a/1.png", "test/a/0.png", "test/a/1.png"])
    spoil(root / split / "a" / "1.png")
    with pytest.raises(SourceError, match=message) as caught:
        sources.load(spec)
    assert f"my images.v2 Ω/{split}/a/1" in str(caught.value)
    assert str(caught.value).startswith(f"--loader-data {spec}: ")


@pytest.mark.parametrize(
    ("files", "folders", "message"),
    [
        ([], [], "has no folder for a class; it has nothing"),
        (["0.png", "1.png"], [], r"has no folder for a class; it has 0\.png, 1\.png; give each class one"),
        ([".hidden/0.png"], [], "has no folder for a class; it has nothing"),
        (["a/0.png", "a/1.png"], ["b"], "the folder of a class, '.*/b', is empty; fill or remove it"),
        (["a/0.png"], [], "one sample only"),
        (["train/a/0.png", "val/a/1.png"], [], r"train/a' is a folder inside .* DIR/test/CLASS/\*\.png"),
        (["train/a/0.png", "test/b/1.png"], [], r"classes in 'test' that 'train' has not: \['b'\]"),
    ],
)
def test_a_folder_of_another_form_is_refused(root, files, folders, message):
    """The message says what was found, and which form is expected."""
    for name in folders:
        (root / name).mkdir()
    with pytest.raises(SourceError, match=message):
        sources.load(fill(root, files))


def test_a_missing_pillow_is_named(root, monkeypatch):
    """Reading images takes an extra, and the message says which."""
    spec = fill(root, ["a/0.png", "a/1.png"])
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SourceError, match=r"takes Pillow .*: pip install 'loaderproof\[vision\]'"):
        sources.load(spec)


def test_the_folder_may_be_named_from_home(root, monkeypatch):
    """`~` is the user's home."""
    fill(root, ["a/0.png", "a/1.png"])
    monkeypatch.setenv("HOME", str(root.parent))
    assert 1 == len(sources.load(f"folder:~/{root.name}")["train"])
