"""The article's five rows, with its own figures beside ours."""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite.answers import Run
from loaderproof.suite.blocks import Blocks
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Scenario
from loaderproof.suite.statistics import Ratio, paired_ratio

EPOCHS, SHORTENED_EPOCHS = 10, 5
TRAINING_BATCH, TESTING_BATCH = 64, 1_000
# A shortened run spends its time on starting workers, not on what more blocks would tell.
BLOCKS, SHORTENED_BLOCKS = 4, 2
# One run is twenty passes; a small probe is one.
_PATIENCE = 40
# A shortened run makes twenty passes, and so takes this share of the samples of the other benchmarks to
# train on, and one batch to test on.
_SHARE = 8


@dataclass(frozen=True)
class Row:
    """One system of the article.

    Attributes:
        label: names the row.
        spec: the built-in adapter.
        workers: for adapters that take them.
        published_s: seconds in the article, one run.
        options: of the adapter.
        testing_batch: samples in a batch of the test pass.
        stream: whether the loader is told beforehand how many epochs there will be.
    """

    label: str
    spec: str
    workers: int
    published_s: float
    options: Mapping[str, object] = field(default_factory=dict)
    testing_batch: int = TESTING_BATCH
    stream: bool = False


# The article read images through torchvision's ToTensor; where it is not installed, the adapter's own
# gives the same tensors, faster.
AS_PUBLISHED = importlib.util.find_spec("torchvision") is not None
_OPTIONS = {"torchvision": True} if AS_PUBLISHED else {}
PLAIN = tuple(
    Row(f"plain-{workers}workers", "torch_dataloader", workers, seconds, _OPTIONS)
    for workers, seconds in ((1, 70.93), (4, 43.61), (8, 48.39), (16, 54.59))
)
# The article's mixture twice: doing the same work as the plain rows, and as it was published.
MIXTURES = (
    Row("mixture-equal-work", "tfds_numpy", 0, 38.35),
    Row("mixture-as-published", "tfds_article", 0, 38.35, stream=True, testing_batch=1_024),
)
ROWS = PLAIN + MIXTURES


@dataclass(frozen=True)
class Figures:
    """What the blocks of one row showed.

    Attributes:
        row: its label.
        data: name of the source, and how many samples of it.
        device: name of the accelerator.
        blocks: how many were measured.
        published_s: seconds in the article.
        seconds: median of our runs.
        build_s: median seconds that it took to open both loaders.
        to_ceiling: speed as a share of the ceiling's, with its interval.
        trained, tested: samples that came in each epoch of all runs.
        owed: samples for training and testing that an epoch owes.
        shortened: whether it ran on a part of the data, and for fewer epochs.
        epochs: in one run.
        accuracy: after the last epoch; None if nothing was computed.
    """

    row: str
    data: str
    device: str
    blocks: int
    published_s: float
    seconds: float
    build_s: float
    to_ceiling: Ratio
    trained: list[int]
    tested: list[int]
    owed: tuple[int, int]
    shortened: bool
    epochs: int
    accuracy: float | None

    @property
    def equal_work(self) -> bool:
        """Tell whether every epoch came with the samples that it owes."""
        return set(zip(self.trained, self.tested, strict=True)) == {self.owed}


def scenarios(subject: Judged) -> tuple[Scenario, Scenario]:
    """Return what training and testing ask for."""
    samples = subject.session.settings.samples
    first = None if samples is None else max(samples // _SHARE, TRAINING_BATCH)
    row = _row(subject)
    epochs = EPOCHS if samples is None else SHORTENED_EPOCHS
    options = {**row.options, **({"epochs": epochs} if row.stream else {})}
    asked: dict[str, Any] = {"epochs": epochs, "shuffle": True, "seed": 1, "options": options}
    training = subject.data_scenario("train", first, batch_size=TRAINING_BATCH, **asked)
    testing = subject.data_scenario("test", first and TESTING_BATCH, batch_size=row.testing_batch, **asked)
    return training, testing


def measure(subject: Judged, benchmark: BenchmarkFixture) -> Figures:
    """Run the experiment with one row's loader, block by block beside the ceiling."""
    training, testing = scenarios(subject)
    place = Place(training)
    device = subject.session.settings.device
    asked: dict[str, Any] = {"training": training, "testing": testing, "device": device}

    def ask(experiment: str) -> Any:
        return subject.ask(f"article:{experiment}", place, times=_PATIENCE, **asked)

    seed = zlib.crc32(subject.case.label.encode())
    blocks = BLOCKS if subject.session.settings.samples is None else SHORTENED_BLOCKS
    run = Blocks(lambda: ask("run"), lambda: ask("run_ceiling"), blocks, seed, subject.progress)
    benchmark.pedantic(run.round, setup=run.before_round, rounds=blocks)  # type: ignore[no-untyped-call]
    run.finish()
    figures = _figures(subject, training, run)
    data = {**asdict(figures), "equal_work": figures.equal_work}
    benchmark.extra_info["loader"] = data
    subject.note("article", data)
    return figures


def _figures(subject: Judged, training: Scenario, run: Blocks[Run]) -> Figures:
    row = _row(subject)
    owed = run.ceilings[0]
    return Figures(
        row=row.label,
        data=f"{owed.trained[0]} samples of {training.data}",
        device=owed.device,
        blocks=len(run.rounds),
        published_s=row.published_s,
        seconds=median(one.seconds for one in run.rounds),
        build_s=median(one.build_s for one in run.rounds),
        to_ceiling=paired_ratio([one.seconds for one in run.ceilings], [one.seconds for one in run.rounds]),
        trained=[count for one in run.rounds for count in one.trained],
        tested=[count for one in run.rounds for count in one.tested],
        owed=(owed.trained[0], owed.tested[0]),
        shortened=training.first is not None,
        epochs=training.epochs,
        accuracy=run.rounds[0].accuracy,
    )


def _row(subject: Judged) -> Row:
    return next(row for row in ROWS if row.label == subject.case.label)
