"""What holds for this project's own tests alone, and not for a run of the suite from the same folder."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

# The runs of pytest that tests start are no workers of this one.
for variable in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
    del os.environ[variable]
# A shell that starts this in the background has it ignore Ctrl-C, and so would everything started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Modules that tests share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))

SUITE = Path(__file__).parents[1] / "suite"
JUDGED = Path(__file__).parent / "loaders_for_tests" / "judged.py"
# Writes down what pytest's own process is, and what it has imported in the end.
SPY = """
import json, os, pathlib, sys

def pytest_unconfigure():
    seen = {"pid": os.getpid(), "modules": sorted(sys.modules)}
    pathlib.Path(__file__).with_name("seen.json").write_text(json.dumps(seen))
"""


def pytest_configure(config: pytest.Config) -> None:
    """Fail a test that warns."""
    config.addinivalue_line("filterwarnings", "error")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print which reported faults were caught, if loaders with such faults were judged in this run."""
    reports = [
        one for kind in terminalreporter.stats.values() for one in kind if getattr(one, "when", "") == "call"
    ]
    judged = [value for report in reports for name, value in report.user_properties if name == "judged"]
    if judged:
        import faults  # noqa: PLC0415 - it imports all broken loaders

        terminalreporter.section("reported faults, the tests that caught them, the loaders that have them")
        for line in faults.matrix(faults.by_row(judged)):
            terminalreporter.write_line(line)


@dataclass
class Outcome:
    """What became of one test: `passed`, `failed`, `skipped` or `xfailed`, and the text to it."""

    name: str
    what: str
    text: str


@dataclass
class SuiteRun:
    """Runs of pytest as its user starts it, in a folder of its own.

    Attributes:
        folder: where it is started; everything that it writes lies there.
        environment: variables beside those of this process.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def judge(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the suite to its end."""
        return self.pytest(SUITE, *words)

    def loaders(self, *names: str) -> list[str]:
        """Return the options for loaders of the file that is there to be judged."""
        return [word for name in names for word in ("--loader", f"{JUDGED}:{name}")]

    def pytest(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run pytest to its end; stderr comes in stdout."""
        return self.end_of(self.start(*words))

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start pytest."""
        (self.folder / "spy.py").write_text(SPY)
        cache, junit = f"cache_dir={self.folder / 'cache'}", f"--junitxml={self._junit}"
        # -P, so that no folder called loaderproof hides the installed package.
        return self.popen(sys.executable, "-P", "-m", "pytest", "-p", "spy", "-o", cache, junit, *words)

    def popen(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start any program, which finds pytest on its path and breaks no line."""
        ahead = {"PATH": Path(sys.executable).parent, "PYTHONPATH": self.folder}
        paths = {name: f"{path}{os.pathsep}{os.environ.get(name, '')}" for name, path in ahead.items()}
        given = {**os.environ, **paths, "COLUMNS": "400", **self.environment}
        given.pop("PYTEST_ADDOPTS", None)
        return subprocess.Popen(
            words, cwd=self.folder, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end_of(self, started: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        """Wait until a program has ended."""
        text, _ = started.communicate()
        return subprocess.CompletedProcess(started.args, started.returncode, text)

    def outcomes(self) -> list[Outcome]:
        """Return what became of the tests of the last run, in their order."""
        tree = ET.parse(self._junit)  # noqa: S314 - our own file
        return [_outcome(case) for case in tree.iter("testcase")]

    def modules(self) -> set[str]:
        """Return what pytest's own process had imported at the end of the last run."""
        return set(self._seen["modules"])

    def pid(self) -> int:
        """Return the number of pytest's own process in the last run."""
        return int(self._seen["pid"])

    @property
    def _seen(self) -> dict[str, Any]:
        return json.loads((self.folder / "seen.json").read_text())

    @property
    def _junit(self) -> Path:
        return self.folder / "junit.xml"


def _outcome(case: ET.Element) -> Outcome:
    kinds = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    found = next((child for child in case if child.tag in kinds), None)
    if found is None:
        return Outcome(case.attrib["name"], "passed", "")
    what = "xfailed" if found.get("type") == "pytest.xfail" else kinds[found.tag]
    return Outcome(case.attrib["name"], what, f"{found.get('message')}\n{found.text or ''}")


@pytest.fixture
def suite_run(tmp_path) -> SuiteRun:
    """Run pytest in an empty folder."""
    return SuiteRun(tmp_path)


@pytest.fixture(scope="session")
def suite_run_in() -> Callable[[Path], SuiteRun]:
    """Run pytest in the folder of a wider scope."""
    return SuiteRun
