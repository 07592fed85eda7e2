"""What the gate's statistics decide, on numbers whose answer is known."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from loaderproof.suite.gate import decision
from loaderproof.suite.gate.choices import FEWEST
from loaderproof.suite.gate.decision import Answer, apart, blocks_needed, decide, holm, overall, paired

MARGIN = math.log(1.05)


def around(mean: float, spread: float, blocks: int = 12) -> list[float]:
    """Return numbers with exactly this mean and about this standard deviation, in a symmetric shape."""
    shape = np.array([NormalDist().inv_cdf((place + 0.5) / blocks) for place in range(blocks)])
    return [float(one) for one in mean + spread * shape / shape.std(ddof=1)]


def answer(differences, noise=(), margin=MARGIN):
    """Return the answer for one measure of one loader."""
    return decide({"loader": paired(margin, differences, noise)})["loader"]


@pytest.mark.parametrize(
    ("mean", "spread", "expected"),
    [
        (0.0, 0.02, Answer.PASS),
        (-0.2, 0.02, Answer.PASS),
        (0.1, 0.02, Answer.FAIL),
        (0.0, 0.1, Answer.INCONCLUSIVE),
        (0.1, 0.2, Answer.INCONCLUSIVE),
        # Slower for certain, but by less than the margin, and by hardly more than it.
        (0.02, 0.01, Answer.PASS),
        (MARGIN - 0.001, 0.01, Answer.INCONCLUSIVE),
        (MARGIN + 0.001, 0.01, Answer.FAIL),
        # Beyond the margin as measured, and not proven to be slower at all.
        (0.07, 0.1, Answer.INCONCLUSIVE),
    ],
)
def test_the_margin_decides(mean, spread, expected):
    """Proven slower and beyond the margin fails; proven within it passes; all else is inconclusive."""
    assert expected == answer(around(mean, spread))


def test_few_blocks_decide_nothing():
    """However clear six blocks are, they neither pass nor fail; as many as are asked for at the least do."""
    assert [Answer.INCONCLUSIVE, Answer.FAIL] == [answer([0.3] * blocks) for blocks in (6, FEWEST)]
    assert [Answer.INCONCLUSIVE, Answer.PASS] == [answer([0.0] * blocks) for blocks in (6, FEWEST)]


def test_one_outlier_is_no_regression():
    """A block that was disturbed by ten times everything else lets no loader fail."""
    assert Answer.FAIL is not answer([*around(0.0, 0.01, 11), 1.0])


def test_both_tests_have_to_agree():
    """The chance is the larger of Student's t and of sign-flips, each as its definition gives it."""
    values = [0.03, 0.04, 0.02, 0.05, -0.03, 0.04, 0.06, 0.03]
    effect = paired(MARGIN, values)
    distances = np.array(values)
    from scipy.stats import permutation_test, ttest_1samp  # noqa: PLC0415 - dear, and for this test alone

    student = ttest_1samp(distances, 0, alternative="greater").pvalue
    flips = permutation_test(
        (distances,), np.mean, permutation_type="samples", alternative="greater", n_resamples=np.inf
    ).pvalue

    assert pytest.approx(max(student, flips)) == effect.p_worse()
    assert student != pytest.approx(flips)
    assert pytest.approx(effect.p_worse()) == paired(MARGIN, [MARGIN - one for one in values]).p_within()


def test_many_blocks_have_their_signs_drawn():
    """Beyond twenty blocks sign-flips are drawn, and come close to what all of them would give."""
    values = np.array(around(0.02, 0.05, 21))
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums + value, sums - value))
    exact = float(np.mean(sums >= sums[0] - 1e-12))

    assert pytest.approx(exact, rel=0.1) == decision._p_sign_flip(list(values))


@pytest.mark.parametrize("blocks", [15, 21])
def test_one_of_many_loaders_can_fail(blocks):
    """However many share the level, what is twice as slow fails: the blocks that are needed are enough."""
    effects = {place: paired(MARGIN, around(0.0, 0.01, blocks)) for place in range(164)}
    effects["suspect"] = paired(MARGIN, around(0.7, 0.01, blocks))

    assert blocks_needed(len(effects)) <= blocks
    assert Answer.FAIL is decide(effects)["suspect"]


def test_interval_is_that_of_student():
    """The bounds hold 1 % of the distribution beyond each of them."""
    effect = paired(MARGIN, around(0.1, 0.03, 9))

    # t(8) at 99 % is 2.896 (any table).
    assert pytest.approx((0.1 - 2.8965 * 0.01, 0.1 + 2.8965 * 0.01), abs=1e-5) == effect.interval()


def test_smallest_effect_grows_with_the_noise():
    """With little noise it is what comes beyond the margin, with much what can be proven (t(11): 2.718 and 1.363)."""
    noise = around(0.0, 0.02)
    error = float(np.std(noise, ddof=1)) / math.sqrt(12)
    quiet, loud = (
        paired(MARGIN, around(0, 0.01), numbers) for numbers in (noise, [9 * one for one in noise])
    )

    assert pytest.approx(MARGIN + 1.3634 * error, abs=1e-5) == quiet.smallest(1)
    assert pytest.approx((2.7181 + 1.3634) * 9 * error, abs=1e-4) == loud.smallest(1)
    assert loud.smallest(10) > loud.smallest(1)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_base_that_differs_from_itself_decides_nothing(sign):
    """Where the base fails against itself, neither pass nor fail of the candidate means anything."""
    noise = around(sign * 0.2, 0.01)

    assert [Answer.INCONCLUSIVE] * 2 == [answer(around(mean, 0.01), noise) for mean in (0.0, 0.3)]


def test_holm_steps_down():
    """The smallest chance meets the level over the number of tests, the next over one less, until one does not."""
    chances = {"a": 0.0026, "b": 0.0030, "c": 0.0049, "d": 0.0011}

    assert {"a", "b", "c", "d"} == holm({**chances, "a": 0.0025})
    assert {"d", "a", "b", "c"} == holm(chances)
    assert {"d"} == holm({**chances, "a": 0.0034, "b": 0.0035})
    assert set() == holm({**chances, "d": 0.0026})


def test_level_is_shared_by_all_loaders():
    """What would fail alone need not fail as one of ten that were looked at."""
    suspect = paired(MARGIN, around(MARGIN + 0.011, 0.06))
    others = {place: paired(MARGIN, around(0.0, 0.01)) for place in range(9)}

    assert Answer.FAIL is decide({"suspect": suspect})["suspect"]
    assert Answer.FAIL is not decide({"suspect": suspect, **others})["suspect"]


@pytest.mark.parametrize(("tests", "blocks"), [(1, 8), (2, 8), (3, 9), (5, 9), (6, 10), (15, 11), (100, 14)])
def test_blocks_needed(tests, blocks):
    """The smallest chance of sign-flips, 1 / 2^n, has to reach the level that is shared; eight at the least."""
    assert blocks == blocks_needed(tests)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("pass pass", Answer.PASS),
        ("pass fail inconclusive", Answer.FAIL),
        ("pass inconclusive", Answer.INCONCLUSIVE),
        ("", Answer.INCONCLUSIVE),
    ],
)
def test_answer_for_a_loader(answers, expected):
    """One measure that fails fails it, all have to pass, and nothing measured is no pass."""
    assert expected is overall([Answer(one) for one in answers.split()])


def test_two_runs_are_compared_by_welch():
    """Against a base of another run the error is that of both, with Welch's degrees of freedom."""
    candidate, base = around(0.5, 0.02, 9), around(0.3, 0.05, 12)
    from scipy.stats import ttest_ind  # noqa: PLC0415 - dear, and for this test alone

    effect = apart(MARGIN, candidate, base)
    reference = ttest_ind(np.array(candidate) - MARGIN, base, equal_var=False, alternative="greater")

    assert pytest.approx(0.2) == effect.mean
    assert pytest.approx(reference.df) == effect.degrees
    assert pytest.approx(reference.pvalue) == decision._p_t(
        effect.mean - MARGIN, effect.error, effect.degrees
    )


def test_false_alarms_and_misses_keep_the_level():
    """Of numbers without a difference about one of a hundred fails, of such at the margin one passes."""
    draw = np.random.default_rng(7)
    # So noisy that the margin alone holds nobody back.
    false_alarms = [answer(list(draw.normal(0, 0.3, 12))) for _ in range(600)].count(Answer.FAIL)
    missed = [answer(list(draw.normal(MARGIN, 0.02, 12))) for _ in range(600)].count(Answer.PASS)

    # Binomial(600, 0.01) is above 14 once in a thousand.
    assert 14 >= max(false_alarms, missed)
    assert min(false_alarms, missed) > 0
