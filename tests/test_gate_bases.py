"""Where both sides of the gate take their code from: each has its own, in every process that it starts."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import site
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

import loaderproof.suite
from loaderproof.loaders import Request
from loaderproof.suite.gate import installed
from loaderproof.suite.gate.bases import BaseError, Kind, Side, resolved
from loaderproof.suite.home import Home
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Raised, Subject

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 120
SITE = site.getsitepackages()
LOADER = """
from loaderproof.loaders import adapter
from helper import VERSION, {more}

@adapter(name=VERSION, promises=set())
def make(source, request):
    {act}
    return []
"""
# Writes down what each kind of child process sees of the code.
ASK = """
import json, multiprocessing, subprocess, sys
from pathlib import Path

import loaderproof.loaders, loaderproof.suite

def seen():
    return [VERSION, *(str(Path(one.__file__).resolve().parent) for one in (loaderproof.loaders, loaderproof.suite))]

def ask(note):
    found = {}
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found[method] = pool.apply(seen)
    words = [sys.executable, "-P", "-c", "import json, helper; print(json.dumps(helper.seen()))"]
    found["program"] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    Path(note).write_text(json.dumps(found))
"""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, without what its user has set."""
    who = [
        f"GIT_{role}_{what}=somebody@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    ]
    given = {**os.environ, **dict(one.split("=") for one in who), "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *words],  # noqa: S607 - whichever git there is
        cwd=folder,
        env=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, files: dict[str, str]) -> str:
    """Write files and commit everything that lies in a folder; return the hash."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=some")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit of a loader called old and a changed working tree; the current folder."""
    folder = tmp_path / "repository"
    folder.mkdir()
    loader = LOADER.format(more="ask", act='ask(request.options["note"])')
    commit(folder, {"loader.py": loader, "helper.py": f"VERSION = 'old'\n{ASK}"})
    (folder / "helper.py").write_text(f"VERSION = 'new'\n{ASK}")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def place(tmp_path):
    """An empty folder for what is needed for a comparison."""
    made = tmp_path / "place"
    made.mkdir()
    return made


def names(sides: tuple[Side, Side]) -> list[str]:
    """Return how the loaders of both sides are called, each asked in its own process."""
    return [ask(side, "watching:describe", trial=False).name for side in sides]


def ask(side: Side, experiment: str, **arguments: object) -> object:
    """Run an experiment in a process of one side."""
    with contextlib.closing(Subject(side.spec, TIMEOUT_S, side.home)) as subject:
        return subject.run(experiment, **arguments)


def refusal(against: str, place: Path, spec: str | None = None) -> str:
    """Return why there is nothing to compare with."""
    with pytest.raises(BaseError) as refused, resolved(against, place) as bases:
        bases.sides(spec)
    return str(refused.value)


def wheel(folder: Path, version: str, files: dict[str, str], name: str = "gated", needs: str = "") -> Path:
    """Write a wheel by hand."""
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},sha256={_hash(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,\n"])
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return made


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("against", "kind"),
    [
        ("nothing", Kind.NOTHING),
        ("stored", Kind.STORED),
        ("run.json", Kind.FILE),
        ("file:run.json", Kind.FILE),
        ("resident", Kind.LOADER),
        ("loader.py:make", Kind.LOADER),
        ("loader:loader:make", Kind.LOADER),
        ("HEAD", Kind.GIT),
        ("main@{0}", Kind.GIT),
        ("git:stored", Kind.GIT),
    ],
)
def test_a_base_is_what_it_looks_like(repository, place, against, kind):
    """A base is recognised by its form, and a prefix says what it is where a name could be more than one thing."""
    (repository / "run.json").write_text("{}")
    git(repository, "branch", "stored")

    with resolved(against, place) as bases:
        assert kind == bases.kind
        assert (Path("run.json") if kind is Kind.FILE else None) == bases.file


@pytest.mark.parametrize("against", ["nothing", "stored", "file:run.json"])
def test_where_there_is_no_other_code_there_is_no_base(repository, place, against):
    """Figures, or nothing, stand for the base; the candidate lives where every loader does."""
    (repository / "run.json").write_text("{}")

    with resolved(against, place) as bases:
        assert (Side("resident", Home(), "candidate"), None) == bases.sides("resident")


def test_another_loader_lives_beside(place):
    """Another loader as the base differs in nothing else, and writes what it prepares elsewhere."""
    with resolved("resident", place) as bases:
        candidate, base = bases.sides("memmap")

    assert ("memmap", "resident") == (candidate.spec, base.spec)
    assert candidate.home.prepared != base.home.prepared
    assert {str(place)} == {os.path.commonpath([place, side.home.prepared]) for side in (candidate, base)}


@pytest.mark.parametrize("spec", ["loader.py:make", "loader:make"])
def test_a_ref_has_its_own_code(repository, place, spec):
    """Candidate is the working tree with what is not committed, base is the ref."""
    with resolved("HEAD", place) as bases:
        assert f"HEAD ({git(repository, 'rev-parse', '--short=7', 'HEAD')})" == bases.name
        assert ["new", "old"] == names(bases.sides(spec))


def test_processes_of_processes_have_the_same_code(repository, place, tmp_path):
    """Whatever a loader starts, by spawning, by a fork server, or as a program, takes the code from the same place."""
    package = repository / "loaders"
    shutil.copytree(ROOT / "loaders", package, ignore=shutil.ignore_patterns("__pycache__"))
    commit(repository, {"suite/conftest.py": ""})
    (repository / "helper.py").write_text(f"VERSION = 'newest'\n{ASK}")
    note = tmp_path / "note"
    scenario = Scenario("probe:4", Request(options={"note": str(note)}))

    with resolved("HEAD", place) as bases:
        for version, side in zip(("newest", "new"), bases.sides("loader.py:make"), strict=True):
            ask(side, "watching:coverage", scenario=scenario)
            tree = Path(side.spec).parent
            expected = [
                version,
                str(tree / "loaders"),
                str(Path(loaderproof.suite.__file__).resolve().parent),
            ]
            assert dict.fromkeys(("spawn", "forkserver", "program"), expected) == json.loads(note.read_text())


def test_built_in_loaders_come_from_both_trees(repository, place):
    """In a clone of this project, a built-in loader is that of each tree, whatever is installed."""
    shutil.copytree(ROOT / "loaders", repository / "loaders", ignore=shutil.ignore_patterns("__pycache__"))
    commit(repository, {"suite/conftest.py": ""})
    adapter = repository / "loaders" / "resident.py"
    adapter.write_text(adapter.read_text().replace('name="resident"', 'name="resident of today"'))

    with resolved("HEAD", place) as bases:
        assert ["resident of today", "resident"] == names(bases.sides("resident"))


def test_a_module_is_looked_for_as_if_it_were_installed(repository, place, monkeypatch):
    """A module in `src`, or where PYTHONPATH points in the tree, is found in both trees, from any folder of it."""
    package = {"src/package/__init__.py": "", "src/package/loaders.py": LOADER.format(more="ask", act="pass")}
    commit(repository, {**package, "lib/helper.py": "VERSION = 'first'\nask = None", "sub/some.txt": ""})
    (repository / "lib/helper.py").write_text("VERSION = 'second'\nask = None")
    monkeypatch.chdir(repository / "sub")
    monkeypatch.setenv("PYTHONPATH", str(repository / "lib"), prepend=os.pathsep)

    with resolved("HEAD", place) as bases:
        assert ["second", "first"] == names(bases.sides("package.loaders:make"))


def test_a_loader_that_a_package_offers_is_that_of_each_tree(repository, place, tmp_path, monkeypatch):
    """A name that an installed package offers stands for its module, which each tree has."""
    info = tmp_path / "installed" / "offering-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[loaderproof.loaders]\noffered = loader:make\n")
    monkeypatch.syspath_prepend(info.parent)

    with resolved("HEAD", place) as bases:
        candidate, base = bases.sides("offered")

    assert ["loader:make"] * 2 == [candidate.spec, base.spec]
    assert [(str(repository),), (str(place / "base" / "tree"),)] == [candidate.home.roots, base.home.roots]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("elsewhere:make", "elsewhere is .*elsewhere.py, and not below"),
        ("loader.py:make", "loads .*/late.py as well"),
    ],
)
def test_the_same_code_on_both_sides_is_refused(repository, place, monkeypatch, spec, words):
    """A base whose code comes from an installation, or from the candidate's tree, is refused in its own process."""
    other = repository.parent / "other"
    other.mkdir()
    (other / "elsewhere.py").write_text("make = lambda source, request: []")
    monkeypatch.setenv("PYTHONPATH", str(other), prepend=os.pathsep)
    commit(repository, {"loader.py": "import late\nmake = lambda source, request: []"})
    (repository / "late.py").write_text("")

    with resolved("HEAD", place) as bases, pytest.raises(Raised, match=f"{words}.*would run the same code"):
        ask(bases.sides(spec)[1], "watching:describe", trial=False)


def test_what_sides_prepare_lies_apart(repository, place):
    """What the adapter of one side writes is never read by the other, nor written twice by one side."""
    text = """
from pathlib import Path
from loaderproof.loaders import Adapter, Description
class Writing(Adapter):
    description = Description(name="writing", on_disk="form-1")
    def prepare(self, source, directory):
        (directory / "text").write_text("{}")
    def open(self, source, directory, request):
        Path(request.options["note"]).open("a").write(f"{{(directory / 'text').read_text()}} ")
        return []
"""
    commit(repository, {"writing.py": text.format("old")})
    (repository / "writing.py").write_text(text.format("new"))
    note = repository / "note"
    scenario = Scenario("probe:4", Request(options={"note": str(note)}))

    with resolved("HEAD", place) as bases:
        sides = bases.sides("writing.py:Writing")
        for side in (*sides, sides[0]):
            ask(side, "watching:coverage", scenario=scenario)

    assert ["new", "old", "new"] == note.read_text().split()
    assert 2 == len(list(place.glob("*/prepared/*/form-1/*")))


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, BaseError])
def test_nothing_is_left_of_a_worktree(repository, place, error):
    """A worktree is gone at the end, from git's list and from the disk, whatever happened."""
    before = git(repository, "worktree", "list")

    with contextlib.suppress(KeyboardInterrupt, BaseError), resolved("HEAD", place):
        assert 2 == len(git(repository, "worktree", "list").splitlines())
        assert (place / "base" / "tree" / "loader.py").is_file()
        if error:
            raise error

    assert before == git(repository, "worktree", "list")
    assert not (place / "base" / "tree").exists()
    assert ["main"] == git(repository, "branch", "--format=%(refname:short)").split()


def test_hooks_and_their_variables_do_no_harm(repository, place, monkeypatch):
    """A gate that a hook of git starts finds the repository, and its checkout runs no hook."""
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repository / 'ran'}\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", "/nowhere")

    with resolved("HEAD", place) as bases:
        assert Kind.GIT is bases.kind

    assert not (repository / "ran").exists()


def test_what_is_nothing_to_compare_with_is_told(repository, place):
    """What is no base is refused with what there is, and with names that are close."""
    told = refusal("residen", place)

    assert "it is nothing to compare with (did you mean 'resident'?)" in told
    assert "The git repository has no commit 'residen'" in told
    assert "a git ref (origin/main), another loader" in told
    assert "There is no file" in refusal("runs.json", place)
    assert "There is no file" in refusal("file:runs.json", place)
    assert "there is no loader 'residen' (did you mean 'resident'?)" == refusal("loader:residen", place)
    assert "git: is not followed by anything" == refusal("git:", place)
    assert "no commit 'mian' (did you mean 'main'?)" in refusal("git:mian", place)
    assert "there is no file" in refusal("dist/none.whl", place)


def test_a_shallow_clone_says_how_to_get_more(repository, place, tmp_path, monkeypatch):
    """In a clone that has only the newest commits, the way to the others is told."""
    commit(repository, {"more.txt": ""})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", "shallow")
    monkeypatch.chdir(tmp_path / "shallow")

    told = refusal("HEAD~1", place)

    assert "shallow clone" in told
    assert "git fetch --unshallow, or fetch-depth: 0" in told


def test_without_git_it_is_told(repository, place, tmp_path, monkeypatch):
    """No repository, or no git, is said as it is."""
    monkeypatch.chdir(tmp_path)
    assert "not a git repository" in refusal("HEAD~1", place)

    monkeypatch.setenv("PATH", "")
    assert "git is not installed" in refusal("HEAD~1", place)


def test_a_loader_that_the_ref_cannot_have_is_refused(repository, place, tmp_path):
    """A file outside of the repository, one that is new, and a built-in loader in another project are refused."""
    (repository / "new.py").write_text("")
    (tmp_path / "outside.py").write_text("")

    assert "lies outside the git repository" in refusal("HEAD", place, f"{tmp_path}/outside.py:make")
    shutil.rmtree(place)
    assert "new.py is not in HEAD (" in refusal("HEAD", place, "new.py:make")
    shutil.rmtree(place)
    told = refusal("HEAD", place, "resident")
    assert "is not that of loaderproof" in told
    assert "--loader-against loaderproof==" in told


def test_a_ref_from_before_the_loaders_is_refused(repository, place):
    """A commit of this project that has no loaders yet is no base for a built-in one."""
    shutil.copytree(ROOT / "loaders", repository / "loaders", ignore=shutil.ignore_patterns("__pycache__"))
    commit(repository, {"suite/conftest.py": ""})

    assert "has no folder of loaders" in refusal("HEAD~1", place, "resident")


def test_a_wheel_has_its_own_code_and_nothing_else(place, tmp_path, monkeypatch):
    """A wheel of the user's own package is the base in an environment that has all else from this one."""
    code = LOADER.format(more="__name__ as _", act="pass").replace("helper", "gated.helper")
    files = {"gated/__init__.py": "", "gated/helper.py": "VERSION = 'old'", "gated/loaders.py": code}
    made = wheel(tmp_path, "1.0", files, needs="Requires-Dist: numpy\nRequires-Dist: loaderproof\n")
    here = tmp_path / "here"
    for name, text in files.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text.replace("'old'", "'new'"))
    (here / "bench.py").write_text("from gated.loaders import make")
    monkeypatch.chdir(here)

    with resolved(str(made), place) as bases:
        assert (Kind.PIP, "gated 1.0") == (bases.kind, bases.name)
        assert ["new", "old"] == names(bases.sides("gated.loaders:make"))
        assert ["new", "old"] == names(bases.sides("bench.py:make"))
        packages = Path(bases.sides("resident")[1].home.path[1])
        assert ["gated-1.0.dist-info"] == [one.name for one in packages.glob("*.dist-info")]


def test_another_version_of_this_project_brings_its_loaders(place, tmp_path):
    """An installed loaderproof is judged by the suite of this run: only its loaders are its own."""
    sources = {
        f"loaderproof/loaders/{one.relative_to(ROOT / 'loaders')}": one
        for one in (ROOT / "loaders").rglob("*.py")
    }
    files = {name: file.read_text() for name, file in sources.items()}
    files["loaderproof/loaders/resident.py"] = files["loaderproof/loaders/resident.py"].replace(
        'name="resident"', 'name="resident of then"'
    )
    files |= {"loaderproof/__init__.py": "", "loaderproof/suite/__init__.py": "raise RuntimeError"}
    made = wheel(tmp_path, "0.0.1", files, name="loaderproof")

    with resolved(str(made), place) as bases:
        assert ["resident", "resident of then"] == names(bases.sides("resident"))


def test_what_is_installed_already_is_refused(place, tmp_path, monkeypatch):
    """A version that is here, file by file, is nothing to compare with; other content of it is."""
    made = wheel(tmp_path, "1.0", {"gated/__init__.py": "VALUE = 1"})
    installed = tmp_path / "installed"
    with ZipFile(made) as archive:
        archive.extractall(installed)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)  # which pip sees

    assert "is what is installed here already" in refusal(str(made), place)

    shutil.rmtree(place)
    changed = wheel(tmp_path, "1.0", {"gated/__init__.py": "VALUE = 2"})
    with resolved(str(changed), place) as bases:
        found = subprocess.run(
            [bases.sides("resident")[1].home.python, "-c", "import gated; print(gated.VALUE)"],
            env={**os.environ, **bases.sides("resident")[1].home.environment},
            capture_output=True,
            text=True,
            check=True,
        )
    assert "2\n" == found.stdout


def test_what_pip_cannot_install_is_told(place, tmp_path, monkeypatch):
    """The words of pip say why a requirement cannot be had."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    told = refusal("gated==7.0", place)

    assert told.startswith("pip could not install gated==7.0:\n")
    assert "No matching distribution found for gated==7.0" in told


def test_editable_packages_stay_importable(place, tmp_path, monkeypatch):
    """What is installed here in editable form is there in the base as well, behind its own packages."""
    made = wheel(tmp_path, "1.0", {"gated/__init__.py": ""})
    packages, project = tmp_path / "packages", tmp_path / "project"
    for folder in (packages, project):
        folder.mkdir()
        (folder / "gated.py").write_text("raise RuntimeError")
    (project / "developed.py").write_text("")
    (packages / "developed.pth").write_text(f"{project}\n")
    monkeypatch.setattr(site, "getsitepackages", lambda: [*SITE, str(packages)])

    with resolved(str(made), place) as bases:
        python = bases.sides("resident")[1].home.python
        words = [
            python,
            "-P",
            "-c",
            "import developed, gated, numpy; print(developed.__file__, gated.__file__)",
        ]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    assert str(project / "developed.py") == found[0]
    assert found[1].startswith(str(place))


def test_a_loader_is_not_compared_with_itself(place, tmp_path, monkeypatch):
    """The same name, or the same file by another path, is nothing to compare with."""
    monkeypatch.chdir(tmp_path)

    assert "the base itself" in refusal("resident", place, "resident")
    assert "the base itself" in refusal("loader:own.py:make", place, f"{tmp_path}/own.py:make")


def test_a_ref_without_a_difference_says_so(repository, place):
    """Comparing a commit with itself is allowed, and its name tells."""
    with resolved("HEAD", place / "changed") as bases:
        changed = bases.name
    commit(repository, {})
    with resolved("HEAD", place / "same") as bases:
        same = bases.name

    assert (False, True) == ("the same as" in changed, "the same as" in same)


LATE = """
import torch

def make(source, request):
    import helper
    return [(torch.zeros(1, 1, 28, 28), torch.zeros(1, dtype=torch.int64))]
"""


def measured(side: Side) -> None:
    """Open a loader in a process of one side and train on it, as the gate does."""
    scenario = Scenario("probe:1:28x28x1:10", Request(batch_size=1), 1)
    with contextlib.closing(Subject(side.spec, TIMEOUT_S, side.home)) as subject:
        subject.run("gate_rounds:first_batch", scenario=scenario)
        subject.run("rounds:start", scenario=scenario, device="emulated:1ms")
        subject.run("gate_rounds:peak")


def test_what_is_imported_late_is_checked_too(repository, place, monkeypatch):
    """A module that a loader imports when it opens, and that only the working tree has, makes both sides the same."""
    commit(repository, {"late.py": LATE, ".gitignore": "helper.py\n"})
    git(repository, "rm", "--quiet", "--cached", "helper.py")
    git(repository, "commit", "--quiet", "--message=gone")
    monkeypatch.setenv("PYTHONPATH", str(repository))

    with resolved("HEAD", place) as bases:
        candidate, base = bases.sides("late.py:make")
        measured(candidate)
        with pytest.raises(Raised, match=r"helper\.py as well"):
            measured(base)


def test_a_copy_that_both_sides_would_share_is_refused(repository, place, tmp_path, monkeypatch):
    """A package that was installed from this repository, and that no folder of a tree goes before, is refused."""
    place_of_it = tmp_path / "installed"
    (place_of_it / "shared").mkdir(parents=True)
    (place_of_it / "shared" / "__init__.py").touch()
    info = place_of_it / "shared-1.0.dist-info"
    info.mkdir()
    told = {"url": repository.as_uri(), "dir_info": {}}
    (info / "direct_url.json").write_text(json.dumps(told))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shared\nVersion: 1.0\n")
    (info / "RECORD").write_text("shared/__init__.py,,\nshared-1.0.dist-info/METADATA,,\n")
    commit(repository, {"late.py": LATE.replace("helper", "shared")})
    monkeypatch.syspath_prepend(place_of_it)
    monkeypatch.setenv("PYTHONPATH", str(place_of_it))

    with resolved("HEAD", place) as bases, pytest.raises(Raised, match=r"shared/__init__\.py as well"):
        measured(bases.sides("late.py:make")[1])


def test_a_link_is_followed_in_each_tree(repository, place):
    """Where a link led elsewhere, the base is what it led to."""
    commit(repository, {"fast.py": "", "slow.py": ""})
    (repository / "linked.py").symlink_to("fast.py")
    commit(repository, {})
    (repository / "linked.py").unlink()
    (repository / "linked.py").symlink_to("slow.py")

    with resolved("HEAD", place) as bases:
        specs = [Path(side.spec.partition(":")[0]).name for side in bases.sides("linked.py:make")]

    assert ["slow.py", "fast.py"] == specs


def test_src_beside_the_current_folder_is_looked_in(repository, place, monkeypatch):
    """In a repository of several projects each has a src of its own."""
    project = repository / "projects" / "one"
    commit(project / "src", {"inner.py": LATE})
    shutil.rmtree(project / "src" / ".git")
    commit(repository, {})
    monkeypatch.chdir(project)

    with resolved("HEAD", place) as bases:
        roots = bases.sides("inner:make")[1].home.roots

    assert any(root.endswith("projects/one/src") for root in roots)


@pytest.mark.parametrize(("module", "brought"), [("datasets", True), ("data", False), ("single", True)])
def test_which_modules_a_version_brings(tmp_path, module, brought):
    """A package whose name begins alike is another one."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "single.py").touch()
    base = installed._Installed("any 1.0", "python", str(tmp_path), "package", tmp_path)

    assert brought == base._brings(f"{module}:make")


def test_a_version_of_which_nothing_is_used_is_refused(place, tmp_path, monkeypatch):
    """Where the loader comes from here, and loads nothing that the version brings, both sides are the same."""
    (tmp_path / "own.py").write_text(LATE.replace("import helper", "pass"))
    monkeypatch.chdir(tmp_path)
    made = wheel(tmp_path, "1.0", {"unused.py": ""}, name="unused")

    with (
        resolved(str(made), place) as bases,
        pytest.raises(Raised, match="loads nothing of the base's version"),
    ):
        measured(bases.sides("own:make")[1])
