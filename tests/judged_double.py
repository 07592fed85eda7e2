"""What stands for a judged loader where only a test of the suite is tested, and no loader."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from loaderproof.loaders import Request
from loaderproof.suite.observation import Scenario


@dataclass
class Double:
    """A loader that answers every experiment alike.

    Attributes:
        answer: to every experiment.
        workers: of the loader.
        folder: for its files.
        told, noted: what the test had to say.
    """

    answer: Any = None
    workers: int = 0
    folder: Path = Path()
    told: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)

    @property
    def session(self) -> Any:
        """A run on the CPU."""
        return SimpleNamespace(settings=SimpleNamespace(device="cpu"))

    @property
    def case(self) -> Any:
        """The loader's number of workers."""
        return SimpleNamespace(workers=self.workers, label="double")

    def tell(self, section: str, text: str) -> None:
        """Keep what is told."""
        del section
        self.told.append(text)

    def note(self, kind: str, figures: dict[str, Any]) -> None:
        """Keep which figures there are."""
        del figures
        self.noted.append(kind)

    def timed_scenario(self) -> Scenario:
        """Return any scenario."""
        return Scenario("probe:4", Request())

    def report_folder(self) -> Path:
        """Return the folder."""
        return self.folder

    def ask(self, *words: object, **named: object) -> Any:
        """Return the answer."""
        del words, named
        return self.answer
