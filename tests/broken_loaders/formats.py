"""Loaders that read files of their own wrongly, and right ones that read the same files."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from honest import DATA, NO_WORKERS, Honest
from PIL import Image, ImageOps

from loaderproof.loaders import Adapter, Description, Loader, Promise, Request, Source

LABELS = "test_labels_belong_to_their_samples"
STRAYS = "test_stray_files_are_no_samples"
LOSES_SOME = ("test_every_sample_once", "test_drop_last", DATA)
NO_LENGTH = NO_WORKERS - {Promise.LENGTH}

Sample = tuple[np.ndarray, int]
Fields = dict[str, bytes]


def fails(
    *tests: str, rows: Iterable[str] = (), promises: Iterable[Promise] = NO_WORKERS
) -> Callable[[type[Format]], Format]:
    """Make an adapter of a format, and say what it breaks; see `honest.fails`."""

    def declare(form: type[Format]) -> Format:
        made = form()
        made.description = Description(
            name=f"formats:{form.__name__}", promises=frozenset(promises), on_disk=form.__name__
        )
        made.fails, made.rows, made.__doc__ = tests, tuple(rows), form.__doc__
        return made

    return declare


class Read:
    """The samples of a format, as `Honest` takes a source."""

    def __init__(self, samples: list[Sample], source: Source) -> None:
        self.samples, self.image_shape = samples, source.image_shape

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> Sample:
        return self.samples[place]


class Format(Adapter):
    """Writes a source into files and reads it from there."""

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        return Honest(Read(list(self.read(directory, source)), source), request)  # type: ignore[arg-type]

    def read(self, directory: Path, source: Source) -> Iterable[Sample]:
        """Return what was written, in order."""
        raise NotImplementedError


class Archive(Format):
    """One tar file with two members for each sample, called by its key: the image and the label."""

    def prepare(self, source: Source, directory: Path) -> None:
        with tarfile.open(directory / "samples.tar", "w") as archive:
            for name, content in self.members(source):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))

    def members(self, source: Source) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each member, those of a sample next to each other."""
        for place, (image, label) in enumerate(source):
            yield f"{source.key(place)}.image", image.tobytes()
            yield f"{source.key(place)}.label", str(label).encode()

    def read(self, directory: Path, source: Source) -> Iterable[Sample]:
        with tarfile.open(directory / "samples.tar") as archive:
            members = [(member.name, archive.extractfile(member).read()) for member in archive]
        return [self.sample(fields, source) for fields in self.grouped(members)]

    def grouped(self, members: list[tuple[str, bytes]]) -> list[Fields]:
        """Return the fields of each sample: neighbours of one key."""
        groups = itertools.groupby(members, key=lambda member: self.parts(member[0])[0])
        return [{self.parts(name)[1]: content for name, content in group} for _, group in groups]

    def parts(self, name: str) -> tuple[str, str]:
        """Return the key and the field that a member's name is made of."""
        key, _, field = name.rpartition(".")
        return key, field

    def sample(self, fields: Fields, source: Source) -> Sample:
        """Return the sample that some fields make."""
        return pixels(fields["image"], source), int(fields["label"])


def pixels(content: bytes, source: Source) -> np.ndarray:
    """Return an image (uint8, HWC) in memory of its own."""
    return np.frombuffer(content, np.uint8).reshape(source.image_shape).copy()


@fails()
class KeyEndsAtLastDot(Archive):
    """Groups members by what is ahead of the last dot."""


@fails(*LOSES_SOME, rows=["C26"], promises=NO_LENGTH)
class KeyEndsAtFirstDot(Archive):
    """Groups members by what is ahead of the first dot, which version numbers in names have, too."""

    def parts(self, name: str) -> tuple[str, str]:
        key, _, field = name.partition(".")
        return key, field

    def sample(self, fields: Fields, source: Source) -> Sample:
        return super().sample({name.rpartition(".")[2]: content for name, content in fields.items()}, source)


class LabelsApart(Archive):
    """Looks labels up by key in a table of their own."""

    def grouped(self, members: list[tuple[str, bytes]]) -> list[Fields]:
        named = [(*self.parts(name), content) for name, content in members]
        labels = {self.entry(key): content for key, field, content in named if field == "label"}
        images = [(key, content) for key, field, content in named if field == "image"]
        return [{"image": content, "label": labels.get(self.looked_up(key), b"0")} for key, content in images]

    def entry(self, key: str) -> str:
        """Return the name that a label is filed under."""
        return key

    def looked_up(self, key: str) -> str:
        """Return the name that a label is looked up by."""
        return self.entry(key)


@fails()
class LabelsByKey(LabelsApart):
    """Files labels under the whole key."""


@fails(LABELS, DATA, rows=["C26", "F1"])
class KeyEndsAtFirstBlank(LabelsApart):
    """Reads its list of labels word by word, so that a name ends at its first blank."""

    def entry(self, key: str) -> str:
        return key.split(maxsplit=1)[0]


@fails(LABELS, DATA, rows=["C26"])
class UmlautsTakenApart(LabelsApart):
    """Looks for names as another file system spells them: an umlaut as a letter and its dots."""

    def looked_up(self, key: str) -> str:
        return unicodedata.normalize("NFD", key)


class Interleaved(Archive):
    """Two writers share the archive, so members of two samples lie among each other."""

    def members(self, source: Source) -> Iterator[tuple[str, bytes]]:
        ordered = list(super().members(source))
        for start in range(0, len(ordered), 4):
            yield from sorted(ordered[start : start + 4], key=lambda member: self.parts(member[0])[1])


@fails(LABELS, DATA, rows=["C25"])
class LacksLabels(Interleaved):
    """Groups neighbours, and gives samples that have no label one that stands for none."""

    def grouped(self, members: list[tuple[str, bytes]]) -> list[Fields]:
        return [{"label": b"-1", **fields} for fields in super().grouped(members) if "image" in fields]


@fails(
    "test_every_sample_once", "test_range", LABELS, "test_drop_last", DATA, rows=["C25"], promises=NO_LENGTH
)
class EachSampleTwice(Interleaved):
    """Groups neighbours, and fills up what a sample lacks: a black image, or no label."""

    def sample(self, fields: Fields, source: Source) -> Sample:
        nothing = bytes(int(np.prod(source.image_shape)))
        return super().sample({"image": nothing, "label": b"-1", **fields}, source)


@fails()
class GroupedWhereverTheyLie(Interleaved):
    """Groups members by key, neighbours or not."""

    def grouped(self, members: list[tuple[str, bytes]]) -> list[Fields]:
        found: dict[str, Fields] = {}
        for name, content in members:
            key, field = self.parts(name)
            found.setdefault(key, {})[field] = content
        return list(found.values())


class Folders(Format):
    """A folder for each label, called by its number, with a file for each image, called by its place."""

    ending = ".image"

    def prepare(self, source: Source, directory: Path) -> None:
        for place, (image, label) in enumerate(source):
            folder = directory / str(label)
            folder.mkdir(exist_ok=True)
            self.write(image, folder / f"{place:08d}{self.ending}")

    def write(self, image: np.ndarray, path: Path) -> None:
        """Write one image."""
        path.write_bytes(image.tobytes())

    def read(self, directory: Path, source: Source) -> Iterable[Sample]:
        # A class's index stands for its label, as in ImageFolder; which labels occur is known.
        labels = sorted({int(label) for _, label in source})
        files = [
            (file.name, file, labels[index % len(labels)])
            for index, folder in enumerate(self.classes(directory))
            for file in self.files(folder)
        ]
        return [(self.image(file, source), label) for _, file, label in sorted(files)]

    def classes(self, directory: Path) -> list[Path]:
        """Return the folders of the classes, in order."""
        return sorted((path for path in self.entries(directory) if path.is_dir()), key=self.rank)

    def rank(self, folder: Path) -> Any:
        """Return what classes are sorted by."""
        return int(folder.name)

    def files(self, folder: Path) -> list[Path]:
        """Return the files of a class."""
        return [path for path in self.entries(folder) if path.suffix == self.ending]

    def entries(self, folder: Path) -> Iterable[Path]:
        """Return what in a folder is thought its own."""
        return (path for path in folder.iterdir() if not path.name.startswith("."))

    def image(self, path: Path, source: Source) -> np.ndarray:
        """Read one image."""
        return pixels(path.read_bytes(), source)


@fails()
class HiddenLeftOut(Folders):
    """Leaves out what begins with a dot, and files of other endings."""


@fails(LABELS, DATA, rows=["F3"])
class FoldersSortedAsText(Folders):
    """Numbers its classes in the order of their names as text."""

    def rank(self, folder: Path) -> str:
        return folder.name


@fails(STRAYS, rows=["F4"])
class HiddenFolderIsAClass(Folders):
    """Takes each folder for a class, and the hidden one comes first."""

    def entries(self, folder: Path) -> Iterable[Path]:
        return folder.iterdir()

    def rank(self, folder: Path) -> tuple[bool, int]:
        return (True, int(folder.name)) if folder.name.isdecimal() else (False, 0)

    def files(self, folder: Path) -> list[Path]:
        return [path for path in super().files(folder) if not path.name.startswith("._")]


@fails(STRAYS, rows=["F4"])
class HiddenCopiesAreSamples(Folders):
    """Looks for files of its ending in the whole tree, hidden folders and all."""

    def files(self, folder: Path) -> list[Path]:
        return [path for path in folder.rglob(f"*{self.ending}") if not path.name.startswith("._")]


@fails(STRAYS, rows=["F4"])
class EveryFileIsASample(Folders):
    """Takes each file in the folder of a class for an image, and fills up those that are too small."""

    def files(self, folder: Path) -> list[Path]:
        return [path for path in folder.iterdir() if path.is_file()]

    def image(self, path: Path, source: Source) -> np.ndarray:
        return np.resize(np.frombuffer(path.read_bytes(), np.uint8), source.image_shape)


@fails(STRAYS, rows=["F4"])
class FailsWithoutNamingTheFile(Folders):
    """Fails at a file that is no image, and does not say at which."""

    def files(self, folder: Path) -> list[Path]:
        return [path for path in folder.iterdir() if path.is_file()]


@fails()
class RefusesStrays(Folders):
    """Fails at whatever is not its own, and says what that is."""

    def entries(self, folder: Path) -> Iterable[Path]:
        for path in sorted(folder.iterdir()):
            if not (path.name.isdecimal() or (path.suffix == self.ending and path.stem.isdecimal())):
                raise ValueError(f"{path.name!r} in {folder} is neither a class nor an image; remove it")
            yield path


@fails()
class ReadsItsOwnList(Folders):
    """Reads the files that it wrote, by a list that it wrote beside them."""

    def prepare(self, source: Source, directory: Path) -> None:
        super().prepare(source, directory)
        names = [f"{label}/{place:08d}{self.ending}" for place, (_, label) in enumerate(source)]
        (directory / "files.json").write_text(json.dumps(names))

    def read(self, directory: Path, source: Source) -> Iterable[Sample]:
        for name in json.loads((directory / "files.json").read_text()):
            yield self.image(directory / name, source), int(Path(name).parent.name)


class Photos(Folders):
    """PNG files as cameras write them: as the sensor was held, with a note of how that was."""

    ending = ".png"
    note, turns = 1, 0  # which note, and by how many quarters against the clock the image lies
    orientation = 0x0112  # the note's number in EXIF

    def write(self, image: np.ndarray, path: Path) -> None:
        exif = Image.Exif()
        exif[self.orientation] = self.note
        lying = np.ascontiguousarray(np.rot90(image, self.turns))
        Image.fromarray(lying.squeeze(2) if lying.shape[2] == 1 else lying).save(path, exif=exif)

    def image(self, path: Path, source: Source) -> np.ndarray:
        with Image.open(path) as image:
            found = np.array(self.upright(image))
        return found.reshape(*found.shape[:2], source.image_shape[2])

    def upright(self, image: Image.Image) -> Image.Image:
        """Turn an image as its note says."""
        return ImageOps.exif_transpose(image)


@fails()
class TurnsUpright(Photos):
    """Turns images as their note says."""

    note, turns = 6, 1


@fails("test_shapes", "test_layout", DATA, rows=["E10"])
class LeavesPortraitsLying(Photos):
    """Takes no notice of a camera that was held upright."""

    note, turns = 6, 1

    def upright(self, image: Image.Image) -> Image.Image:
        return image


@fails("test_layout", DATA, rows=["E10"])
class LeavesImagesUpsideDown(Photos):
    """Takes no notice of a camera that was held upside down."""

    note, turns = 3, 2

    def upright(self, image: Image.Image) -> Image.Image:
        return image
