"""Several ranks: the share that each of them gets."""

from __future__ import annotations

import pytest

from loaderproof.loaders import Promise, Uneven
from loaderproof.suite.conformance.group import (
    AGAIN,
    DROPPED,
    PLAIN,
    SHUFFLED,
    UNSHUFFLED,
    epochs_of,
    name_of,
    right,
    stable,
    watched,
    worlds_of,
)
from loaderproof.suite.dealing import Deal
from loaderproof.suite.judged import Judged, Place

pytestmark = pytest.mark.promises(Promise.SHARDING)


def test_ranks_have_equal_shares(subject: Judged) -> None:
    """All ranks have equally many samples and batches; with exact shares some have one sample more.

    Why: ranks take training steps together, so the one with fewer batches leaves the others waiting.

    Reports: huggingface/datasets#6623

    Causes: whole files or shards are dealt out, and they are not equally large; workers of a rank round
    on their own.

    Remedy: deal out samples instead of files, or pad (`Uneven.PADDED`) or drop (`Uneven.DROPPED`) to the
    same number on all ranks. With `Uneven.EXACT` one sample more can make one batch more: end the step
    loop by the number of batches of the smallest rank, or use `torch.distributed.algorithms.Join`.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, *UNSHUFFLED, SHUFFLED):
        # What is incomplete, or goes by who asks first, is reported by the tests of that.
        if deal.right(uneven) and stable(found, deal.world) and not deal.even(uneven):
            subject.fail(
                place,
                expected="as many samples and batches on each rank"
                + (", or one sample more" if uneven is Uneven.EXACT else "")
                + f" (uneven={uneven.value!r})",
                got=f"{deal.shares} samples in {deal.batches} batches on ranks 0 to {deal.world - 1}",
                hint="files or shards of unequal size are dealt out whole",
            )


@pytest.mark.promises(Promise.SOURCE_ORDER)
def test_ranks_keep_the_order_of_the_source(subject: Judged) -> None:
    """Without shuffling each rank gets its samples in the order of the source, the same in each epoch.

    Why: an order that somebody chose, by length or by difficulty, must survive being shared out; and
    results of an evaluation are put together by it.

    Reports: Lightning-AI/pytorch-lightning#21447

    Causes: a wrapper that replaces the sampler by one that shuffles as soon as there are several ranks.

    Remedy: pass shuffle=False to the distributed sampler, too; switch off the replacement of samplers.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, PLAIN):
        unordered = [rank for rank in range(deal.world) if not deal.in_order(rank)]
        other = Deal(deal.seen, 0).sets != deal.sets
        if deal.right(uneven) and stable(found, deal.world) and (unordered or other):
            rank = unordered[0] if unordered else 0
            order = ", ".join(f"#{sample}" for sample in deal.orders[rank][:10])
            subject.fail(
                place,
                expected="ranks whose samples follow the order of the source, as they did in epoch 0",
                got=f"rank {rank} got {order}, ..." if unordered else "another split than in epoch 0",
                hint="a wrapper shuffles as soon as there are several ranks",
            )


def test_split_does_not_depend_on_who_asks_first(subject: Judged) -> None:
    """Each rank gets the same samples whichever of them begins first.

    Why: a split that depends on load cannot be repeated, nor resumed, and a slow rank gets fewer samples.

    Reports: ray-project/ray#58658

    Causes: ranks take from one queue, and whoever asks gets the next.

    Remedy: compute the split from rank, number of ranks, seed and epoch.
    """
    found, _ = watched(subject)
    for world in worlds_of(found, AGAIN):
        if not stable(found, world):
            shares = [
                [_shown(part) for part in Deal(found.watched[name, world], 0).sets] for name in (PLAIN, AGAIN)
            ]
            subject.fail(
                Place(found.watched[AGAIN, world][0].scenario, 0),
                expected=f"the samples that ranks 0 to {world - 1} got when they began in falling order:"
                f" {', '.join(shares[0])}",
                got=f"others when they began in rising order: {', '.join(shares[1])}",
                hint="ranks take from one queue",
            )


@pytest.mark.promises(Promise.LENGTH)
def test_len_counts_the_batches_of_a_rank(subject: Judged) -> None:
    """On each rank len() is the number of batches that this rank gets.

    Why: schedules of the learning rate and progress bars go by it; so do ranks that stop together.

    Reports: pytorch/pytorch#40972, facebookresearch/detectron2 PR#5035

    Causes: len() counts the batches of all ranks, or divides them and rounds the other way.

    Remedy: compute it from the number of samples of this rank.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, *UNSHUFFLED, DROPPED):
        lengths = [seen.length for seen in deal.seen]
        name = PLAIN if place.scenario.request.drop_last else name_of(found, deal)
        owed = place.epoch == 0 and stable(found, deal.world)
        if owed and right(found, name, deal.world, uneven) and lengths != deal.batches:
            subject.fail(
                place,
                expected=f"len() on ranks 0 to {deal.world - 1}: {deal.batches}, as many batches as came",
                got=str(lengths),
                hint="len() is that of the whole, or is rounded the other way than the batches",
            )


@pytest.mark.promises(Promise.DROP_LAST)
def test_ranks_drop_less_than_a_batch(subject: Judged) -> None:
    """With drop_last each rank gets full batches only, and leaves out less than one batch of its share.

    Why: a rest that is cut off once for all and again for each rank or worker adds up; small data sets
    vanish altogether.

    Reports: pytorch/pytorch#33413, google/grain#1129

    Causes: drop_last is applied before and after the split; batches are made first and shared out, so that
    whole batches are left over.

    Remedy: apply it once, to the samples of the rank.
    """
    found, uneven = watched(subject)
    for deal, place in epochs_of(found, DROPPED):
        if not (deal.ended and right(found, PLAIN, deal.world, uneven) and stable(found, deal.world)):
            continue
        size = place.scenario.request.batch_size
        shares = Deal(found.watched[PLAIN, deal.world], 0).shares
        got = [[batch.size for batch in epoch.batches if batch.size] for epoch in deal.epochs]
        # A rest of the whole may be dropped before it is shared out.
        if any(
            set(sizes) - {size} or not min(shares) // size <= len(sizes) <= share // size
            for sizes, share in zip(got, shares, strict=True)
        ):
            subject.fail(
                place,
                expected=f"of {shares} samples on ranks 0 to {deal.world - 1} all full batches of {size}",
                got=f"batches of {got}",
                hint="drop_last is not passed on, or is applied to the whole and to each part",
            )


def _shown(places: frozenset[int]) -> str:
    first = ", ".join(f"#{place}" for place in sorted(places)[:3])
    return f"{len(places)} ({first}, ...)" if places else "none"
