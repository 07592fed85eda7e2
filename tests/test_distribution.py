"""The wheel, built from a copy of the tree, and the commands that the README gives."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

import loaderproof

ROOT = Path(__file__).parents[1]
ROOMS = {
    "loaderproof": "loaderproof",
    "loaders": "loaderproof/loaders",
    "model": "loaderproof/model",
    "suite": "loaderproof/suite",
}
PROJECT = {
    "model/__init__.py": "OWNER = 'project'",
    "loaders/__init__.py": "OWNER = 'project'",
    "tests/test_own.py": """
import loaders, model

def test_own():
    assert ("project", "project") == (loaders.OWNER, model.OWNER)
""",
    "my_loader.py": """
import torch
from torch.utils.data import DataLoader

def make(source, request):
    samples = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
    return DataLoader(samples, batch_size=request.batch_size, shuffle=request.shuffle)
""",
}
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def copy_tree(target: Path) -> Path:
    """Copy what a wheel is made of, and nothing that an earlier build left behind."""
    for name in ROOMS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)
    return target


def build_wheel(tree: Path) -> Path:
    """Build the wheel of a tree with the tools that are installed here, without a network."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tree / "dist", tree]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == built.returncode, built.stdout + built.stderr
    (wheel,) = (tree / "dist").iterdir()
    return wheel


def modules_of(tree: Path) -> set[str]:
    """Return the paths that the modules of a tree should have in the wheel."""
    return {
        f"{package}/{module.relative_to(tree / folder).as_posix()}"
        for folder, package in ROOMS.items()
        for module in (tree / folder).rglob("*.py")
    }


def modules_in(wheel: Path) -> set[str]:
    """Return the paths of the modules that a wheel holds."""
    return {name for name in ZipFile(wheel).namelist() if name.endswith(".py")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree."""
    return build_wheel(copy_tree(tmp_path_factory.mktemp("tree")))


@pytest.fixture(scope="module")
def distribution(wheel) -> Distribution:
    """What an installer reads of the wheel."""
    (distribution,) = distributions(path=[str(wheel)])
    return distribution


def test_wheel_holds_every_module(wheel):
    """The wheel holds exactly the modules of the four folders."""
    assert modules_of(ROOT) == modules_in(wheel)


def test_a_forgotten_subpackage_is_noticed(tmp_path):
    """A subpackage that is not listed in pyproject.toml is missing from the wheel, and only that."""
    tree = copy_tree(tmp_path)
    forgotten = tree / "loaders" / "forgotten"
    forgotten.mkdir()
    (forgotten / "__init__.py").touch()

    missing = modules_of(tree) ^ modules_in(build_wheel(tree))

    assert {"loaderproof/loaders/forgotten/__init__.py"} == missing


def test_wheel_puts_one_package_at_the_top(wheel):
    """An installation adds `loaderproof` and its metadata to site-packages, and no `model` or `suite`."""
    tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}

    assert {"loaderproof", f"loaderproof-{loaderproof.__version__}.dist-info"} == tops


def test_every_folder_is_a_regular_package(wheel):
    """Every folder with modules has an `__init__.py`."""
    modules = modules_in(wheel)

    assert set() == {f"{Path(module).parent.as_posix()}/__init__.py" for module in modules} - modules


def test_wheel_is_typed(wheel):
    """Type checkers of others are told to read the annotations."""
    assert "loaderproof/py.typed" in ZipFile(wheel).namelist()


def test_version_is_the_package_s(distribution):
    """The version of the distribution is the one that the package states."""
    assert loaderproof.__version__ == distribution.version


def test_pytest_finds_the_plugin(distribution):
    """An installed wheel brings its plugin to pytest by itself."""
    found = {entry.name: entry.value for entry in distribution.entry_points.select(group="pytest11")}

    assert {"loaderproof": "loaderproof.suite.plugin"} == found


def test_extras_are_all_in_all(distribution):
    """The extra `all` installs every other extra."""
    extras = set(distribution.metadata.get_all("Provides-Extra"))
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert [f"loaderproof[{','.join(name for name in optional if name != 'all')}]"] == optional["all"]
    assert set(optional) == extras


@pytest.fixture
def project(wheel, tmp_path):
    """Run pytest in a project that has a `model` and `loaders` of its own, with the wheel installed."""
    ZipFile(wheel).extractall(tmp_path / "installed")
    for path, text in PROJECT.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    def run(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        ).stdout

    return run


def test_another_project_keeps_its_own_modules(project):
    """In a project that does not use the suite, an installed wheel changes nothing."""
    assert "\n1 passed" in project("tests")


def test_another_project_judges_its_loader(project):
    """The installed suite judges a loader of a project, and finds nothing of that project's own."""
    words = (
        "--pyargs",
        "loaderproof.suite.conformance",
        "--loader",
        "my_loader.py:make",
        "-k",
        "test_dtypes",
    )

    assert "\n1 passed" in project(*words)


@pytest.mark.parametrize("environment", ["suite", "tests"])
def test_readme_begins_with_the_commands(environment):
    """The first screen of the README has one command line for each of the two environments."""
    first_screen = (ROOT / "README.md").read_text().splitlines()[:40]

    commands = [line for line in first_screen if line.startswith("python3 ")]

    assert 1 == sum(line.endswith(f" && .venv/bin/tox -e {environment}") for line in commands)


@pytest.fixture
def ci(tmp_path):
    """Run the CI script beside a README with these lines; give its exit status and output lines."""

    def run(*readme: str) -> tuple[int, list[str]]:
        (tmp_path / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
        (tmp_path / "README.md").write_text("\n".join(readme))
        done = subprocess.run(
            ["bash", tmp_path / ".ci" / "run"],  # noqa: S607 - wherever the reader's bash is
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CI": "true"},
        )
        return done.returncode, done.stdout.splitlines()

    return run


@pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason=f"the script would install {FASHION_MNIST}")
def test_ci_runs_what_the_readme_says(ci):
    """The CI runs the README's own lines: the tests, the style, the suite, and the suite on real data."""
    say = 'python3 -c "import sys; print(*sys.argv[1:])" tox -e'

    status, lines = ci("# Title", f"{say} suite", "text", f"{say} tests")

    assert 0 == status
    assert [
        "tox -e tests",
        "tox -e lint",
        "tox -e suite",
        "tox -e suite -- --loader-data fashion-mnist --loader torch_dataloader --loader tfds_numpy",
        "no gate: the contract between suite and loaders has changed, or there is no commit before",
    ] == lines


@pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason=f"the script would install {FASHION_MNIST}")
def test_ci_gates_against_the_commit_before(ci, tmp_path):
    """Where there is one, a loader is compared with what it was there; what cannot be decided passes."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "--quiet"], *[["commit", "--quiet", "--allow-empty", "--message=some"]] * 2):
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)  # noqa: S607 - whichever git there is
    say = 'python3 -c "import sys; print(*sys.argv[1:])" tox -e'

    status, lines = ci("# Title", f"{say} suite", f"{say} tests")

    gate = (
        "--loader torch_dataloader --loader-workers 0 --loader-against HEAD~1 --loader-gate-inconclusive=pass"
    )
    assert (0, f"tox -e suite -- {gate} -k gate") == (status, lines[-1])


@pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason=f"the script would install {FASHION_MNIST}")
def test_ci_fails_without_a_test(ci):
    """Exit status 5, pytest's word for "no test was run", fails the CI at once."""
    status, lines = ci(
        'python3 -c "print(1); raise SystemExit(5)" tox -e tests', 'python3 -c "print(2)" tox -e suite'
    )

    assert 5 == status
    assert ["1"] == lines


def test_ci_needs_the_readme_s_lines(ci):
    """A README without the command lines fails the CI before anything is run."""
    status, lines = ci("# Title", "tox -e tests")

    assert 0 != status
    assert [] == lines
