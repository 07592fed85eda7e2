"""The order in which a loader and the ceiling are measured."""

from collections import Counter

import pytest

from loaderproof.suite.blocks import Blocks, ceiling_first, orders


def measured(blocks: int, seed: int) -> tuple[Blocks, list[str], list[str]]:
    """Run blocks as pytest-benchmark does; return them, what was measured in turn, and what was told."""
    turns: list[str] = []
    told: list[str] = []

    def measure(what: str) -> str:
        turns.append(f"{what} {sum(turn.startswith(what) for turn in turns)}")
        return turns[-1]

    run = Blocks(lambda: measure("round"), lambda: measure("ceiling"), blocks, seed, told.append)
    for _ in range(blocks):
        run.before_round()
        run.round()
    run.finish()
    return run, turns, told


@pytest.mark.parametrize("blocks", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_every_block_has_one_ceiling(blocks, seed):
    """Whatever the order, each round has one ceiling right before or right after it."""
    run, turns, _ = measured(blocks, seed)

    assert [f"round {number}" for number in range(blocks)] == run.rounds
    assert [f"ceiling {number}" for number in range(blocks)] == run.ceilings
    pairs = [{turns[at], turns[at + 1]} for at in range(0, 2 * blocks, 2)]
    assert [{f"round {number}", f"ceiling {number}"} for number in range(blocks)] == pairs


def test_order_is_the_one_that_was_drawn():
    """The ceiling goes first in those blocks for which that was drawn."""
    _, turns, _ = measured(6, seed=3)

    assert [turn.startswith("ceiling") for turn in turns[::2]] == ceiling_first(6, seed=3)


def test_finishing_twice_measures_once():
    """A ceiling that is not due is not measured."""
    run, turns, _ = measured(6, seed=1)

    run.finish()

    assert 12 == len(turns)


def test_progress_is_told():
    """Before each block it is told which one it is, of how many."""
    assert ["block 1 of 3", "block 2 of 3", "block 3 of 3"] == measured(3, seed=0)[2]


@pytest.mark.parametrize("blocks", [4, 6])
def test_order_is_balanced(blocks):
    """The ceiling goes first in half of the blocks, in every drawing."""
    assert {blocks // 2} == {sum(ceiling_first(blocks, seed)) for seed in range(50)}


def test_order_is_random_by_seed():
    """A seed draws the same order again, and all orders are drawn about as often."""
    drawn = Counter(tuple(ceiling_first(4, seed)) for seed in range(6_000))

    assert ceiling_first(6, 5) == ceiling_first(6, 5)
    # Six orders of two among four, 1,000 each: standard deviation 29.
    assert 6 == len(drawn)
    assert all(850 < times < 1_150 for times in drawn.values())


@pytest.mark.parametrize("arms", [1, 2, 3, 5])
def test_each_arm_is_once_in_each_place(arms):
    """Within as many blocks as there are arms, each arm is measured once in each place of a block."""
    made = orders(arms, 2 * arms, seed=4)

    assert all(sorted(column) == list(range(arms)) for column in zip(*made[:arms], strict=True))
    assert all(sorted(column) == list(range(arms)) for column in zip(*made[arms:], strict=True))


def test_order_of_arms_is_drawn():
    """Another seed gives other orders, the same seed the same; neighbours are not always the same."""
    assert orders(4, 8, seed=1) == orders(4, 8, seed=1)
    assert 1 < len({str(orders(4, 8, seed)) for seed in range(9)})
    assert 1 < len({tuple(order) for order in orders(3, 12, seed=0) if order[0] == 0})
