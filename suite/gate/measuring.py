"""Measures one loader beside its base, and keeps the figures where pytest-benchmark stores its own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.loaders import registry
from loaderproof.loaders.contract import Promise
from loaderproof.suite import environment
from loaderproof.suite.answers import Setup
from loaderproof.suite.gate import stored
from loaderproof.suite.gate.bases import BaseError, Bases, Kind, Side
from loaderproof.suite.gate.choices import Choices
from loaderproof.suite.gate.decision import blocks_needed
from loaderproof.suite.gate.keeper import Gatekeeper
from loaderproof.suite.gate.measures import AGAIN, BASE, CANDIDATE, Measure
from loaderproof.suite.gate.record import Record, Unusable
from loaderproof.suite.gate.running import Contest, NotMeasured, Run, seed_of
from loaderproof.suite.gate.verdicts import Measured
from loaderproof.suite.judged import Judged
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import SubjectError

# More than the level needs, so that ordinary noise is no reason to say nothing.
_USUAL = 12


def possible(benchmark: BenchmarkFixture, broken: str | None) -> None:
    """Refuse to compare what cannot be compared.

    Args:
        benchmark: of the test.
        broken: a conformance test that the loader failed in this run, or None.

    Raises:
        NotMeasured: says what is in the way.
    """
    if broken:
        msg = (
            f"the loader does not keep what it owes ({broken}): how fast it does the wrong thing is no matter"
        )
        raise NotMeasured(msg)
    if benchmark.disabled:
        msg = "pytest-benchmark is disabled, and nothing was timed: leave out --benchmark-disable"
        raise NotMeasured(msg)


def blocks_for(choices: Choices, loaders: int) -> int:
    """Return how many blocks each of so many loaders gets.

    Raises:
        NotMeasured: fewer were asked for than the level needs.
    """
    needed = blocks_needed(loaders * len(Measure))
    if choices.blocks is not None and choices.blocks < needed:
        msg = (
            f"{choices.blocks} blocks decide nothing: {loaders} loaders with {len(Measure)} measures each share the"
            f" level of 1 %, which needs {needed}. Give --loader-gate-blocks {needed}, or fewer loaders"
        )
        raise NotMeasured(msg)
    return choices.blocks or max(_USUAL, needed)


def measure(
    subject: Judged, benchmark: BenchmarkFixture, gate: Gatekeeper
) -> tuple[Measured, dict[str, Any]]:
    """Measure a loader beside its base.

    Args:
        subject: the loader.
        benchmark: holds one epoch of training of each block, and the record.
        gate: of this run.

    Returns:
        What was measured, and the record of it, in which the answer is still missing.

    Raises:
        NotMeasured: it cannot be compared.
    """
    blocks = blocks_for(gate.choices, len(gate.loaders))
    scenario = subject.timed_scenario()
    arms = _arms(subject, gate.bases, scenario)
    session, label = subject.session, subject.case.label
    _with_stored(
        Measured(label, "", []), Record(label, environment.fingerprint(), {}, "", {}), gate
    )  # or fail now
    session.close()  # nothing may run beside what is timed
    seed = seed_of(label, session.settings.seed)
    contest = Contest(arms, session.settings.device, session.settings.timeout_s, seed, subject.progress)
    with closing(Run(contest, blocks)) as run:
        benchmark.pedantic(run.round, setup=run.before_round, rounds=blocks)  # type: ignore[no-untyped-call]
        run.finish()
    _same_figures(run)
    base = arms[BASE][0].name if BASE in arms else gate.bases.name
    measured = Measured(label, base, run.blocks)
    ours = _record(measured, run, scenario)
    record = benchmark.extra_info[stored.KEY] = ours.as_data()
    return _with_stored(measured, ours, gate), record


def _arms(subject: Judged, bases: Bases, scenario: Scenario) -> dict[str, tuple[Side, Scenario]]:
    try:
        candidate, base = bases.sides(subject.case.spec)
    except BaseError as error:
        raise NotMeasured(str(error)) from None
    arms = {CANDIDATE: (candidate, scenario)}
    if base:
        asked = _as_asked(subject, base.spec, scenario) if bases.kind is Kind.LOADER else scenario
        arms |= dict.fromkeys((BASE, AGAIN), (base, asked))
    return arms


def _as_asked(subject: Judged, spec: str, scenario: Scenario) -> Scenario:
    """Return the scenario for another loader, in its first variant, with as many workers if it takes any."""
    try:
        about = subject.session.describe(spec)
    except (registry.LoaderError, SubjectError) as error:
        msg = f"the base {spec} cannot be used: {error}"
        raise NotMeasured(msg) from None
    workers = subject.case.workers if Promise.WORKERS in about.promises else 0
    setup = next(iter(about.variants.values()))
    if workers < setup.min_workers:
        msg = f"the base {spec} needs at least {setup.min_workers} workers, and {subject.case.label} has {workers}"
        raise NotMeasured(msg)
    request = replace(scenario.request, num_workers=workers, options=dict(setup.options))
    return replace(scenario, request=request)


def _same_figures(run: Run) -> None:
    """Refuse a run in which the kernel told memory now and then.

    Raises:
        NotMeasured: it did.
    """
    told = {seen.peak_bytes is None for block in run.blocks for seen in block.seen.values()}
    if len(told) > 1:
        msg = "the kernel told the memory of some processes and not of others: run it again"
        raise NotMeasured(msg)


def _record(measured: Measured, run: Run, scenario: Scenario) -> Record:
    """Return what is kept of a loader; undecided, and so no baseline, until the gate has answered."""
    setup, request = cast("Setup", run.setup), scenario.request
    work: dict[str, str | int] = {
        "data": f"{setup.samples} samples of {scenario.data}",
        "samples": setup.samples,
        "batches": setup.batches,
        "batch_size": request.batch_size,
        "seed": request.seed,
        "device": setup.device,
        "processes": len(run.blocks[0].seen),
    }
    known = {str(one): levels for one in Measure if (levels := measured.levels(one))}
    return Record(measured.loader, environment.fingerprint(), work, "undecided", known)


def _with_stored(measured: Measured, ours: Record, gate: Gatekeeper) -> Measured:
    """Add the base's levels, if these are of an earlier run.

    Raises:
        NotMeasured: there is none that is comparable.
    """
    any_machine = gate.choices.any_machine
    try:
        if gate.bases.kind is Kind.STORED:
            there = stored.newest(stored.folder(gate.config), ours, any_machine=any_machine)
        elif gate.bases.file:
            there = stored.of_file(gate.bases.file, ours, any_machine=any_machine)
        else:
            return measured
    except Unusable as error:
        raise NotMeasured(str(error)) from None
    return replace(measured, base=there.source, stored=there.to_ceiling)
