"""The seed and the epoch decide the order, and nothing else does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from loaderproof.loaders import Promise, registry
from loaderproof.suite import pinned
from loaderproof.suite.conformance.scenarios import shuffled
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch, Observation, Scenario

WATCH = "watching:watch"
# More workers than samples: some have nothing to read, others nothing to wait for.
SAMPLES, WORKERS = 12, 13


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
@pytest.mark.filterwarnings("default::loaderproof.suite.pinned.OrderChanged")
def test_order_does_not_depend_on_time(subject: Judged) -> None:
    """With one seed the order is the same when reading takes longer now and then, and with more workers than samples.

    For the built-in loaders it is also compared with the order that was recorded; another one is a warning.

    Why: an order that depends on how busy the machine is cannot be repeated, neither to compare two runs nor
    to find a fault; and one that depends on a library's version ends with the next upgrade.

    Reports: tensorflow/tensorflow PR#34180

    Causes: results that are handed out as they get ready, perhaps only where there are more readers than
    files to read; threads that take from one generator.

    Remedy: hand results out in the order in which they were asked for (`deterministic=True`,
    `in_order=True`, `imap` instead of `imap_unordered`).
    """
    plain = shuffled(subject)
    if not _same(subject.run(WATCH, plain), subject.run("watching:watch_again", plain)):
        return  # test_same_seed_gives_the_same_orders reports it
    for scenario in (plain, *_crowded(subject)):
        seen, slow = (subject.run("randomness:watch", scenario, jitter=jitter) for jitter in (False, True))
        for one, other in zip(seen.epochs, slow.epochs, strict=False):
            if _bag(one) == _bag(other) and not np.array_equal(one.index, other.index):
                subject.fail(
                    Place(scenario, one.number),
                    expected=f"the order that it has when reading is quick: {_shown(one)}",
                    got=f"{_shown(other)}, when reading takes longer now and then",
                    hint="what is ready first is handed out first; ask the library for a deterministic order",
                )
    _compare_with_recorded(subject)


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
def test_set_epoch_gives_the_order_of_that_epoch(subject: Judged) -> None:
    """After set_epoch(k) the order is that of epoch k in an uninterrupted run, in a fresh loader and in a used one.

    Why: a run that is taken up again in epoch k would else see the samples in the order of another epoch, and
    ranks that were started at different times would read different orders.

    Reports: huggingface/datasets#6673

    Causes: set_epoch changes the object in the parent process, while workers keep the copy that they got;
    epochs that the object counts itself, whatever it is told.

    Remedy: make the generator of an epoch from seed and epoch when the epoch begins, and send the number of
    the epoch to workers that live on.
    """
    scenario = shuffled(subject)
    whole = subject.run(WATCH, scenario)
    if not _same(whole, subject.run("watching:watch_again", scenario)):
        return  # test_same_seed_gives_the_same_orders reports it
    for told, left, where in (
        ((2,), False, "a fresh loader"),
        ((2, 0), True, "a loader whose epoch 0 was left early"),
    ):
        seen = subject.run("randomness:watch_told", scenario, told=told, left=left)
        for epoch in seen.epochs:
            owed = whole.epochs[epoch.number]
            if _bag(epoch) == _bag(owed) and not np.array_equal(epoch.index, owed.index):
                subject.fail(
                    Place(scenario, epoch.number),
                    expected=f"the order of epoch {epoch.number}: {_shown(owed)}",
                    got=f"{_shown(epoch)}, from {where} after set_epoch({epoch.number})",
                    hint="set_epoch reaches only the parent's copy, or the loader counts epochs itself",
                )


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
def test_same_seed_gives_the_same_orders_in_another_process(subject: Judged) -> None:
    """With one seed a loader in another process delivers the same epochs in the same orders.

    For a built-in loader the order that was recorded is that of another process.

    Why: every run is a process of its own. A seed that repeats the order only within one repeats no run, and
    the processes of a distributed run, which share a seed, would each cut their part out of another order.

    Causes: `hash()` of a text, which Python salts anew in each process; the order of a set of texts; `id()`,
    the process's number or the time in the seed.

    Remedy: seed with numbers alone, such as `numpy.random.default_rng((seed, epoch))`; make a number of a text
    with `hashlib` or `zlib.crc32`; sort what comes out of a set.
    """
    if subject.session.settings.isolation == "none":
        pytest.skip("--loader-isolation none: there is no other process")
    if subject.case != subject.session.first_of(subject.case.spec):
        pytest.skip("one more process is started for each loader, in the first of its cases")
    scenario = shuffled(subject)
    here = subject.run(WATCH, scenario)
    if not _same(here, subject.run("watching:watch_again", scenario)) or _as_recorded(subject):
        return  # test_same_seed_gives_the_same_orders reports it, or it is known
    there = subject.ask(WATCH, Place(scenario), afresh=True, scenario=scenario)
    for one, other in zip(here.epochs, there.epochs, strict=False):
        if _bag(one) == _bag(other) and not np.array_equal(one.index, other.index):
            subject.fail(
                Place(scenario, one.number),
                expected=f"the order that it has in the first process: {_shown(one)}",
                got=f"{_shown(other)}, in another process",
                hint="hash() of a text, the order of a set, id() or the time decides; seed with numbers alone",
            )


def _crowded(subject: Judged) -> list[Scenario]:
    """Return epochs with more workers than samples, for loaders with workers."""
    if subject.case.workers == 0:
        return []
    scenario = subject.scenario(
        f"probe:{SAMPLES}:12x20x3",
        epochs=3,
        batch_size=1,
        shuffle=True,
        seed=subject.seed,
        num_workers=WORKERS,
    )
    return [scenario]


def _compare_with_recorded(subject: Judged) -> None:
    entry = _recorded(subject)
    if entry:
        complaint = entry.complaint(_orders(subject), pinned.versions_of(subject.case))
        if complaint:
            warnings.warn(f"{subject.case.label}: {complaint}", pinned.OrderChanged, stacklevel=2)


def _as_recorded(subject: Judged) -> bool:
    """Tell whether a built-in loader gives the order that was recorded, in another process than this one."""
    entry = _recorded(subject)
    return entry is not None and entry.orders == _orders(subject)


def _recorded(subject: Judged) -> pinned.Pinned | None:
    built_in = subject.case.spec in registry.BUILTIN
    return pinned.recorded().get(subject.case.label) if built_in else None


def _orders(subject: Judged) -> list[list[int]]:
    return pinned.orders_of(subject.run(WATCH, pinned.scenario_of(subject.case)))


def _same(one: Observation, other: Observation) -> bool:
    """Tell whether two loaders gave the same samples in the same orders."""
    pairs = zip(one.epochs, other.epochs, strict=False)
    return all(np.array_equal(first.index, second.index) for first, second in pairs)


def _bag(epoch: Epoch) -> list[int]:
    return sorted(epoch.index.tolist())


def _shown(epoch: Epoch) -> str:
    order = epoch.index
    return ", ".join(f"#{place}" for place in order[:10]) + (", ..." if len(order) > 10 else "")
