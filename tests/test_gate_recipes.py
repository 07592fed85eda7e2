"""The CI recipes: their commands run as they stand, and what they keep is what the suite writes."""

import configparser
import json
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

ROOT = Path(__file__).parents[1]
QUICK = Path(__file__).parent / "loaders_for_tests" / "quick_gate.py"
# Small and few; that the rest of the suite runs is no matter of a recipe.
TINY = (
    "--loader-data probe:64:8x8x1:10 --loader-device emulated:1ms --loader-samples 64"
    " -p quick_gate -p no:cacheprovider -k 'gate or test_len'"
)
MINE = """
from loaderproof.loaders import registry


def make(source, request):
    return registry.load("resident").open(source, None, request)
"""
GIT = ("git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main")


@dataclass
class Recipe:
    """What a recipe does.

    Attributes:
        script: lines of the gate's step.
        variables: that it sets, and that the CI sets for it.
        depth: of the history that it fetches; 0 for all.
        kept: folders and files that it keeps.
    """

    script: str
    variables: dict[str, str]
    depth: int
    kept: list[str] = field(default_factory=list)


def github(path: Path) -> Recipe:
    """Return what a recipe for GitHub Actions does."""
    told = yaml.safe_load(path.read_text())
    steps = told["jobs"]["gate"]["steps"]
    checkout, gate, upload = (
        next(one for one in steps if word in (one.get("uses") or one.get("name") or ""))
        for word in ("checkout", "Gate", "upload-artifact")
    )
    assert "always()" == upload["if"]
    variables = {**told.get("env", {}), **gate.get("env", {})}
    return Recipe(gate["run"], variables, int(checkout["with"]["fetch-depth"]), [upload["with"]["path"]])


def gitlab(path: Path) -> Recipe:
    """Return what a recipe for GitLab does, in a pipeline of a merge request."""
    job = yaml.safe_load(path.read_text())["loader-gate"]
    kept = job["artifacts"]
    assert "always" == kept["when"]
    script = "\n".join(line for line in job["script"] if "pip install" not in line)
    given = {"CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "", "CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD^1"}
    files = [*kept["paths"], kept["reports"]["junit"]]
    return Recipe(script, job["variables"] | given, int(job["variables"]["GIT_DEPTH"]), files)


RECIPES = {
    "github": github(ROOT / "docs" / "ci" / "github.yml"),
    "gitlab": gitlab(ROOT / "docs" / "ci" / "gitlab.yml"),
}
OWN = github(ROOT / ".github" / "workflows" / "gate.yml")


def tox_commands() -> list[str]:
    """Return the commands of `tox -e gate`, with nothing behind two dashes."""
    told = configparser.ConfigParser(interpolation=None)
    told.read(ROOT / "tox.ini")
    text = told["testenv:gate"]["commands"].replace("\\\n", " ")
    filled = text.replace("{posargs:{[gate]loaders}}", told["gate"]["loaders"])
    filled = re.sub(r"\{env:LOADERPROOF_BASE:(.*?)\}", r"\1", filled)
    assert "{" not in filled
    return [line for line in filled.splitlines() if line and not line.startswith("#")]


def words_for_pytest(script: str) -> list[str]:
    """Return the words behind the one call of pytest in a script."""
    (line,) = [one for one in script.replace("\\\n", " ").splitlines() if one.split()[0] == "pytest"]
    return shlex.split(line)[1:]


SCRIPTS = {name: recipe.script for name, recipe in RECIPES.items()} | {"tox": "\n".join(tox_commands())}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_options_are_known(script, pytestconfig):
    """Every option in a recipe is one that pytest takes, with a value that it takes."""
    known, unknown = pytestconfig._parser.parse_known_and_unknown_args(words_for_pytest(script))

    assert [] == unknown
    assert (True, None) == (bool(known.loader_against), known.loader_gate_inconclusive)


def test_tox_leaves_the_last_word_to_its_user():
    """Options behind two dashes come after the base, whose last mention counts, and in place of the loaders."""
    words = words_for_pytest(SCRIPTS["tox"])

    assert "origin/main" == words[words.index("--loader-against") + 1]
    assert words.index("--loader-against") < words.index("--loader")
    assert SCRIPTS["tox"].rstrip().endswith(words[-1])


def test_own_workflow_keeps_what_tox_writes():
    """This project's own workflow runs the environment, names the base that it takes, and keeps the report."""
    words = words_for_pytest(SCRIPTS["tox"])

    assert ("python -m tox -e gate", 2) == (OWN.script, OWN.depth)
    assert ["FORCE_COLOR", "LOADERPROOF_BASE"] == list(OWN.variables)
    assert ["loaderproof-report/"] == OWN.kept
    assert all(
        words[words.index(one) + 1].startswith(*OWN.kept) for one in ("--junitxml", "--benchmark-json")
    )


@pytest.fixture
def project(suite_run):
    """Run recipes in a project whose newest commit merges a change of a loader into its base."""
    upstream = suite_run.folder / "upstream"
    upstream.mkdir()

    def git(*words):
        done = suite_run.end_of(suite_run.popen("env", "-C", upstream, *GIT, *words))
        assert 0 == done.returncode, done.stdout

    git("init", "--quiet")
    for branch, text in (("main", MINE), ("change", f"{MINE}\n# changed\n")):
        git("checkout", "--quiet", "-B", branch)
        (upstream / "my_loader.py").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "-m", branch)
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "-m", "merge", "change")

    def run(recipe, **arms):
        shutil.copy(QUICK, suite_run.folder)  # which is on the path
        clone, page = suite_run.folder / "clone", suite_run.folder / "page.md"
        depth = ["--depth", str(recipe.depth)] if recipe.depth else []
        cloned = suite_run.end_of(
            suite_run.popen("git", "clone", "--quiet", *depth, upstream.as_uri(), clone)
        )
        assert 0 == cloned.returncode, cloned.stdout
        (suite_run.folder / "step.sh").write_text(recipe.script)
        suite_run.environment |= recipe.variables | {
            "QUICK_GATE": json.dumps(arms),
            "GITHUB_STEP_SUMMARY": str(page),
        }
        # As GitHub's runner starts a step.
        step = ("env", "-C", clone, f"PYTEST_ADDOPTS={TINY}", "bash", "-e", suite_run.folder / "step.sh")
        return suite_run.end_of(suite_run.popen(*step)), clone, page.read_text()

    return run


@pytest.mark.parametrize(
    ("name", "candidate", "code", "answer"),
    [
        ("github", {}, 0, "pass"),
        ("github", {"faster": 0.8}, 1, "fail"),
        ("github", {"spread": 0.3}, 6, "inconclusive"),
        ("gitlab", {}, 0, "pass"),
    ],
)
def test_recipes_run(project, name, candidate, code, answer):
    """In a clone as deep as the recipe's the step ends with the code of its answer, which it keeps and shows."""
    done, clone, page = project(RECIPES[name], candidate=candidate)
    report = clone / "loaderproof-report"
    tests = ET.parse(report / "junit.xml").iter("testcase")  # noqa: S314 - our own file
    benchmarks = json.loads((report / "benchmark.json").read_text())["benchmarks"]

    assert code == done.returncode, done.stdout
    assert f"## Gate: {answer}" in page
    assert "HEAD^1 (" in page
    assert answer == json.loads((report / "gate.json").read_text())["answer"]
    assert {"gate.json", "gate.md", "junit.xml", "benchmark.json"} == {one.name for one in report.iterdir()}
    assert "test_gate_decides[my_loader:make-0workers]" in [one.get("name") for one in tests]
    assert {"gate"} == {one["group"] for one in benchmarks}
    assert [] == [one for one in RECIPES[name].kept if not (clone / one).exists()]
