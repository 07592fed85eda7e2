"""Times a loader in blocks beside the ceiling, and sums up what came out."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite.answers import Setup
from loaderproof.suite.blocks import Blocks
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Scenario
from loaderproof.suite.statistics import Estimate, Ratio, geometric_mean, paired_ratio, shortfall
from loaderproof.suite.timeline import Timing

# An epoch may take many times what a small probe takes.
_PATIENCE = 10


@dataclass(frozen=True)
class Figures:
    """What the blocks showed; times in seconds.

    An `Estimate` is a mean over the blocks with its 95 % interval. None stands for what cannot be
    had: of an epoch of one batch nothing is steady, and without training no device computes. What
    happens once, setup and the very first batch, has no interval: a second opening would be another,
    warmer one.

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
        steady_samples_per_s: of the measured steps, without start and tail.
        to_ceiling: speed as a share of the ceiling's, with its interval.
        utilisation: accelerator utilisation (AU) of the measured steps: computing / total time.
        stall_share: what of the time of a measured step the ceiling's does not take, as a share:
            1 - ceiling / loader, DS-Analyzer's stall. Below 0 where the loader's were faster by chance.
        wait_share: share of the whole time in which the host waited for batches; on a device with a
            queue the device may have computed meanwhile.
        wait_p50_s, wait_p95_s, wait_p99_s: quantiles of the waits for a batch in the measured steps.
        first_batch_s: time to the first batch of the very first epoch.
        next_first_batch_s: time to the first batch of the later ones.
        tail_s: from the start of an epoch's last step until loader and device were done.
        ending_s: what of that the loader took until it said that there is no more, after the last
            step had been started.
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
    seconds: Estimate
    samples_per_s: Estimate
    steady_samples_per_s: Estimate | None
    to_ceiling: Ratio
    utilisation: Estimate | None
    stall_share: Estimate | None
    wait_share: Estimate
    wait_p50_s: Estimate | None
    wait_p95_s: Estimate | None
    wait_p99_s: Estimate | None
    first_batch_s: float
    next_first_batch_s: Estimate
    tail_s: Estimate
    ending_s: Estimate
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
    rounds, owed = run.rounds, (setup.samples, setup.batches)
    return Figures(
        loader=subject.case.label,
        data=f"{setup.samples} samples of {scenario.data}",
        device=setup.device,
        blocks=len(rounds),
        samples=setup.samples,
        batches=setup.batches,
        delivered=[one.samples for one in [first, *rounds]],
        equal_work=all((one.samples, one.batches) == owed for one in [first, *rounds]),
        first_batch_s=first.first_batch_s,
        prepare_s=setup.prepare_s,
        open_s=setup.open_s,
        **_estimates(setup.samples, run),
    )


def _estimates(samples: int, run: Blocks[Timing]) -> dict[str, Any]:
    """Return the figures that have an interval."""
    rounds, ceilings = run.rounds, run.ceilings

    def mean(what: Callable[[Timing], float | None]) -> Estimate | None:
        values = [what(one) for one in rounds]
        known = [value for value in values if value is not None]
        return geometric_mean(known) if len(known) == len(values) else None

    return {
        "seconds": mean(lambda one: one.seconds),
        "samples_per_s": mean(lambda one: samples / one.seconds),
        "steady_samples_per_s": mean(lambda one: one.steady_samples_per_s),
        "to_ceiling": paired_ratio([one.seconds for one in ceilings], [one.seconds for one in rounds]),
        "utilisation": _at_most_all(mean(lambda one: one.utilisation)),
        "stall_share": _stall_share(ceilings, rounds),
        "wait_share": _at_most_all(mean(lambda one: one.wait_s / one.seconds)),
        "wait_p50_s": mean(lambda one: one.wait_quantile(0.50)),
        "wait_p95_s": mean(lambda one: one.wait_quantile(0.95)),
        "wait_p99_s": mean(lambda one: one.wait_quantile(0.99)),
        "next_first_batch_s": mean(lambda one: one.first_batch_s),
        "tail_s": mean(lambda one: one.tail_s),
        "ending_s": mean(lambda one: one.ending_s),
    }


def _stall_share(ceilings: Sequence[Timing], rounds: Sequence[Timing]) -> Estimate | None:
    """Return the share of a step that is lost against the ceiling; None where none is steady, or computed."""
    above, below = (
        [one.step_s for one in side if one.utilisation is not None] for side in (ceilings, rounds)
    )
    if len(below) < len(rounds) or len(above) < len(ceilings):
        return None
    return shortfall(paired_ratio(cast("list[float]", above), cast("list[float]", below)))


def _at_most_all(share: Estimate | None) -> Estimate | None:
    return share and replace(share, high=min(share.high, 1.0))
