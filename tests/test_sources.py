import copy
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

from loaderproof.loaders import sources
from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources import SourceError, first, glyphs
from loaderproof.loaders.sources.arrays import INDEX, ArraySource, read_arrays, write_arrays
from loaderproof.loaders.sources.portion import hold_out
from loaderproof.loaders.store import DamageError, StoreError

SPLITS = ("train", "test")


class SlowSource(Source):
    """A source that is not in memory: sample `i` is an image full of `i` with label `i % 3`."""

    name = "slow/train"
    image_shape = (2, 3, 1)
    num_classes = 3

    def __len__(self):
        return 5

    def __getitem__(self, index):
        index = range(5)[index]
        return np.full(self.image_shape, index, np.uint8), index % 3

    @property
    def fingerprint(self):
        return ArraySource("same", *self.arrays(), 3).fingerprint


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of this file's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("LOADERPROOF_CACHE", str(folder))
        yield folder


@pytest.fixture
def five():
    """Five samples in memory."""
    images = np.arange(5 * 6, dtype=np.uint8).reshape(5, 2, 3, 1)
    return ArraySource("five/train", images, np.array([0, 1, 2, 0, 1]), 3)


def test_importing_the_sources_is_light():
    """The process that only reads their names imports neither frameworks nor image libraries."""
    heavy = "{'torch', 'torchvision', 'tensorflow', 'tensorflow_datasets', 'PIL', 'scipy'}"
    program = f"import sys, loaderproof.loaders.sources; print({heavy} & set(sys.modules) or 'light')"
    assert "light\n" == subprocess.check_output([sys.executable, "-P", "-c", program], text=True)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("glyph:100", r"no kind of data called 'glyph'; did you mean glyphs\?"),
        ("mnits", r"'mnits'; did you mean mnist"),
        ("?", r"'\?'; there are fashion-mnist, folder, glyphs, idx, mnist, object, probe, tfds"),
        ("", r"no kind of data called ''"),
        ("glyphs:", "nothing follows the colon"),
        ("glyphs:0", "number of samples is '0'; give a whole number from 1 to 60000"),
        ("glyphs:-3", "'-3'; give a whole number from 1 to 60000"),
        ("glyphs:1e3", "'1e3'; give a whole number from 1 to 60000"),
        ("glyphs:60001", "'60001'; give a whole number from 1 to 60000"),
        ("glyphs:10:20", "'10:20'; give a whole number"),
        ("probe:x", "number of samples is 'x'"),
        ("probe:2000000", "number of samples is '2000000'; give a whole number from 1 to 1000000"),
        ("probe:5:8x9", "shape is '8x9'; give height, width and channels, as in 12x20x3"),
        ("probe:5:8x9xq", "side of the shape is 'q'; give a whole number of at least 1"),
        ("probe:5:1x2x3", "26 values in an image"),
        ("probe:5:8x9x3:1001", "number of classes is '1001'; give a whole number from 1 to 1000"),
        ("probe:5:8x9x3:10:40", "range of values is '40'; give two of 0 to 255"),
        ("probe:5:8x9x3:10:200-250", "range of values is '200-250'"),
        ("probe:5:8x9x3:10:40-215:1", "has 5 parts; the form is probe:N:HxWxC:CLASSES:LOW-HIGH"),
        ("mnist:100", "100 does not hold the four files of mnist"),
        ("idx", "no folder is named"),
        ("idx:/no/such/folder", "there is no folder '/no/such/folder'"),
        (f"folder:{__file__}", r"test_sources.py' is a file; give the folder"),
        ("tfds", "no data set is named"),
    ],
)
def test_nonsense_is_refused_with_a_remedy(spec, message):
    """The message begins with the option as it was given, and says what to give instead."""
    with pytest.raises(SourceError, match=message) as caught:
        sources.load(spec)
    assert str(caught.value).startswith(f"--loader-data {spec}: ")


def test_a_cache_that_cannot_be_written_is_not_blamed_on_the_data(monkeypatch, tmp_path):
    """The error says what is wrong with the cache, and is no `SourceError`."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOADERPROOF_CACHE", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="LOADERPROOF_CACHE"):
        sources.load("glyphs")


@pytest.mark.parametrize(
    ("spec", "length", "shape"),
    [
        ("probe", 23, (12, 20, 3)),
        ("probe:1", 1, (12, 20, 3)),
        ("probe:7:9x5x1", 7, (9, 5, 1)),
        ("probe:7:9x5x1:4", 7, (9, 5, 1)),
    ],
)
def test_probe_is_as_large_as_asked(spec, length, shape):
    """Number, shape and classes can be given, in this order; each may be left out from behind."""
    probes = sources.load(spec)
    for split in SPLITS:
        assert (length, shape, 1000) == (
            len(probes[split]),
            probes[split].image_shape,
            probes[split].num_classes,
        )


def test_probe_carries_its_ids():
    """A sample's id stands in its pixels and in its file name, and no two splits share one."""
    probes = sources.load("probe:50:6x11x1")
    for probe in probes.values():
        bits = probe.images.reshape(50, -1)[:, :24] > 127
        assert probe.ids.tolist() == (bits << np.arange(24)).sum(1).tolist()
        assert probe.key(3).endswith(f".{probe.ids[3]:08d}")
        assert len(probe) == len({probe.key(index) for index in range(len(probe))})
        assert probe.labels.tolist() == sorted(probe.labels)
        assert {0, 255} <= set(probe.images[0].ravel().tolist())
    assert not set(probes["train"].ids) & set(probes["test"].ids)


def test_probe_has_the_range_asked_for():
    """Each image of a probe holds both ends of its range, and nothing beyond."""
    images = sources.load("probe:50:8x8x1:10:40-215")["train"].images.reshape(50, -1)

    assert ({40}, {215}) == (set(images.min(axis=1).tolist()), set(images.max(axis=1).tolist()))


def test_probe_has_as_many_labels_as_asked():
    """With few classes, the labels still go past 255."""
    labels = set(sources.load("probe:500:6x11x1:4")["train"].labels.tolist())
    assert 4 == len(labels)
    assert max(labels) > 255


def test_glyphs_are_the_same_bytes_everywhere(cache):
    """This version of the data set has these fingerprints, whatever machine draws it, in a few seconds."""
    started = time.process_time()
    drawn = sources.load("glyphs")
    seconds = time.process_time() - started
    expected = {"train": "7feb40f0d541be178339050309cb8b82", "test": "06c85c494e42267ad6020f8b337d2130"}
    assert expected == {split: source.fingerprint for split, source in drawn.items()}
    assert {"train": 60_000, "test": 10_000} == {split: len(source) for split, source in drawn.items()}
    assert seconds < 5


def test_glyphs_have_ten_classes_of_about_the_same_size(cache):
    """Every tenth image is of one class, within a twentieth, and grey levels go from 0 to 255."""
    images, labels = sources.load("glyphs")["train"].arrays()
    assert np.bincount(labels, minlength=10) == pytest.approx([6000] * 10, rel=0.05)
    assert (np.uint8, (60_000, 28, 28, 1)) == (images.dtype, images.shape)
    assert (0, 255) == (images.min(), images.max())


def test_glyphs_are_neither_trivial_nor_unlearnable():
    """The nearest of 2,000 images names the right class mostly, but not always."""
    (images, labels), (others, expected) = glyphs.draw(2000, 11), glyphs.draw(300, 12)
    known, asked = (block.reshape(len(block), -1).astype(np.float64) for block in (images, others))
    distances = (known**2).sum(1) - 2 * asked @ known.T
    assert 0.75 < (labels[distances.argmin(1)] == expected).mean() < 0.95


@pytest.mark.parametrize(("count", "test_count"), [(1, 1), (5, 1), (600, 100), (60_000, 10_000)])
def test_few_glyphs_are_the_first_of_all(cache, count, test_count):
    """`glyphs:N` is N samples to train on and a sixth as many to test on, from the beginning of the whole."""
    whole, few = sources.load("glyphs"), sources.load(f"glyphs:{count}")
    for split, length in (("train", count), ("test", test_count)):
        assert f"glyphs:{count}/{split}" == few[split].name
        assert np.array_equal(whole[split].images[:length], few[split].images)
        assert np.array_equal(whole[split].labels[:length], few[split].labels)


def test_glyphs_are_drawn_once(cache, monkeypatch):
    """From the second time on they come from the cache, in another process too."""
    expected = sources.load("glyphs:9")["train"].fingerprint
    monkeypatch.setattr(glyphs, "draw", None)
    assert expected == sources.load("glyphs:9")["train"].fingerprint


@pytest.fixture
def few_glyphs(monkeypatch, tmp_path):
    """Glyphs of which there are a few only, in a cache that no other test uses."""
    counts = {"train": 60, "test": 10}
    drawn = {
        split: ArraySource(split, *glyphs.draw(counts[split], glyphs.SEEDS[split]), 10) for split in SPLITS
    }
    monkeypatch.setenv("LOADERPROOF_CACHE", str(tmp_path))
    monkeypatch.setattr(glyphs, "COUNTS", counts)
    monkeypatch.setattr(
        glyphs, "FINGERPRINTS", {split: source.fingerprint for split, source in drawn.items()}
    )
    return tmp_path / "sources" / f"glyphs-{glyphs.VERSION}"


def flip_a_bit(path):
    """Change the content of a file, and neither its length nor its form."""
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def cut_off(path):
    """Shorten a file."""
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("damage", [flip_a_bit, cut_off, lambda path: path.unlink()])
@pytest.mark.parametrize("name", ["train-images.npy", "test-labels.npy", INDEX])
def test_damaged_glyphs_are_drawn_again(few_glyphs, name, damage):
    """A cache file that lost its content, or a bit of it, does no harm."""
    sources.load("glyphs")
    damage(few_glyphs / name)
    again = sources.load("glyphs")
    assert glyphs.FINGERPRINTS == {split: source.fingerprint for split, source in again.items()}
    assert [few_glyphs] == list(few_glyphs.parent.iterdir())


def test_glyphs_that_turn_out_other_than_elsewhere_are_refused(few_glyphs, monkeypatch):
    """A machine that draws other pixels says so, and keeps nothing."""
    draw = glyphs.draw
    monkeypatch.setattr(glyphs, "draw", lambda count, seed: draw(count, seed + 1))
    with pytest.raises(SourceError, match=r"--loader-data glyphs: the train figures .*NumPy .*report"):
        sources.load("glyphs")
    assert [] == list(few_glyphs.parent.iterdir())


@pytest.mark.parametrize("make", [SlowSource, lambda: ArraySource("a/train", *SlowSource().arrays(), 3)])
def test_a_prefix_is_the_first_samples(make):
    """It works on any source, iterates to its own end, and says in its name what it is."""
    source = make()
    prefix = first(source, 3)
    assert f"{source.name}[:3]" == prefix.name
    assert (3, (2, 3, 1), 3) == (len(prefix), prefix.image_shape, prefix.num_classes)
    assert [(0, 0), (1, 1), (2, 2)] == [(image.max(), label) for image, label in prefix]
    assert [0, 1, 2] == prefix.arrays()[1].tolist()
    assert 2 == prefix[-1][0].max()
    with pytest.raises(IndexError):
        prefix[3]


def test_equal_sources_have_equal_fingerprints():
    """A prefix has the fingerprint of its samples, however they are held."""
    slow, held = SlowSource(), ArraySource("held", *SlowSource().arrays(), 3)
    assert first(slow, 3).fingerprint == first(held, 3).fingerprint
    assert held.fingerprint == first(slow, 5).fingerprint
    assert first(slow, 3).fingerprint != first(slow, 4).fingerprint


def test_a_prefix_of_arrays_shares_them(five):
    """No pixel is copied."""
    assert np.shares_memory(five.images, first(five, 2).images)


@pytest.mark.parametrize("count", [0, 6])
def test_a_prefix_is_not_longer_than_its_source(five, count):
    """Nor is it empty; the message says how many samples there are."""
    with pytest.raises(SourceError, match="has 5 samples; ask for 1 to 5"):
        first(five, count)


@pytest.mark.parametrize(
    ("count", "expected"), [(2, [1]), (5, [4]), (6, [5]), (11, [5]), (12, [5, 11]), (13, [5, 11])]
)
def test_every_sixth_sample_is_held_out(count, expected):
    """Or the last, where there are fewer; all others are for training."""
    train, test = hold_out(count)
    assert expected == test.tolist()
    assert list(range(count)) == sorted([*train, *test])


def test_one_sample_cannot_be_shared_out():
    """There must be one to train on and one to test on."""
    with pytest.raises(SourceError, match="one sample only"):
        hold_out(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((3, 2, 2, 1), np.float32)}, "must be uint8 NHWC, not float32"),
        ({"images": np.zeros((3, 2, 2), np.uint8)}, r"must be uint8 NHWC, not uint8 with shape \(3, 2, 2\)"),
        ({"labels": np.array([0, 1])}, "3 images, but labels of shape"),
        ({"labels": np.array([0, 2, 1])}, r"label 2 of sample 1 is out of range; .*labels lie in 0\.\.1"),
        ({"labels": np.array([0, 1, -1])}, "label -1 of sample 2 is out of range"),
    ],
)
def test_arrays_that_are_no_source_are_refused(change, message):
    """Types, shapes and labels are checked, and the message says what was found."""
    good = {"images": np.zeros((3, 2, 2, 1), np.uint8), "labels": np.array([0, 1, 1])}
    with pytest.raises(SourceError, match=message):
        ArraySource("bad", **(good | change), num_classes=2)


@pytest.mark.parametrize("change", [("images", 1), ("labels", 1)])
def test_a_fingerprint_tells_sources_apart(five, change):
    """One pixel or one label makes another fingerprint; the name does not."""
    attribute, value = change
    other = ArraySource("other", five.images.copy(), five.labels.copy(), 3)
    assert five.fingerprint == other.fingerprint
    third = ArraySource("third", five.images.copy(), five.labels.copy(), 3)
    getattr(third, attribute).ravel()[0] += value
    assert five.fingerprint != third.fingerprint
    assert five.fingerprint != ArraySource("fourth", five.images, five.labels, 4).fingerprint


def test_a_fingerprint_is_quick():
    """That of 60,000 images of 28 by 28 pixels takes tens of milliseconds at most."""
    source = ArraySource("large", np.zeros((60_000, 28, 28, 1), np.uint8), np.zeros(60_000, int), 1)
    started = time.process_time()
    assert 32 == len(source.fingerprint)
    assert time.process_time() - started < 0.2


def test_arrays_come_back_as_they_were_written(five, tmp_path):
    """Written and read again, the samples are the same, and may be written to as before."""
    write_arrays(tmp_path, {"train": five, "test": first(five, 2)})
    read = read_arrays(tmp_path, "five")
    assert ["five/train", "five/test"] == [source.name for source in read.values()]
    assert [five.fingerprint, first(five, 2).fingerprint] == [source.fingerprint for source in read.values()]
    read["train"].images[0] = 1


def test_another_fingerprint_is_damage(five, tmp_path):
    """A changed pixel is found even if all files can be read."""
    write_arrays(tmp_path, {"train": five})
    flip_a_bit(tmp_path / "train-images.npy")
    with pytest.raises(DamageError, match="another fingerprint"):
        read_arrays(tmp_path, "five")


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda source: ForkingPickler.loads(ForkingPickler.dumps(source))]
)
@pytest.mark.parametrize("make", [SlowSource, lambda: sources.load("probe:5")["test"]])
def test_a_prefix_travels(make, duplicate):
    """It can be copied and sent to another process."""
    prefix = first(make(), 4)
    assert prefix.fingerprint == duplicate(prefix).fingerprint
