"""Random augmentation: what is drawn for each sample."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite import echo
from loaderproof.suite.conformance.augmented import (
    DRAWN,
    FEW,
    ROUNDING,
    augmented,
    between_ranks,
    between_workers,
    first_difference,
    moved,
    repeated,
    repeating,
    same_samples,
    shared,
    shares_in_batches,
    shown,
    with_apart,
)
from loaderproof.suite.draws import PIXELS, Drawn
from loaderproof.suite.judged import Judged, Place, samples


@pytest.mark.promises(Promise.AUGMENTATION)
def test_augmented_samples_keep_their_ids_and_labels(subject: Judged) -> None:
    """With augmentation every batch carries ids, every sample comes once, and labels stay with their samples.

    Why: a sample that was changed at random cannot be told by its pixels any more, so only its id says
    whether all came, and whether its label is its own.

    Causes: ids that count the samples as they come instead of naming their place in the source;
    augmentation that shuffles the images of a batch but not its labels.

    Remedy: give the batch a third part, a dict with the int64 tensor `id`: the place of each sample
    in the source.
    """
    seen = subject.run(DRAWN, augmented(subject))
    for one in seen.passes:
        place, count = Place(seen.scenario, one.number), len(seen.labels)
        if one.ids is None or not np.all((one.ids >= 0) & (one.ids < count)):
            subject.fail(
                place,
                expected=f"the place in the source of each sample as `id`, 0 to {count - 1}",
                got="no `id` in the batches" if one.ids is None else f"ids such as {one.ids[:5].tolist()}",
                hint="the third part of a batch is left out, or counts something else",
            )
        wrong = np.flatnonzero(one.labels != seen.labels[one.ids])
        if wrong.size:
            first = wrong[0]
            subject.fail(
                replace(place, batch=int(one.batch[first])),
                expected=f"sample #{one.ids[first]} with its label {seen.labels[one.ids[first]]}",
                got=f"label {one.labels[first]}; {wrong.size} of {len(one.labels)} samples have a wrong one",
                hint="ids count the samples as they come, or images, labels and ids are not reordered together",
            )
        _expect_each_once(subject, seen, place, one.ids)


def _expect_each_once(subject: Judged, seen: Drawn, place: Place, ids: np.ndarray) -> None:
    times = np.bincount(ids, minlength=len(seen.labels))
    if np.all(times == 1):
        return
    plain = replace(seen.scenario, request=replace(seen.scenario.request, augment=False))
    whole = subject.run("watching:watch", plain)
    # What is not complete without augmentation either, other tests report.
    if all(np.array_equal(np.sort(epoch.index), np.arange(whole.count)) for epoch in whole.epochs):
        missing, repeated = np.flatnonzero(times == 0), np.flatnonzero(times > 1)
        subject.fail(
            place,
            expected=f"each of {len(times)} samples once, as without augmentation",
            got=f"missing {samples(whole, missing)}; repeated {samples(whole, repeated)}",
            hint="samples are mixed, dropped or drawn with replacement where they are augmented",
        )


@pytest.mark.promises(Promise.AUGMENTATION)
def test_draws_differ_between_samples(subject: Judged) -> None:
    """With augmentation the samples of an epoch do not all get the same draw.

    Why: an augmentation that does the same to every sample adds no variety, it only moves the data.

    Causes: a generator that is made from the seed anew for each sample; a probability of 0; a
    transform that is left out.

    Remedy: make the generator once for each epoch and worker, or from seed, epoch and id. A draw that
    is taken in fewer than one sample in 40 shows too seldom: let the batch carry the number that was
    drawn, not the decision that follows from it.
    """
    # A right loader fails where 900 draws, or those of each of three epochs, are all equal: for a fair
    # coin with probability 2**-897, for one that falls on the other side once in 40 times with 1.3e-10.
    seen = subject.run(DRAWN, augmented(subject))
    for family in seen.families:
        values = [np.unique(one.drawn[family]) for one in seen.passes]
        if all(len(one) <= 1 for one in values):
            same = len(np.unique(np.concatenate(values))) <= 1
            subject.fail(
                Place(seen.scenario),
                expected=f"draws of {family!r} that differ among {len(seen.labels)} samples",
                got=f"one for all of them, {'the same' if same else 'another'} in each epoch"
                if family != PIXELS
                else "the same pixels wherever the source has the same: nothing is changed, or all in one way",
                hint="a generator made anew for each sample, a probability of 0, or a transform left out",
            )


@pytest.mark.promises(Promise.AUGMENTATION)
def test_draws_are_taken_for_each_sample(subject: Judged) -> None:
    """With augmentation the samples of a batch do not all get one draw, unless the batch says so.

    Why: a batch that is flipped as a whole, or not at all, sees a fraction of the variety, and its
    gradient varies more than it should.

    Causes: a transform that is written for one image and is called with a batch of them: those of
    torchvision draw once for each call.

    Remedy: call the transform for each sample, before the batch is put together. One draw for a batch
    may be what you want, as with mixup or sizes that change from batch to batch: then let the batch
    carry the number that was drawn, once for each of its samples, or declare a Deviation from this
    test, or do not promise augmentation.
    """
    # UNCOMMON tells how seldom a right loader shows it in one epoch; here all epochs have to.
    seen = subject.run(DRAWN, augmented(subject))
    said = any(one.stream(name).by_batch for one in seen.passes for name in seen.families if name != PIXELS)
    streams = [one.stream(PIXELS) for one in seen.passes]
    if not said and all(map(shares_in_batches, streams)):
        subject.fail(
            Place(seen.scenario),
            expected="pixels that are changed for each sample",
            got="one change for all samples of a batch, in every batch, another from batch to batch",
            hint="a transform that draws once for each call is called with whole batches",
        )


@pytest.mark.promises(Promise.AUGMENTATION, Promise.WORKERS)
def test_workers_draw_differently(subject: Judged) -> None:
    """With augmentation no two workers draw the same stream.

    Why: with W workers that draw alike, W samples in turn are augmented in the same way; the variety of
    the augmentation falls to a W-th, and nothing else shows it.

    Reports: pytorch/pytorch#5059, open-mmlab/OpenPCDet#886, facebookresearch/fairseq#1383

    Causes: forked workers inherit the state of NumPy's or Python's global generator; a generator that is
    kept in the data set is copied into each worker.

    Remedy: seed in the worker: `worker_init_fn` with `torch.initial_seed()`, or a generator made from
    seed, epoch and id of the sample.
    """
    if subject.case.workers == 0:
        pytest.skip("without workers there is only one stream; --loader-workers 2 makes two")
    workers = max(2, subject.case.workers)
    seen, apart, alone = (
        subject.run(DRAWN, augmented(subject, num_workers=number, seed=subject.seed + shift))
        for number, shift in ((workers, 0), (workers, 1), (0, 0))
    )
    for family in shared(seen, apart, alone):
        one, other, lone = (run.passes[0].stream(family) for run in (seen, apart, alone))
        way = between_workers(one, other, lone, workers)
        if way:
            subject.fail(
                Place(seen.scenario, 0),
                expected=f"draws of {family!r} that differ between workers",
                got=f"{way}: {shown(one)}",
                hint="workers inherit one state of a generator; seed it in each, by worker_init_fn or from the id",
            )


@pytest.mark.promises(Promise.AUGMENTATION, Promise.SHARDING)
def test_ranks_draw_differently(subject: Judged) -> None:
    """With augmentation no two ranks draw the same stream.

    Why: ranks that draw alike augment the samples of one step in the same way, so the gradient that is
    averaged over them sees less variety than it should.

    Reports: NVIDIA-BioNeMo/nvSubquadratic PR#140

    Causes: generators that are seeded without the rank, often by a `worker_init_fn` that replaces one
    which knew the rank; rank + worker as a seed, which gives rank 0, worker 1 what rank 1, worker 0 has.

    Remedy: seed with all of seed, epoch, rank and worker, mixed (`numpy.random.SeedSequence`) instead
    of added, or with seed, epoch and id of the sample.
    """
    first, second, apart = (
        subject.run(DRAWN, augmented(subject, epochs=1, rank=rank, world_size=2, seed=subject.seed + shift))
        for rank, shift in ((0, 0), (1, 0), (1, 1))
    )
    workers = max(1, subject.case.workers)
    for family in shared(first, second, apart):
        one, another, other = (run.passes[0].stream(family) for run in (first, second, apart))
        way = between_ranks(one, another, other, workers)
        if way:
            subject.fail(
                Place(second.scenario, 0),
                expected=f"draws of {family!r} that differ from those of rank 0",
                got=f"{way}: {shown(another)} after {shown(one)}",
                hint="the seed of a generator leaves the rank out, or adds it to the number of the worker",
            )


@pytest.mark.promises(Promise.AUGMENTATION)
def test_every_epoch_draws_anew(subject: Judged) -> None:
    """With augmentation a sample gets a new draw in every epoch, from each family, and not its neighbour's.

    Why: draws that repeat from epoch to epoch make a fixed data set out of one that should vary, which
    costs accuracy and shows nowhere else. Draws that move on by a sample are as few.

    Reports: xingyizhou/CenterNet#233, Lightning-AI/pytorch-lightning#20412, tensorflow/tensorflow#47755

    Causes: workers that are forked anew from a parent whose generators never move; a generator that is
    seeded at the start of each epoch, perhaps only one of several families; augmentation before a cache;
    seed, epoch and id that are added up, so that a sample draws what the next one drew an epoch before.

    Remedy: make the epoch a part of the seed, for random, NumPy and torch alike, mixed with the others
    (`numpy.random.SeedSequence((seed, epoch, id))`); put the cache in front of the augmentation.
    """
    seen, apart = with_apart(subject)
    for family in shared(seen, apart):
        for earlier, later in itertools.combinations(range(len(seen.passes)), 2):
            way = repeated(seen, earlier, later, apart, family)
            one, other = (seen.passes[epoch].stream(family) for epoch in (earlier, later))
            further = None if way else moved(one, other)
            if way or further:
                subject.fail(
                    Place(seen.scenario, later),
                    expected=f"draws of {family!r} that differ from those of epoch {earlier}",
                    got=f"the same, {way}: {shown(other)}"
                    if way
                    else f"the same for other samples: {further} from where epoch {earlier} had them",
                    hint="a generator is seeded alike for each epoch, augmented samples are cached or changed in place"
                    if way
                    else "seed + epoch + index added up instead of mixed; use SeedSequence((seed, epoch, index))",
                )


@pytest.mark.promises(Promise.AUGMENTATION, Promise.SEEDED_ORDER)
def test_same_seed_gives_the_same_draws(subject: Judged) -> None:
    """With one seed a sample gets the same draws from two loaders, though reading takes longer now and then.

    Why: without it no run with augmentation can be repeated, and no fault in it be found.

    Reports: tensorflow/tensorflow#44491, tensorflow/tensorflow#34909, tensorflow/tensorflow#13932

    Causes: threads or parallel calls that take from one generator in the order in which they get there; a
    global generator that nobody seeds.

    Remedy: derive each sample's draws from seed, epoch and id, as with `tf.random.stateless_uniform` or
    `numpy.random.default_rng((seed, epoch, id))`; give workers seeds of their own.
    """
    scenario = augmented(subject, data=FEW, epochs=2)
    seen, slow = subject.run(DRAWN, scenario), subject.run(DRAWN, scenario, jitter=True)
    found = first_difference(seen, slow)
    if found:
        raced = first_difference(seen, subject.run("randomness:drawn_again", scenario)) is None
        subject.fail(
            Place(scenario, found[1]),
            expected=f"the draws of {found[0]!r} that the first loader had",
            got=found[2] + (", when reading is slow now and then" if raced else ""),
            hint="parallel calls race for one generator"
            if raced
            else "the seed is not passed on to this family of generators, or a global one is used",
        )


@pytest.mark.promises(Promise.AUGMENTATION, Promise.SEEDED_ORDER)
def test_another_seed_gives_other_draws(subject: Judged) -> None:
    """With another seed a sample gets other draws.

    Why: runs with several seeds are compared to see what chance does; draws that ignore the seed hide it.

    Causes: a constant seed, or one from the epoch or the id alone.

    Remedy: make `request.seed` a part of every generator's seed.
    """
    seen, other = with_apart(subject)
    for family in shared(seen, other):
        one, another, apart = (
            run.passes[epoch].stream(family) for run, epoch in ((seen, 0), (other, 0), (seen, 1))
        )
        way = repeating(one, another, apart)
        if way:
            subject.fail(
                Place(other.scenario, 0),
                expected=f"draws of {family!r} that differ from those with seed={seen.scenario.request.seed}",
                got=f"the same, {way}: {shown(another)}",
                hint="the seed is a constant, or is not passed on to this family of generators",
            )


@pytest.mark.promises(Promise.AUGMENTATION)
def test_augmentation_does_not_compound(subject: Judged) -> None:
    """Each epoch augments the samples as they are in the source, not as an earlier epoch left them.

    Why: changes that add up from epoch to epoch drift far away from the data; training gets worse the longer
    it goes on. Workers that are forked anew for each epoch hide it.

    Reports: facebookresearch/pycls PR#21

    Causes: a transform that works in place (`+=`, `out=`, `add_`) on samples that are kept in memory.

    Remedy: copy before changing, or use the transform that returns a new array.
    """
    # All samples have the same pixels and label, so what an epoch made of one says nothing about what
    # the next makes of it, unless that began where the first left off. One comparison of 12 is wrong
    # in a right loader with probability 1.2e-10.
    scenario = augmented(subject)
    seen, apart = with_apart(subject)
    pairs = list(itertools.combinations(range(len(seen.passes)), 2))
    if any(repeated(seen, *pair, apart, family) for family in shared(seen, apart) for pair in pairs):
        return  # test_every_epoch_draws_anew reports it
    kin = subject.run(DRAWN, scenario, one_label=True)
    for earlier, later in pairs if kin.carries_ids else ():
        one, other = same_samples(kin.passes[earlier], kin.passes[later])
        if any(echo.depend(*figures) < echo.RARE for figures in zip(one.T, other.T, strict=True)):
            sizes = [kin.passes[epoch].away[:, 0].mean() for epoch in (earlier, later)]
            subject.fail(
                Place(scenario, later),
                expected=f"samples that are changed whatever epoch {earlier} did to them",
                got=f"those that epoch {earlier} changed most are changed most again; pixels are off by"
                f" {sizes[1]:.4f} in the mean, after {sizes[0]:.4f}",
                hint="a transform works in place on samples that are kept, so changes add up",
            )


@pytest.mark.promises(Promise.AUGMENTATION)
def test_augmentation_ends_where_it_is_not_asked_for(subject: Judged) -> None:
    """Without augmentation nothing is drawn or changed, not even after a loader over the same source augmented it.

    Why: evaluation must see the data as it is, while training in the same process augments it.

    Causes: a transform that works in place on what the source handed out; a cache of augmented samples
    that loaders share; a switch that reaches only a part of the transforms.

    Remedy: copy before changing; keep caches in the loader, in front of the augmentation.
    """
    scenario = augmented(subject, data=FEW, epochs=2)
    found = subject.run("randomness:untouched", scenario)
    allowed = subject.case.description.tolerance + ROUNDING
    wrong = int((~(found.after <= allowed)).sum())
    got = [f"batches that carry {', '.join(found.carried)}"] if found.carried else []
    got += (
        [f"{len(found.changed)} changed samples in the source, first #{found.changed[0]}"]
        if found.changed
        else []
    )
    # Values that are wrong before any augmentation are reported by the test of values.
    got += (
        [f"{wrong} samples that differ from the source"] if wrong and np.all(found.before <= allowed) else []
    )
    if got:
        subject.fail(
            Place(scenario),
            expected="neither draws nor changes without augmentation, and the source as it was",
            got="; ".join(got),
            hint="in place on what the source handed out, or in a cache that loaders share",
        )


@pytest.mark.promises(Promise.AUGMENTATION, Promise.SEEDED_ORDER)
def test_set_epoch_gives_the_draws_of_that_epoch(subject: Judged) -> None:
    """A fresh loader that is told to begin with a later epoch draws what an uninterrupted one draws there.

    Why: a run that is taken up again at epoch 5 would else replay the draws of epoch 0.

    Reports: fangchangma/sparse-to-dense.pytorch#19

    Causes: seeds of workers that are made of the number of the worker alone, or of epochs that the object
    counts itself; set_epoch that reaches only the sampler.

    Remedy: make the epoch that set_epoch gives a part of the seed of every generator.
    """
    scenario = augmented(subject, data=FEW, epochs=2)
    seen = subject.run(DRAWN, scenario)
    if not seen.told:
        return
    fresh = subject.run("randomness:drawn_at", scenario, epoch=1)
    found = first_difference(replace(seen, passes=seen.passes[1:]), fresh)
    stable = first_difference(seen, subject.run("randomness:drawn_again", scenario)) is None
    if found and stable:  # draws that never repeat are reported by test_same_seed_gives_the_same_draws
        subject.fail(
            Place(scenario, 1),
            expected=f"the draws of {found[0]!r} that an uninterrupted run has in epoch 1",
            got=f"{found[2]}, from a fresh loader after set_epoch(1)",
            hint="set_epoch reaches the sampler but not the generators, or workers count epochs themselves",
        )
