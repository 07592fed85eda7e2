"""Several ranks: all of them together get everything, once, in a real process group."""

from __future__ import annotations

import pytest

from loaderproof.loaders import Promise, Uneven
from loaderproof.suite.conformance.group import (
    DROPPED,
    FEW,
    LEFT,
    PATIENCE,
    PLAIN,
    SHUFFLED,
    THE_END,
    UNSHUFFLED,
    epochs_of,
    observed,
    right,
    stable,
    watched,
    worlds_of,
)
from loaderproof.suite.dealing import deals
from loaderproof.suite.judged import Judged, Place, samples
from loaderproof.suite.sharding import Sharded, Trouble

pytestmark = pytest.mark.promises(Promise.SHARDING)


def test_every_rank_reaches_the_end(subject: Judged) -> None:
    """No rank raises, dies or waits for ever, not even when another leaves its epoch early.

    Why: training steps wait for all ranks. One that stops takes hours of all the others with it, until
    a time-out somewhere in the communication that does not say which it was.

    Reports: huggingface/datasets#6623

    Causes: a rank that has no sample when there are more ranks than samples; ranks that wait for each other
    at every batch; a port, a file or a directory that only one process can have.

    Remedy: give an empty epoch for an empty share, or refuse it on every rank alike; let ranks agree at
    the start of an epoch, never within it.
    """
    found = observed(subject)
    for trouble in found.troubles:
        if not _refused_by_all(trouble, found):
            who = "a rank" if trouble.rank is None else f"rank {trouble.rank} of {trouble.step.world}"
            subject.fail(Place(trouble.step.of(trouble.rank or 0)), f"{who}: {trouble.text}")
    for deal, place in epochs_of(found, *UNSHUFFLED, SHUFFLED, DROPPED, LEFT):
        if not deal.ended:
            shares = [len(epoch.index) for epoch in deal.epochs]
            subject.fail(
                place,
                expected="an end on every rank",
                got=f"{shares} samples on ranks 0 to {deal.world - 1}, and more to come",
                hint="a repeat or cycle without a count, or a rank that waits for the others' end",
            )


def test_ranks_are_disjoint(subject: Judged) -> None:
    """No sample comes on two ranks or twice on one, but for the padding that is declared.

    Why: a sample that comes on two ranks counts twice. In evaluation that shifts the metric, in training
    the effective number of epochs and of ranks.

    Reports: pytorch/pytorch#25162, huggingface/datasets#7868

    Causes: the rank is not passed on to the reader; sources are mixed after they were split, so that the
    mixture reads the whole again; the end is filled up so that all ranks have equally many.

    Remedy: split last, by `request.rank` and `request.world_size`. If the end is filled up on purpose,
    declare `uneven=Uneven.PADDED`.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, *UNSHUFFLED):
        if deal.ended and deal.too_many(uneven):
            first = deal.repeated[0]
            allowed = f", or {deal.world - 1} twice at the most" if uneven is Uneven.PADDED else ""
            subject.fail(
                place,
                expected=f"each of {deal.seen[0].count} samples on one rank{allowed} (uneven={uneven.value!r})",
                got=f"repeated {samples(deal.seen[0], deal.repeated)}; {deal.where(int(first))}",
                hint="the rank does not arrive, or the end is filled up without being declared",
            )


def test_ranks_are_complete_together(subject: Judged) -> None:
    """Every sample comes on some rank, but for the rest that is declared to be dropped.

    Why: samples that come on no rank are never trained on, or are missing from the metric, and each rank
    alone looks right.

    Reports: pytorch/pytorch#33413

    Causes: another number of ranks in the split than there is; a rest that is cut off so that ranks have
    equally many; a last batch that gets lost on one rank.

    Remedy: split by `request.world_size`. If the rest is left out on purpose, declare
    `uneven=Uneven.DROPPED`.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, *UNSHUFFLED):
        if deal.ended and deal.too_few(uneven):
            allowed = f" but {deal.world - 1} at the most" if uneven is Uneven.DROPPED else ""
            subject.fail(
                place,
                expected=f"all of {deal.seen[0].count} samples{allowed} (uneven={uneven.value!r})",
                got=f"{deal.shares} samples on ranks 0 to {deal.world - 1}; on none of them"
                f" {samples(deal.seen[0], deal.missing)}",
                hint="a wrong number of ranks, or a rest that is dropped without being declared",
            )


@pytest.mark.promises(Promise.SHUFFLE)
def test_ranks_shuffle_with_one_seed(subject: Judged) -> None:
    """Shuffled, too, ranks are disjoint and complete together in every epoch.

    Why: ranks that draw different orders and take every n-th sample of them overlap and leave gaps, by
    chance a third of the data with two ranks, and no rank can see it.

    Reports: huggingface/datasets#5696, NVlabs/LongLive#71, karpathy/llm.c#792

    Causes: the rank is added to the seed of the order; no seed, so that each process draws its own; the
    epoch is told to one rank only.

    Remedy: seed the order with seed and epoch alone, and the augmentation with the rank as well; call
    set_epoch on every rank.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, SHUFFLED):
        # What is wrong without shuffling, too, is reported by the tests of that.
        if not deal.ended or deal.right(uneven) or not right(found, PLAIN, deal.world, uneven):
            continue
        subject.fail(
            place,
            expected=f"each of {deal.seen[0].count} samples on one rank, as without shuffling",
            got=f"{len(deal.repeated)} of them more than once, {len(deal.missing)} never"
            + (f"; {deal.where(int(deal.repeated[0]))}" if deal.repeated.size else ""),
            hint="ranks shuffle with different seeds"
            if place.epoch == 0
            else "the number of the epoch does not reach every rank",
        )


@pytest.mark.promises(Promise.SHUFFLE, Promise.RESHUFFLING)
def test_shuffling_moves_samples_between_ranks(subject: Judged) -> None:
    """Shuffled, a rank gets other samples in each epoch, not its own in another order.

    Why: a rank that sees one part of the data for ever trains on sorted or clustered data badly: reported
    are 2 % accuracy instead of 47 %.

    Reports: meta-pytorch/data#302, webdataset/webdataset PR#73

    Causes: the data is split first and shuffled afterwards, on each rank by itself.

    Remedy: shuffle the whole with a seed that all ranks share, then split. A loader that means to shuffle
    within its own part declares `shuffle_buffer`.
    """
    if subject.case.setup.shuffle_buffer is not None:
        pytest.skip(f"it promises a buffer of {subject.case.setup.shuffle_buffer}, no shuffle of the whole")
    # Two ranks of a right loader keep their sets over three epochs with probability 1/C(23, 11)**2, 5.5e-13;
    # one of three does with 2/C(23, 8)**2 + 1/C(23, 7)**2, 2.5e-11.
    found, uneven = watched(subject)
    for world in worlds_of(found, SHUFFLED):
        epochs = [deal.sets for deal in deals(found.watched[SHUFFLED, world])]
        if world == 1 or not right(found, SHUFFLED, world, uneven) or not stable(found, world):
            continue
        kept = [rank for rank in range(world) if len({sets[rank] for sets in epochs}) == 1]
        if kept and len(epochs) > 1:
            seen = found.watched[SHUFFLED, world][kept[0]]
            subject.fail(
                Place(seen.scenario),
                expected="another part of the data in each epoch",
                got=f"in all {len(epochs)} epochs the same {samples(seen, sorted(epochs[0][kept[0]]))}",
                hint="the data is split first, then each rank shuffles its own part",
            )


def test_ranks_cover_the_data_together(subject: Judged) -> None:
    """Every sample of the data of the run comes on exactly one rank, with its label.

    Why: what holds for 23 samples may fail for real data, with its many files, its cache and its size.

    Causes: files that are dealt out twice or never; a rest that is dropped or filled up.

    Remedy: see which samples are missing or repeated: a whole file, the end, or every n-th.
    """
    if subject.case.description.tolerance:
        pytest.skip("its values are not exact, so whole data cannot be told by them; the small probes are")
    if subject.truth:
        pytest.skip("all tests of ranks are over its own data, whole")
    found, uneven = watched(subject)
    if not found.whole:
        pytest.skip(f"not observed, for the reason that {THE_END} gives")
    for (_, world), whole in found.whole.items():
        scenario = subject.data_scenario("train", shuffle=True, seed=subject.seed, world_size=world)
        if whole.images is None:
            continue
        different = subject.ask(
            "launch:named",
            Place(scenario),
            times=PATIENCE,
            scenario=scenario,
            images=whole.images,
            labels=whole.labels,
        )
        repeated, missing = (world - 1 if uneven is one else 0 for one in (Uneven.PADDED, Uneven.DROPPED))
        wrong = different.foreign or different.mislabelled
        if wrong or len(different.repeated) > repeated or len(different.missing) > missing:
            subject.fail(
                Place(scenario),
                expected=f"each sample on one of {world} ranks (uneven={uneven.value!r})",
                got=f"{whole.came.count} samples; {different}",
                hint="files dealt out twice or never, or an end that is filled up or dropped undeclared",
            )


def _refused_by_all(trouble: Trouble, found: Sharded) -> bool:
    """Tell whether all ranks refused, which leaves none waiting, to share out fewer samples than they are."""
    alike = [one for one in found.troubles if one.step == trouble.step]
    return trouble.step.name == FEW and len(alike) == trouble.step.world
