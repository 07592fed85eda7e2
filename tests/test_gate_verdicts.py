"""From what processes showed in each block to the gate's answer for each loader."""

import math
from dataclasses import replace

import pytest

from loaderproof.suite.gate.decision import Answer
from loaderproof.suite.gate.measures import AGAIN, BASE, CANDIDATE, Block, Measure, Seen, levels, margin_of
from loaderproof.suite.gate.verdicts import NOT_TOLD, Measured, judge

SEEN = Seen(
    first_batches_s=[0.1, 0.2, 9.0],
    training_s=[1.0, 1.2, 1.1],
    loading_s=[0.5, 0.4, 0.6],
    wait_shares=[0.1, 0.3, 0.2],
    peak_bytes=300 * 2**20,
)
CEILING_S = [1.0, 0.8, 5.0]


def blocks(count: int = 12, **changed: Seen) -> list[Block]:
    """Return blocks in which all arms showed the same but for those named, give or take a little."""
    arms = {CANDIDATE: SEEN, BASE: SEEN, AGAIN: SEEN} | {
        name.replace("_", " "): one for name, one in changed.items()
    }
    made = []
    for number in range(count):
        slower = 1 + 0.001 * (-1) ** number
        made.append(
            Block(
                {name: _times(one, slower if name == CANDIDATE else 1) for name, one in arms.items()},
                CEILING_S,
                2,
            )
        )
    return made


def _times(seen: Seen, factor: float) -> Seen:
    return replace(seen, loading_s=[factor * one for one in seen.loading_s])


@pytest.mark.parametrize(
    ("measure", "level"),
    [
        (Measure.TRAINING, math.log(1.1)),
        (Measure.LOADING, math.log(0.5)),
        (Measure.FIRST_BATCH, math.log(1.3)),
        (Measure.WAIT, 0.2),
        (Measure.MEMORY, math.log(300)),
    ],
)
def test_level_of_each_measure(measure, level):
    """Times are medians as multiples of the ceiling's, on a logarithmic scale; a share is itself."""
    block = Block({CANDIDATE: SEEN}, CEILING_S, 1)

    assert [pytest.approx(level)] * 2 == levels(measure, [block, block], CANDIDATE)


def test_what_one_block_lacks_is_no_level():
    """Memory that the kernel told in some blocks only, or an arm that is not there, gives nothing."""
    some = [
        Block({CANDIDATE: SEEN}, CEILING_S, 1),
        Block({CANDIDATE: replace(SEEN, peak_bytes=None)}, CEILING_S, 1),
    ]

    assert ([], []) == (levels(Measure.MEMORY, some, CANDIDATE), levels(Measure.TRAINING, some, BASE))


def test_margins():
    """Ratios may grow by the margin, shares by so many points."""
    assert (pytest.approx(math.log(1.05)), 0.05) == (
        margin_of(Measure.LOADING, 0.05),
        margin_of(Measure.WAIT, 0.05),
    )


@pytest.mark.parametrize(
    ("measure", "worse"),
    [
        (Measure.TRAINING, replace(SEEN, training_s=[1.3])),
        (Measure.LOADING, replace(SEEN, loading_s=[0.6])),
        (Measure.FIRST_BATCH, replace(SEEN, first_batches_s=[0.5])),
        (Measure.WAIT, replace(SEEN, wait_shares=[0.3])),
        (Measure.MEMORY, replace(SEEN, peak_bytes=400 * 2**20)),
    ],
)
def test_each_measure_can_fail(measure, worse):
    """A candidate that is worse in one measure fails by it, and the others pass."""
    found = judge([Measured("loader", "main", blocks(candidate=worse))], 0.05)[0]
    failed = [one for one, answer in found.answers.items() if answer is Answer.FAIL]

    assert (Answer.FAIL, [measure]) == (found.answer, [one for one in failed if one is measure])
    # A slower epoch is also behind the first batch.
    assert set(failed) <= {measure, Measure.FIRST_BATCH}


def test_nothing_changed_passes():
    """Equal sides pass every measure; the level is shared by all five, and the seconds of blocks add up."""
    found = judge([Measured("loader", "main", blocks())], 0.05)[0]

    assert (Answer.PASS, dict.fromkeys(Measure, Answer.PASS), 5, 24) == (
        found.answer,
        found.answers,
        found.tests,
        found.seconds,
    )


def test_loaders_share_the_level():
    """Two loaders are judged as ten tests."""
    found = judge([Measured(name, "main", blocks()) for name in ("one", "two")], 0.05)

    assert [("one", 10), ("two", 10)] == [(one.loader, one.tests) for one in found]


def test_faster_is_no_regression():
    """A candidate that is better in everything passes."""
    better = Seen([0.01], [0.5], [0.1], [0.0], 100 * 2**20)

    assert Answer.PASS is judge([Measured("loader", "main", blocks(candidate=better))], 0.05)[0].answer


def test_memory_that_is_not_told_is_named():
    """Where the kernel does not tell memory the other measures decide, and the report says what is missing."""
    silent = dict.fromkeys(("candidate", "base", "base_again"), replace(SEEN, peak_bytes=None))
    found = judge([Measured("loader", "main", blocks(**silent))], 0.05)[0]

    assert (Answer.PASS, {Measure.MEMORY: NOT_TOLD}) == (found.answer, found.missing)


def test_stored_base_is_compared_through_the_ceiling():
    """Twice as slow a machine makes no regression of a loader that is as near to its ceiling as before."""
    alone = [replace(one, seen={CANDIDATE: one.seen[CANDIDATE]}) for one in blocks()]
    before = Measured("loader", "nothing", alone)
    base = {str(measure): before.levels(measure) for measure in Measure}

    def doubled(block: Block) -> Block:
        seen = block.seen[CANDIDATE]
        slow = {
            name: [2 * one for one in getattr(seen, name)]
            for name in ("first_batches_s", "training_s", "loading_s")
        }
        return Block({CANDIDATE: replace(seen, **slow)}, [2 * one for one in block.ceiling_s], 1)

    found = judge([Measured("loader", "0001", [doubled(one) for one in alone], base)], 0.05)[0]

    assert (Answer.PASS, pytest.approx(0, abs=1e-12)) == (found.answer, found.effects[Measure.LOADING].mean)


def test_without_a_base_it_is_recorded():
    """What was measured for later has no effects, and neither passes nor fails."""
    alone = [replace(one, seen={CANDIDATE: one.seen[CANDIDATE]}) for one in blocks()]
    found = judge([Measured("loader", "nothing", alone)], 0.05)[0]

    assert (Answer.RECORDED, {}) == (found.answer, found.effects)
