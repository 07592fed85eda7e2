"""From the name of a loader to its adapter."""

import importlib.metadata
import json
import multiprocessing
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import pytest

from loaderproof.loaders import Description, Request, _modules, registry
from loaderproof.loaders.registry import LoaderError
from loaderproof.loaders.sources.probe import probe

MAKE = "def make(source, request):\n    return [('a batch', 'of', request.batch_size)]\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory of its own, and the import system as it was, afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


def opened(spec: str) -> object:
    """Return what the loader of a spec gives for a tiny source."""
    return registry.load(spec).open(probe(3), Path(), Request(batch_size=2))


@pytest.fixture
def offered(monkeypatch):
    """An installed package that offers a loader, and one under a name that is taken."""
    entries = [
        importlib.metadata.EntryPoint(name, "loaderproof.loaders.resident:Resident", registry.GROUP)
        for name in ("theirs", "memmap")
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == registry.GROUP else [])


def test_every_built_in_loader_loads_without_its_library():
    """Descriptions of built-in loaders are read without importing torch or TensorFlow."""
    code = """
        import json, sys
        from loaderproof.loaders import registry
        found = {name: registry.load(name).description.name for name in registry.names()}
        print(json.dumps([found, [name for name in ("torch", "tensorflow") if name in sys.modules]]))
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    found, imported = json.loads(done.stdout)

    assert {name: name for name in registry.BUILTIN} == {name: found[name] for name in registry.BUILTIN}
    assert [] == imported


def test_entry_points_are_loaders_too(offered):
    """A loader that an installed package offers is known by its entry point's name."""
    assert [*registry.BUILTIN, "theirs"] == registry.names()
    assert "resident" == registry.load("theirs").description.name


def test_a_built_in_loader_keeps_its_name(offered):
    """An installed package cannot replace a built-in loader."""
    assert "memmap" == registry.load("memmap").description.name


def test_a_function_in_a_file(folder):
    """`path.py:attr` takes a function of a file, wherever it lies."""
    (folder / "sub").mkdir()
    (folder / "sub" / "mine.py").write_text(MAKE)

    assert [("a batch", "of", 2)] == opened("sub/mine.py:make")
    assert "mine:make" == registry.load("sub/mine.py:make").description.name


def test_a_function_of_the_request_alone(folder):
    """A function that takes no source has data of its own."""
    (folder / "mine.py").write_text("def make(request):\n    return [request.batch_size]\n")

    assert [2] == opened("mine.py:make")
    assert registry.load("mine.py:make").description.own_data


def test_a_function_in_a_module(folder):
    """`module:attr` takes a function of a module in the current directory."""
    (folder / "mine.py").write_text(MAKE)

    assert [("a batch", "of", 2)] == opened("mine:make")


@pytest.mark.parametrize("name", ["Mine", "mine"])
def test_an_adapter_or_an_instance_of_one(folder, name):
    """An attribute is a subclass of Adapter or an instance of one."""
    (folder / "kinds.py").write_text(
        textwrap.dedent("""
            from loaderproof.loaders import Adapter, Description

            class Mine(Adapter):
                description = Description(name="from a class")

                def open(self, source, directory, request):
                    return []

            mine = Mine()
        """)
    )

    assert "from a class" == registry.load(f"kinds.py:{name}").description.name


def test_a_file_imports_its_neighbours(folder):
    """A file that is given by its path finds modules in its own folder."""
    (folder / "sub").mkdir()
    (folder / "sub" / "neighbour_of_it.py").write_text("SIZE = 7\n")
    (folder / "sub" / "close.py").write_text(
        "from neighbour_of_it import SIZE\n\n\ndef make(source, request):\n    return [SIZE]\n"
    )

    assert [7] == opened("sub/close.py:make")


def test_files_of_one_name_are_kept_apart(folder):
    """Two files of the same name in different folders are two modules; neither hides a library's."""
    for where, value in (("one", 1), ("two", 2)):
        (folder / where).mkdir()
        (folder / where / "json.py").write_text(f"def make(source, request):\n    return [{value}]\n")

    assert [[1], [2]] == [opened("one/json.py:make"), opened("two/json.py:make")]
    assert json is sys.modules["json"]


def test_a_file_is_imported_once(folder):
    """Loading a file again gives the same functions, so that what it holds in memory is one."""
    (folder / "once.py").write_text(MAKE)
    (folder / "with-dash.py").write_text(MAKE)

    for spec in ("once.py:make", "with-dash.py:make"):
        assert registry.load(spec).function is registry.load(spec).function


def test_spawned_workers_find_the_file(folder):
    """A process that is spawned, not forked, can unpickle what a file given by its path defines."""
    (folder / "sub").mkdir()
    (folder / "sub" / "spawnable.py").write_text(
        "class Samples:\n    value = 5\n\n\ndef make(source, request):\n    return Samples()\n"
    )
    samples = opened("sub/spawnable.py:make")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert 5 == pool.apply(getattr, (samples, "value"))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("torch_dataloder", "did you mean 'torch_dataloader'"),
        ("no such thing", "Known: torch_dataloader, resident"),
        ("nowhere.at.all:make", "there is no loader 'nowhere.at.all:make'"),
        ("", "there is no loader ''"),
        ("holds.py:mkae", "did you mean 'make'"),
        ("holds.py:mkae", "Loaders in it: Mine, make, own"),
        ("holds.py:", "write holds.py:NAME. Loaders in it: Mine, make, own"),
        ("holds.py", "write holds.py:NAME. Loaders in it: Mine, make, own"),
        ("holds", "write holds:NAME. Loaders in it: Mine, make, own"),
        ("empty.py", "no adapter and no function of (source, request)"),
        ("hold.py:make", "hold.py (did you mean 'holds.py'?)"),
        ("holds.py:NUMBER", "is int 3; a loader is a subclass"),
        ("holds.py:Path", "is the class Path; a loader is"),
        ("holds.py:Half", "is the class Half without open; a loader is"),
        ("holds.py:_Nameless", "needs a class attribute: description = Description(name=...)"),
        ("holds.py:alone", "the function alone(source) must take (source, request), or (request) alone"),
        ("holds.py:none", "the function none() must take (source, request), or (request) alone"),
        ("holds.py:NUMBER", "def make(source, request):"),
    ],
)
def test_what_is_no_loader_is_told(folder, spec, told):
    """Whoever asks for something that is no loader learns what there is, or how one looks."""
    (folder / "empty.py").touch()
    (folder / "holds.py").write_text(
        textwrap.dedent("""
            from pathlib import Path
            from loaderproof.loaders import Adapter, Description

            NUMBER = 3

            class Half(Adapter):
                description = Description(name="half")

            class Mine(Half):
                def open(self, source, directory, request):
                    return []

            class _Nameless(Adapter):
                def open(self, source, directory, request):
                    return []

            def alone(source):
                return []

            def none():
                return []

            def make(source, request):
                return []

            def own(request):
                return []
        """)
    )

    with pytest.raises(LoaderError) as caught:
        registry.load(spec)

    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("mine.py:make", ("mine.py", "make")),
        ("mine.py", ("mine.py", "")),
        ("C:/lib/mine.py:make", ("C:/lib/mine.py", "make")),
        ("C:/lib/mine.py", ("C:/lib/mine.py", "")),
    ],
)
def test_a_drive_letter_is_no_module(spec, parts):
    """The colon behind a drive letter does not split a path."""
    assert parts == _modules.parts(spec)


def test_a_broken_file_shows_its_own_error(folder):
    """What a file raises while it is imported arrives as it was raised, in the line that raised it."""
    (folder / "broken.py").write_text("import os\n\nVALUE = os.no_such_function()\n")

    with pytest.raises(AttributeError, match="no_such_function") as caught:
        registry.load("broken.py:make")

    last = traceback.extract_tb(caught.tb)[-1]
    assert (str(folder / "broken.py"), 3) == (last.filename, last.lineno)


def test_a_broken_file_is_tried_again(folder):
    """After an error in it a file is imported anew, not taken as it was left."""
    (folder / "with-dash.py").write_text("raise RuntimeError('half way')\n")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="half way"):
            registry.load("with-dash.py:make")


@pytest.mark.parametrize("spec", ["needs.py:make", "needs:make"])
def test_a_missing_import_inside_a_file_is_its_own_error(folder, spec):
    """A library that a file imports and that is missing is not taken for a missing loader."""
    (folder / "needs.py").write_text("import a_library_nobody_has\n" + MAKE)

    with pytest.raises(ModuleNotFoundError, match="a_library_nobody_has"):
        registry.load(spec)


def test_missing_libraries_are_found_without_importing():
    """Modules that an adapter needs and that are not there are named; others are not imported."""
    description = Description(name="mine", requires=("this", "nobody_has_it", "nobody_has_it.either", "json"))

    assert ["nobody_has_it", "nobody_has_it.either"] == registry.missing(description)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("extra", "command"), [("tf", "pip install 'loaderproof[tf]'"), (None, "pip install nobody_has_it")]
)
def test_a_missing_library_names_the_extra(extra, command):
    """The refusal of a loader whose library is missing gives the command that installs it."""
    with pytest.raises(LoaderError, match="loader 'mine' needs nobody_has_it") as caught:
        registry.require(Description(name="mine", requires=("nobody_has_it",), extra=extra))

    assert command in str(caught.value)


def test_an_installed_library_is_no_obstacle():
    """A loader whose libraries are there is not refused."""
    assert registry.require(Description(name="mine", requires=("json",))) is None


@pytest.mark.parametrize(("beside", "first"), [("other", True), ("loaderproof", False)])
def test_folders_come_first_unless_they_hide_this_package(folder, beside, first):
    """The folder of a loader is looked through first, but not one that holds a folder of this package's name."""
    (folder / beside).mkdir()
    (folder / "mine.py").write_text(MAKE)

    opened("mine.py:make")

    assert str(folder) == sys.path[0 if first else -1]
