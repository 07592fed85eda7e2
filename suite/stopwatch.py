"""Times a loader in blocks beside the ceiling, and sums up what came out."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite.answers import Setup
from loaderproof.suite.blocks import Blocks
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Scenario
from loaderproof.suite.statistics import Ratio, paired_ratio
from loaderproof.suite.timeline import Timing

# An epoch may take many times what a small probe takes.
_PATIENCE = 10


@dataclass(frozen=True)
class Figures:
    """What the blocks showed; times in seconds, medians over the blocks.

    Attributes:
        loader: label of the case.
        data: name of the source.
        device: name of the accelerator.
        blocks: how many were measured.
        samples, batches: in one epoch of equal work.
        delivered: samples that came in each epoch, the very first and those of the rounds.
        equal_work: whether every round delivered the samples and batches of one epoch.
        seconds: of one epoch.
        samples_per_s: owed samples over seconds.
        to_ceiling: speed as a share of the ceiling's, with its interval.
        first_batch_s: time to the first batch of the very first epoch.
        next_first_batch_s: time to the first batch of the later ones.
        wait_share: share of the time spent waiting for batches.
        prepare_s: writing the on-disk format, when that was done.
        open_s: opening the loader.
    """

    loader: str
    data: str
    device: str
    blocks: int
    samples: int
    batches: int
    delivered: list[int]
    equal_work: bool
    seconds: float
    samples_per_s: float
    to_ceiling: Ratio
    first_batch_s: float
    next_first_batch_s: float
    wait_share: float
    prepare_s: float
    open_s: float

    def as_data(self) -> dict[str, Any]:
        """Return the figures as they go into files."""
        return asdict(self)


def measure(
    subject: Judged, benchmark: BenchmarkFixture, scenario: Scenario, experiment: str, blocks: int
) -> Figures:
    """Time whole epochs of one loader, one block at a time.

    Args:
        subject: the loader.
        benchmark: holds the rounds.
        scenario: what the loader is asked for.
        experiment: one round, a function of `rounds`.
        blocks: how many.
    """
    place = Place(scenario)

    def ask(what: str, **arguments: Any) -> Any:
        return subject.ask(what, place, times=_PATIENCE, **arguments)

    setup = ask("rounds:start", scenario=scenario, device=subject.session.settings.device)
    first = ask(experiment)
    seed = zlib.crc32(subject.case.label.encode())

    def ceiling() -> Timing:
        ask("rounds:settle")
        made: Timing = ask("rounds:train_on_ceiling")
        return made

    def before_round() -> None:
        run.before_round()
        ask("rounds:settle")

    run = Blocks(lambda: ask(experiment), ceiling, blocks, seed, subject.progress)
    benchmark.pedantic(run.round, setup=before_round, rounds=blocks)  # type: ignore[no-untyped-call]
    run.finish()
    ask("rounds:finish")
    figures = _figures(subject, scenario, setup, first, run)
    benchmark.extra_info["loader"] = figures.as_data()
    subject.note(experiment.removeprefix("rounds:"), figures.as_data())
    return figures


def _figures(
    subject: Judged, scenario: Scenario, setup: Setup, first: Timing, run: Blocks[Timing]
) -> Figures:
    seconds = [one.seconds for one in run.rounds]
    return Figures(
        loader=subject.case.label,
        data=f"{setup.samples} samples of {scenario.data}",
        device=setup.device,
        blocks=len(seconds),
        samples=setup.samples,
        batches=setup.batches,
        delivered=[one.samples for one in [first, *run.rounds]],
        equal_work=all(
            (one.samples, one.batches) == (setup.samples, setup.batches) for one in [first, *run.rounds]
        ),
        seconds=median(seconds),
        samples_per_s=setup.samples / median(seconds),
        to_ceiling=paired_ratio([one.seconds for one in run.ceilings], seconds),
        first_batch_s=first.first_batch_s,
        next_first_batch_s=median(one.first_batch_s for one in run.rounds),
        wait_share=median(one.wait_s / one.seconds for one in run.rounds),
        prepare_s=setup.prepare_s,
        open_s=setup.open_s,
    )
