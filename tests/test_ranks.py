"""Ranks are started, joined or lost, and what they showed comes back."""

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from loaderproof.loaders import Request, Uneven, sources
from loaderproof.suite import conformance, leftovers
from loaderproof.suite.dealing import deals
from loaderproof.suite.experiments import launch
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.fingerprint import Coverage
from loaderproof.suite.observation import Batch, Epoch, Observation, Scenario
from loaderproof.suite.sharding import Step, worlds
from loaderproof.suite.subject import Subject

FILE = Path(__file__).parent / "broken_loaders" / "sharding.py"
SHARDING = Path(conformance.__file__).with_name("test_sharding.py")
PROBE, COUNT = "probe:23:9x14x1", 23
START_S = 120  # a busy machine may take long to import everything
LIMIT_S = 10


def step(world: int, name: str = "plain", **more) -> Step:
    """Return an epoch over a probe, in batches of four."""
    scenario = Scenario(PROBE, Request(batch_size=4, world_size=world), 1)
    return Step(name, scenario, **{"limit_s": LIMIT_S, **more})


@pytest.fixture(scope="module")
def subject():
    """A process that starts ranks, of whichever loader."""
    started = Subject(f"{FILE}:Exact", START_S)
    yield started
    started.close()


@pytest.fixture
def ranks_of(subject):
    """Have the ranks of a loader take some steps; none of them may be left afterwards."""

    def taken(loader: str, *steps: Step):
        given = {"spec": f"{FILE}:{loader}", "steps": list(steps)}
        found = subject.run("launch:take", scenario=steps[0].scenario, **given)
        process = subject._process
        others = [one for one in process._family.members() if one.pid != process._popen.pid]
        assert [] == [leftovers.command(one) for one in others if not leftovers.is_helper(one)]
        return found

    return taken


def shares(found) -> dict[tuple[str, int], list[list[int]]]:
    """Return the samples of each rank in the first epoch of each step."""
    return {key: [one.epochs[0].index.tolist() for one in seen] for key, seen in found.watched.items()}


def test_each_step_has_as_many_ranks_as_it_asks_for(ranks_of):
    """In one launch, three, two and one ranks take steps, as members of groups of that size."""
    found = ranks_of("AsksTheGroup", *(step(world) for world in (3, 2, 1)))

    owed = {
        ("plain", world): [list(range(COUNT))[rank::world] for rank in range(world)] for world in (3, 2, 1)
    }
    assert owed == shares(found)
    assert [] == found.troubles


def test_environment_of_a_rank_agrees_with_its_group(ranks_of):
    """A loader that takes its rank from RANK and WORLD_SIZE hears what its request says."""
    found = ranks_of("AsksTheEnvironment", step(3), step(2))

    assert {3, 2} == {len(set(map(tuple, parts))) for parts in shares(found).values()}


def test_sums_of_hashes_are_reduced_over_the_group_and_wrap(ranks_of):
    """The sums of three ranks exceed 64 bits, and add up to that of the source all the same."""
    catalogue = Catalogue(sources.load(PROBE)["train"])
    parts = [Coverage.of(catalogue.hashes[rank::3]) for rank in range(3)]
    assert sum(part.total for part in parts) >= 2**64

    found = ranks_of("Exact", step(3, "data", kind="cover"))

    assert catalogue.coverage == found.whole["data", 3].came
    assert found.whole["data", 3].images is None


def test_second_look_names_what_ranks_cover_wrongly(ranks_of):
    """Where the sum is not that of the source, every sample of every rank comes back by its hash."""
    found = ranks_of("EveryRankReadsAll", step(2, "data", kind="cover")).whole["data", 2]

    with contextlib.closing(Workbench(f"{FILE}:EveryRankReadsAll")) as bench:
        different = launch.named(bench, step(2).scenario, found.images, found.labels)
    assert 2 * COUNT == found.came.count
    assert (list(range(COUNT)), [], 0) == (different.repeated, different.missing, different.foreign)


@pytest.mark.parametrize(
    ("loader", "words"),
    {
        "RankRaises": ("OSError: the share of rank 1 is not there", "in happen"),
        "RankDies": ("exit code 3", "no more memory on rank 1"),
        "RankHangs": (f"no answer within {LIMIT_S} s", "in happen"),
    }.items(),
)
def test_lost_rank_is_named_and_what_came_before_is_kept(ranks_of, loader, words):
    """A rank that raises, dies or hangs is named with what became of it; earlier steps stay observed."""
    found = ranks_of(loader, step(3), step(2), step(2, "later"))

    assert [(1, "plain", 2)] == [(one.rank, one.step.name, one.step.world) for one in found.troubles][:1]
    assert [] == [word for word in words if word not in found.troubles[0].text]
    assert ("plain", 3) in found.watched
    assert ("plain", 2) not in found.watched


def test_launcher_changes_nothing_where_it_is_called():
    """After a launch the environment and the handlers of signals are as they were."""
    before = dict(os.environ), signal.getsignal(signal.SIGTERM)
    spec = f"{FILE}:Exact"

    with contextlib.closing(Workbench(spec)) as bench:
        found = launch.take(bench, step(2).scenario, spec, [step(2)])

    assert [("plain", 2)] == list(found.watched)
    assert before == (dict(os.environ), signal.getsignal(signal.SIGTERM))


def test_ranks_of_two_machines_come_to_one_verdict(suite_run_in, tmp_path):
    """Two agents of torchrun, as on two machines, have pytest judge one group, and both report the same."""
    agents = [suite_run_in(tmp_path / str(node)) for node in range(2)]
    place = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1"]
    place += ["--master-port", str(free_port()), "--no-python"]
    words = [SHARDING, "--loader-data", PROBE, "--loader", f"{FILE}:RankInTheSeed"]
    started = []
    for node, agent in enumerate(agents):
        agent.folder.mkdir()
        ahead = ["torchrun", "--node-rank", str(node), *place, Path(sys.executable).with_name("pytest")]
        started.append(agent.popen(*ahead, *words, f"--junitxml={agent.folder / 'junit.xml'}"))
    ended = [agent.end_of(one) for agent, one in zip(agents, started, strict=True)]

    one, other = ([(outcome.name, outcome.what) for outcome in agent.outcomes()] for agent in agents)
    failed = [name.partition("[")[0] for name, what in one if what == "failed"]
    assert one == other
    assert ["test_ranks_shuffle_with_one_seed", "test_ranks_cover_the_data_together"] == failed
    assert all("rank=0 of 2" in done.stdout for done in ended)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (3, 2, 1)),
        ({"WORLD_SIZE": "4"}, (3, 2, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (3, 2, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (2,)),
    ],
)
def test_group_that_there_is_decides_the_number_of_ranks(environment, expected):
    """Where torchrun has started pytest with several ranks, those are tried; else one to three."""
    assert expected == worlds(environment)


def deal(*orders: list[int], count: int = COUNT, size: int = 4):
    """Return one epoch in which ranks got samples in these orders."""
    seen = []
    for rank, order in enumerate(orders):
        scenario = Scenario(PROBE, Request(rank=rank, world_size=len(orders), batch_size=size))
        batches = [
            Batch((len(order[at : at + size]), 1, 9, 14), (1,), "float32", "int64", 0, 1)
            for at in range(0, len(order), size)
        ]
        index = np.array(order, np.int64)
        epoch = Epoch(0, batches, index, index, np.zeros(len(order)), np.ones(len(order), bool), ended=True)
        seen.append(Observation(scenario, np.arange(count), (9, 14, 1), None, [epoch]))
    return next(iter(deals(seen)))


@pytest.mark.parametrize(
    ("orders", "allowed"),
    [
        ([[0, 2, 4], [1, 3]], {Uneven.EXACT}),
        ([[0, 1, 2], [3, 4]], {Uneven.EXACT}),
        ([[0, 2, 4], [1, 3, 0]], {Uneven.PADDED}),
        ([[0, 2], [1, 3]], {Uneven.DROPPED}),
        ([[0, 2, 4], [1, 3, 0, 2]], set()),
        ([[0], [1, 2, 3, 4]], set()),
        ([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]], set()),
    ],
)
def test_end_is_judged_by_what_is_declared(orders, allowed):
    """Five samples on two ranks: each way to share them is right for one declared end at the most."""
    shared = deal(*orders, count=5)

    assert allowed == {uneven for uneven in Uneven if shared.right(uneven) and shared.even(uneven)}


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        ([[0, 2, 4], [1, 3]], [True, True]),
        ([[0, 2, 4], [1, 3, 0]], [True, True]),
        ([[0], [1], [0]], [True, True, True]),
        ([[], [0, 1]], [True, True]),
        ([[4, 2, 0], [1, 3]], [False, True]),
        ([[0, 2, 4], [3, 1, 0]], [True, False]),
    ],
)
def test_order_of_a_rank_may_end_in_padding(orders, expected):
    """A rank is in order if its samples rise, but for those at its end that came elsewhere, too."""
    shared = deal(*orders, count=5)

    assert expected == [shared.in_order(rank) for rank in range(len(orders))]


def test_more_batches_than_samples_allow_are_uneven():
    """Ranks with equally many samples in different numbers of batches do not stay in step."""
    shared = deal([0, 2], [1, 3], count=4, size=2)
    shared.epochs[0].batches *= 2

    assert not any(shared.even(uneven) for uneven in Uneven)
