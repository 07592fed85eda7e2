import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from loaderproof.loaders import sources
from loaderproof.loaders.sources import SourceError, tfds
from loaderproof.loaders.sources.arrays import ArraySource, read_arrays

pytestmark = pytest.mark.skipif(not find_spec("tensorflow_datasets"), reason="needs the extra tf")

# Has TFDS write small data sets, and converts them. Sample `i` is an image full of `i`, with label `i % 3`.
PREPARE = """
import sys
from pathlib import Path
import numpy as np
from loaderproof.loaders._tensorflow import import_tfds
from loaderproof.loaders.sources import SourceError
from loaderproof.loaders.sources.tfds import convert

tfds = import_tfds()
IMAGE = tfds.features.Image(shape=(None, None, 1))
DEEP_IMAGE = tfds.features.Image(shape=(None, None, 1), dtype=np.uint16)
LABEL = tfds.features.ClassLabel(num_classes=3)


class Tiny:
    VERSION = tfds.core.Version("1.0.0")
    image = IMAGE
    splits = {"train": range(4)}

    def shape(self, index):
        return 4, 6, 1

    def _info(self):
        features = {"label": LABEL} | ({"image": self.image} if self.image else {})
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
        )

    def _split_generators(self, manager):
        return {split: self._generate_examples(numbers) for split, numbers in self.splits.items()}

    def _generate_examples(self, numbers):
        for i in numbers:
            image = {"image": np.full(self.shape(i), i, self.image.np_dtype)} if self.image else {}
            yield i, {"label": i % 3, **image}


class TinyPair(Tiny, tfds.core.GeneratorBasedBuilder):
    splits = {"train": range(8), "test": range(8, 11)}


class TinySingle(Tiny, tfds.core.GeneratorBasedBuilder):
    splits = {"train": range(13)}


class TinyRecords(Tiny, tfds.core.GeneratorBasedBuilder):
    splits = {"train": range(4), "validation": range(4, 6)}


class TinyVaried(Tiny, tfds.core.GeneratorBasedBuilder):
    def shape(self, index):
        return 4, 6 + index // 2, 1


class TinyDeep(Tiny, tfds.core.GeneratorBasedBuilder):
    image = DEEP_IMAGE


class TinyNumbers(Tiny, tfds.core.GeneratorBasedBuilder):
    image = None


class TinyUntrained(Tiny, tfds.core.GeneratorBasedBuilder):
    splits = {"test": range(4)}


class TinyRaced(Tiny, tfds.core.GeneratorBasedBuilder):
    slow = True

    def _split_generators(self, manager):
        if TinyRaced.slow:
            TinyRaced.slow = False
            TinyRaced().download_and_prepare()
        return super()._split_generators(manager)


class TinyBroken(Tiny, tfds.core.GeneratorBasedBuilder):
    def _split_generators(self, manager):
        raise ConnectionError("no network")


for builder_class in Tiny.__subclasses__():
    if builder_class not in {TinyRaced, TinyBroken}:
        form = "array_record" if builder_class is TinyRecords else "tfrecord"
        builder_class(file_format=form).download_and_prepare()
    place = Path(sys.argv[1], builder_class.name)
    place.mkdir(parents=True)
    try:
        convert(builder_class.name, str(place))
    except SourceError as error:
        (place / "refused").write_text(str(error))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What became of each data set; all of them lie where TFDS looks for its own."""
    place = tmp_path_factory.mktemp("tfds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFDS_DATA_DIR", str(place / "data"))
        patch.setenv("LOADERPROOF_CACHE", str(place / "cache"))
        (place / "prepare.py").write_text(PREPARE)
        command = [sys.executable, "-P", str(place / "prepare.py"), str(place / "results")]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 0 == run.returncode, run.stderr
        yield place / "results"


def fingerprint(numbers):
    """Return the fingerprint of the samples with these numbers."""
    images = np.stack([np.full((4, 6, 1), number, np.uint8) for number in numbers])
    return ArraySource("expected", images, np.array(numbers) % 3, 3).fingerprint


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("tiny_pair", range(8), range(8, 11)),
        ("tiny_single", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12], [5, 11]),
        ("tiny_records", range(4), range(4, 6)),
        ("tiny_raced", range(3), [3]),
    ],
    ids=["both splits", "every sixth for testing", "validation, array_record", "prepared meanwhile"],
)
def test_a_data_set_is_converted(results, name, train, test):
    """Images and labels are those that TFDS has, in its order, and there is something to test on."""
    read = read_arrays(results / name, name)
    assert {"train": fingerprint(train), "test": fingerprint(test)} == {
        split: source.fingerprint for split, source in read.items()
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny_varied", "image 2 of tiny_varied/train has the shape (4, 7, 1), image 0 has (4, 6, 1)"),
        ("tiny_deep", "images must be uint8 NHWC, not uint16"),
        ("tiny_numbers", "has no features of type Image; it takes one, or one called 'image'. It has label"),
        ("tiny_broken", "no network"),
        ("tiny_untrained", "its splits are {'test': 4}; there must be one called 'train'"),
    ],
)
def test_a_data_set_that_will_not_do_is_refused(results, name, message):
    """The message says what is there and what there must be."""
    assert message in (results / name / "refused").read_text()


def test_it_is_read_by_another_process(results):
    """What TFDS has on disk can be loaded by name, and this process does not import TensorFlow for it."""
    read = sources.load("tfds:tiny_records")
    assert {"train": fingerprint(range(4)), "test": fingerprint(range(4, 6))} == {
        split: source.fingerprint for split, source in read.items()
    }
    assert "tfds:tiny_records/train" == read["train"].name
    assert not {"tensorflow", "tensorflow_datasets"} & set(sys.modules)


@pytest.fixture
def readings(results, monkeypatch, tmp_path):
    """The names of the data sets that were read through TFDS since the cache was empty."""
    names = []

    def read(task, name, directory):
        names.append(name)
        shutil.copytree(results / name, directory, dirs_exist_ok=True)
        path, _ = json.loads(Path(directory, tfds.ORIGIN).read_text())
        Path(directory, tfds.ORIGIN).write_text(json.dumps([path, Path(path).stat().st_mtime_ns]))

    monkeypatch.setattr(tfds.child, "run", read)
    monkeypatch.setenv("LOADERPROOF_CACHE", str(tmp_path))
    return names


def kept_file(name):
    """Return a file that the cache keeps of the one data set in it."""
    (path,) = Path(os.environ["LOADERPROOF_CACHE"], "sources").glob(f"tfds-*/{name}")
    return path


def test_it_is_read_once(readings):
    """From the second time on, the arrays come from the cache; other data have a place of their own there."""
    for name in ("tiny_pair", "tiny_pair", "tiny_single", "tiny_pair"):
        sources.load(f"tfds:{name}")
    assert ["tiny_pair", "tiny_single"] == readings


def test_another_data_folder_has_other_data(readings, monkeypatch, tmp_path):
    """A data set of the same name in another of TFDS's folders is another one."""
    sources.load("tfds:tiny_pair")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    sources.load("tfds:tiny_pair")
    assert ["tiny_pair", "tiny_pair"] == readings


@pytest.mark.parametrize("name", ["train-images.npy", tfds.ORIGIN])
def test_damage_in_the_cache_is_mended(readings, name):
    """Lost content is read through TFDS again."""
    sources.load("tfds:tiny_pair")
    kept_file(name).write_bytes(b"")
    assert fingerprint(range(8)) == sources.load("tfds:tiny_pair")["train"].fingerprint
    assert ["tiny_pair", "tiny_pair"] == readings


def test_data_prepared_anew_are_read_anew(readings):
    """Somebody who changes a data set of their own sees the change; if it is gone, what is known will do."""
    sources.load("tfds:tiny_pair")
    info = Path(json.loads(kept_file(tfds.ORIGIN).read_text())[0])
    os.utime(info)
    sources.load("tfds:tiny_pair")
    assert ["tiny_pair", "tiny_pair"] == readings
    info.rename(info.with_suffix(".gone"))
    try:
        sources.load("tfds:tiny_pair")
    finally:
        info.with_suffix(".gone").rename(info)
    assert ["tiny_pair", "tiny_pair"] == readings


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny_pear", "knows no 'tiny_pear'; near names: .*tiny_pair"),
        ("mnsit/x:1.0.0", "knows no 'mnsit/x:1.0.0'; near names: mnist"),
        ("xxxxxxxxxxxx", "knows no 'xxxxxxxxxxxx'; TFDS_DATA_DIR names the folder of your own ones"),
        ("mnist:9.9.9", "refuses 'mnist:9.9.9': .*only: 3.0.1"),
        ("mnist/upside_down", "refuses 'mnist/upside_down': .*BuilderConfig upside_down not found"),
        ("tiny_numbers", "has no features of type Image"),
    ],
)
def test_a_wrong_name_is_refused(results, name, message):
    """The message says what TFDS has instead, and nothing is downloaded for it."""
    with pytest.raises(SourceError, match=f"^--loader-data tfds:{name}: .*{message}"):
        sources.load(f"tfds:{name}")


@pytest.mark.parametrize("module", ["tensorflow", "tensorflow_datasets"])
def test_a_missing_library_is_named(results, monkeypatch, tmp_path, module):
    """Reading through TFDS takes an extra, and the message says which."""
    (tmp_path / f"{module}.py").write_text(
        f"raise ModuleNotFoundError('No module named {module}', name='{module}')"
    )
    (tmp_path / "torchvision.py").touch()  # spares the time that the real one takes
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SourceError, match=rf"No module named {module}.*pip install 'loaderproof\[tf\]'"):
        sources.load("tfds:tiny_single")
