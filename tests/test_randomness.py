from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import special, stats

from loaderproof.loaders import Request, sources
from loaderproof.suite import echo, pinned
from loaderproof.suite.conformance import augmented
from loaderproof.suite.draws import Stream
from loaderproof.suite.experiments.jitter import Jittery
from loaderproof.suite.experiments.randomness import Alike, drawn
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario

COUNT, BATCH = 300, 2
TRIALS = 200


def uniform(generator):
    """Draw a number for each sample."""
    return generator.random(COUNT)


def coin(share):
    """Return a draw that is 1 for some share of the samples."""
    return lambda generator: (generator.random(COUNT) < share).astype(int)


def angle(generator):
    """Draw one of 360 whole numbers for each sample."""
    return generator.integers(360, size=COUNT)


def for_a_batch(generator):
    """Toss a coin for each batch."""
    return np.repeat(generator.integers(2, size=COUNT // BATCH), BATCH)


def for_ten_batches(generator):
    """Draw one of ten numbers for ten batches at a time, as when the size of the images changes."""
    return np.repeat(generator.integers(10, size=COUNT // (10 * BATCH)), 10 * BATCH)


def half_of_each_batch(generator):
    """Change one of the two samples in each batch."""
    first = generator.integers(2, size=COUNT // BATCH)
    return np.stack([first, 1 - first], axis=1).reshape(-1)


def seldom(generator):
    """Change few samples, each in its own way."""
    return np.where(generator.random(COUNT) < 0.02, generator.random(COUNT), 0)


KINDS = {
    "uniform": uniform,
    "coin": coin(0.5),
    "rare coin": coin(0.1),
    "very rare coin": coin(0.01),
    "angle": angle,
    "batch": for_a_batch,
    "ten batches": for_ten_batches,
    "half a batch": half_of_each_batch,
    "seldom": seldom,
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def stream(values, order=None):
    """Return draws as a stream of batches of two, in the order of the source or another."""
    return Stream(values, np.arange(COUNT) if order is None else order, np.arange(COUNT) // BATCH)


def streams(kind, times, seed=1, many=3):
    """Yield right streams, each in an order of its own, and drawn apart from all others."""
    generator = np.random.default_rng(seed)
    for _ in range(times):
        yield [stream(kind(generator), generator.permutation(COUNT)) for _ in range(many)]


def most(trials, rate):
    """Return how many events a rate gives in so many trials, but for one time in 10,000."""
    return int(stats.binom.ppf(1 - 1e-4, trials, rate))


@every_kind
@pytest.mark.parametrize("compare", [echo.in_order, echo.by_id, echo.as_set], ids=lambda one: one.__name__)
@pytest.mark.parametrize("rate", [0.1, 0.01])
def test_chance_of_a_right_stream_is_not_understated(kind, compare, rate):
    """A right stream is given a chance below some rate no more often than that."""
    found = sum(compare(*three) < rate for three in streams(kind, TRIALS))

    assert found <= most(TRIALS, rate)


@every_kind
@pytest.mark.parametrize("rate", [0.1, 0.01])
def test_chance_of_draws_within_an_epoch_is_not_understated(kind, rate):
    """Right workers are given a chance below some rate no more often than that."""
    found = sum(echo.within(one, apart) < rate for one, apart in streams(kind, TRIALS, many=2))

    assert found <= most(TRIALS, rate)


@every_kind
@pytest.mark.parametrize("rate", [0.1, 0.01])
def test_chance_of_dependence_is_not_understated(kind, rate):
    """What two epochs make of a sample is called dependent no more often than the rate says."""
    generator = np.random.default_rng(2)
    pairs = ([kind(generator)[generator.permutation(COUNT)] for _ in range(2)] for _ in range(TRIALS))
    found = sum(echo.depend(*pair) < rate for pair in pairs)

    assert found <= most(TRIALS, rate)


@every_kind
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_right_streams_are_never_refused(kind, workers):
    """Of 60 right loaders of each kind none is found to repeat itself, its workers or its ranks."""
    found = [
        said
        for one, other, apart in streams(kind, 60, seed=workers)
        for said in (
            augmented.repeating(one, other, apart),
            augmented.between_workers(one, apart, other, workers),
            augmented.between_ranks(one, other, apart, workers),
        )
    ]

    assert {None} == set(found)


@pytest.mark.parametrize("share", [0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5])
def test_whole_repetition_of_a_coin_is_no_chance(share):
    """Whatever the coin, two epochs that are equal and change often enough come by chance below 1e-11.

    A whole epoch of some number of ones comes twice with the square of its probability; of these
    `turns` changes are at the most twice the ones.
    """
    ones = np.arange(COUNT + 1)
    ways = stats.binom.logpmf(ones, COUNT, share) + ones * np.log(share) + (COUNT - ones) * np.log1p(-share)
    turns = 2 * np.minimum(ones, COUNT - ones)

    assert np.exp(ways[0.5**turns < echo.RARE]).sum() < echo.RARE


@pytest.mark.parametrize(
    "kind", [KINDS[name] for name in ("uniform", "coin", "rare coin", "angle", "half a batch")]
)
def test_repeated_stream_is_refused(kind):
    """A whole stream that comes again is found, in the order in which it came and sample by sample."""
    generator = np.random.default_rng(3)
    one, apart = stream(kind(generator)), stream(kind(generator))
    order = generator.permutation(COUNT)
    shuffled = Stream(one.values[order], order, one.batch)

    assert [True, True] == [
        echo.in_order(one, one, apart) < echo.RARE,
        echo.by_id(one, shuffled, apart) < echo.RARE,
    ]


@pytest.mark.parametrize("kind", [uniform, angle])
def test_half_of_a_stream_that_comes_again_is_refused(kind):
    """Half of the draws of an epoch are enough, if they are fine."""
    generator = np.random.default_rng(4)
    one, apart, other = (kind(generator) for _ in range(3))
    other[::2] = one[::2]

    assert echo.by_id(*map(stream, (one, other, apart))) < echo.RARE


@pytest.mark.parametrize("kind", [uniform, coin(0.5), angle])
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("way", [0, 1, 2])
def test_workers_with_one_stream_are_refused(kind, workers, way):
    """Workers that draw alike are found, however the samples were dealt among them."""
    generator = np.random.default_rng(5)
    own, apart, alone = kind(generator), stream(kind(generator)), stream(kind(generator))
    values = np.empty_like(own)
    for places in list(echo.dealt(stream(own), workers))[way]:
        values[places] = own[: len(places)]

    assert augmented.between_workers(stream(values), apart, alone, workers) is not None


def test_ranks_that_draw_the_same_apart_by_a_turn_are_refused():
    """Ranks that draw what another drew a turn before are found by the values alone."""
    generator = np.random.default_rng(6)
    own = generator.random(COUNT + 1)

    assert (
        augmented.between_ranks(stream(own[:-1]), stream(own[1:]), stream(uniform(generator)), 1) is not None
    )


@pytest.mark.parametrize(
    ("same", "other", "of"), [(5, 2, 10), (9, 8, 10), (30, 10, 40), (150, 80, 300), (3, 3, 8), (0, 4, 9)]
)
def test_chance_of_two_rates_is_fishers(same, other, of):
    """The chance of so many more events is that of Fisher's exact test, as SciPy has it."""
    table = [[same, of - same], [other, of - other]]
    owed = stats.fisher_exact(table, alternative="greater").pvalue if same > other else 1.0

    assert pytest.approx(owed) == echo.alike(same, other, of)


def test_pairs_of_equals_in_all_batches_are_no_chance():
    """Whatever the draw, 150 pairs are all of equals and five uncommon with a chance below 1e-10.

    Where the likeliest value has a probability of 1/2 or more, the chance is largest if the rest is
    one value; where it has less, two draws are equal with a probability below 1/2.
    """
    rest = np.geomspace(1e-6, 0.5, 20_001)
    pairs = COUNT // BATCH
    uncommon = np.arange(augmented.UNCOMMON, pairs + 1)[:, None]
    ways = special.gammaln(pairs + 1) - special.gammaln(uncommon + 1) - special.gammaln(pairs - uncommon + 1)
    chances = np.exp(ways + 2 * uncommon * np.log(rest) + 2 * (pairs - uncommon) * np.log1p(-rest)).sum(
        axis=0
    )

    assert pytest.approx(5.54e-11, rel=0.01) == chances.max()
    assert 0.5**pairs < chances.max()


@pytest.mark.parametrize("kind", [name for name in KINDS if "batch" not in name or name == "half a batch"])
def test_draws_for_each_sample_are_never_taken_for_those_of_batches(kind):
    """Right draws, however coarse, are not found to be those of whole batches."""
    found = [augmented.shares_in_batches(one) for (one,) in streams(KINDS[kind], TRIALS, many=1)]

    assert [False] * TRIALS == found


@pytest.mark.parametrize("kind", [for_a_batch, lambda generator: uniform(generator).repeat(BATCH)[:COUNT]])
def test_draws_of_whole_batches_are_refused(kind):
    """One draw for each batch is found, whether it is coarse or fine; one for the whole epoch is not."""
    draws = kind(np.random.default_rng(7))

    assert augmented.shares_in_batches(stream(draws))
    assert not augmented.shares_in_batches(stream(np.zeros(COUNT)))


def whole_numbers(generator):
    """Deal the numbers of all samples, as partners for mixing."""
    return generator.permutation(COUNT)


def partners(generator):
    """Deal the numbers of the samples of each batch."""
    return generator.permuted(np.arange(COUNT).reshape(-1, BATCH), axis=1).reshape(-1)


def single(generator):
    """Draw a number of single precision for each sample."""
    return generator.random(COUNT, dtype=np.float32)


@pytest.mark.parametrize("kind", [*KINDS.values(), single, whole_numbers, partners])
def test_right_epochs_are_not_found_moved(kind):
    """Epochs that are drawn apart do not have each other's draws further on, though they have the same values."""
    generator = np.random.default_rng(8)
    pairs = ([kind(generator) for _ in range(2)] for _ in range(TRIALS))

    assert {None} == {augmented.moved(*map(stream, pair)) for pair in pairs}


@pytest.mark.parametrize("by", [1, 7, -1])
@pytest.mark.parametrize("kind", [uniform, single, whole_numbers])
def test_draws_that_move_on_by_some_samples_are_refused(kind, by):
    """Draws of an epoch that come again for other samples are found by ids and, without ids, by turns."""
    generator = np.random.default_rng(9)
    own, order = kind(generator), generator.permutation(COUNT)
    one, other = stream(own), stream(np.roll(own, -by))
    shuffled = Stream(other.values[order], order, other.batch)
    nameless = [stream(run.values, np.full(COUNT, -1)) for run in (one, other)]
    said = f"{COUNT - abs(by)} of {COUNT} values, {by:+d} in"

    assert [f"{said} ids", f"{said} turns"] == [augmented.moved(one, shuffled), augmented.moved(*nameless)]


@pytest.mark.parametrize("one_label", [False, True])
def test_alike_samples_differ_in_nothing_but_labels(one_label):
    """All samples have the pixels of the first, in memory of their own, and their own labels or the first's."""
    source = sources.load("probe:23")["train"]
    alike = Alike(source, one_label=one_label)
    images, labels = alike.arrays()
    alike[3][0][:] = 0

    assert np.all(images == source[0][0])
    assert np.array_equal(alike[3][0], source[0][0])
    assert ([source[0][1]] * 23 if one_label else source.arrays()[1].tolist()) == labels.tolist()
    assert source.key(5) == alike.key(5)
    assert 3 == len(
        {source.fingerprint, Alike(source).fingerprint, Alike(source, one_label=True).fingerprint}
    )


def test_jitter_changes_no_sample():
    """A source that is slow now and then has the samples, keys and fingerprint that it has when it is quick."""
    source = sources.load("probe:23")["train"]
    slow = Jittery(source)

    assert all(np.array_equal(one, other) for one, other in zip(source.arrays(), slow.arrays(), strict=True))
    assert (source.fingerprint, source.key(7), 23) == (slow.fingerprint, slow.key(7), len(slow))


def test_draws_of_a_loader_are_read_as_they_come():
    """Draws, ids and labels of each epoch lie in the order in which they came, NaN made comparable."""
    torch = pytest.importorskip("torch")

    class Backwards:
        description = None

        def open(self, source, *_):
            def batch(place):
                image = torch.from_numpy(source[place][0]).permute(2, 0, 1)[None] / 255
                extras = {"id": torch.tensor([place]), "none": torch.tensor([float("nan")])}
                return image, torch.tensor([source[place][1]]), extras

            return [batch(place) for place in reversed(range(len(source)))]

    bench = Workbench("resident")
    bench.adapter.open = Backwards().open
    seen = drawn(bench, Scenario("probe:5", Request(batch_size=1, augment=True), epochs=1))

    assert [4, 3, 2, 1, 0] == seen.passes[0].ids.tolist()
    assert [np.inf] * 5 == seen.passes[0].drawn["none"].tolist()
    assert seen.labels[::-1].tolist() == seen.passes[0].labels.tolist()
    assert pytest.approx(0, abs=1e-6) == np.abs(seen.passes[0].away).max()
    assert not seen.told


PINNED = pinned.Pinned({"torch": "2.0"}, [[0, 1, 2], [2, 0, 1]])


def test_recorded_order_that_comes_again_is_no_matter():
    """The order that was recorded gives no complaint, whatever the versions."""
    assert PINNED.complaint([[0, 1, 2], [2, 0, 1]], {"torch": "3.0"}) is None


def test_another_order_than_recorded_names_the_versions():
    """An order that has changed says so with the versions of then and of now, and how to record it."""
    said = PINNED.complaint([[0, 1, 2], [1, 0, 2]], {"torch": "3.0"})

    assert [] == [
        word for word in ("epoch 1", "torch 2.0", "torch 3.0", "loaderproof.suite.pinned") if word not in said
    ]


def test_recorded_orders_are_whole():
    """Every recorded epoch holds all samples, and what is written is what is read."""
    entries = pinned.recorded()

    assert entries
    assert all(sorted(order) == list(range(23)) for one in entries.values() for order in one.orders)
    assert json.loads(pinned.FILE.read_text()) == json.loads(
        pinned.text_of({name: vars(one) for name, one in entries.items()})
    )


def test_another_order_than_recorded_is_a_warning(suite_run):
    """A built-in loader whose order has changed passes with a warning, even where warnings are errors."""
    entries = json.loads(pinned.FILE.read_text())
    entries["resident"]["orders"][0].reverse()
    (suite_run.folder / "orders.json").write_text(json.dumps(entries))
    (suite_run.folder / "redirect.py").write_text(
        "import pathlib\nfrom loaderproof.suite import pinned\n"
        "pinned.recorded.__defaults__ = (pathlib.Path(__file__).with_name('orders.json'),)\n"
    )
    done = suite_run.judge(
        "-p",
        "redirect",
        "-W",
        "error",
        "--loader",
        "resident",
        "-k",
        "does_not_depend_on_time and not device",
    )

    assert ["passed"] == [one.what for one in suite_run.outcomes()]
    assert "OrderChanged: resident: seed 1 gives another order" in done.stdout
