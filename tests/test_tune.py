"""The search for a loader's best setting, on times that are made up and on loaders whose best is known."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loaderproof.loaders import Request, Tunable
from loaderproof.suite.answers import Setup
from loaderproof.suite.diagnosis import sweep as sweeping
from loaderproof.suite.diagnosis import tuning_report
from loaderproof.suite.diagnosis.cores import cores
from loaderproof.suite.diagnosis.tuning import Setting, Sweep, worker_counts
from loaderproof.suite.diagnosis.tuning_search import Found, Plan, Tried, choose, search
from loaderproof.suite.observation import Scenario
from loaderproof.suite.statistics import LEVEL, Ratio
from loaderproof.suite.subject import Hung, Raised

SLOW = Path(__file__).parent / "loaders_for_tests" / "slow.py"
OPTIONS = {
    "persistent_workers": Tunable(values=(True,), min_workers=1),
    "prefetch_factor": Tunable(values=(4, 8), min_workers=1),
}
PLAN = Plan(Setting(0), (0, 1, 2), OPTIONS)

True_s = Callable[[Setting], float]


class Machine:
    """Measures settings whose true times are known, in noise as a busy machine makes it.

    Args:
        true_s: of an epoch.
        seed: of the noise.
        noise: of a measurement's logarithm, its standard deviation; on a noisy one
            one in 20 takes 1.5 times as long.
    """

    def __init__(self, true_s: True_s, seed: int, noise: float = 0.05) -> None:
        self.true_s, self.noise = true_s, noise
        self.draw = np.random.default_rng(seed)
        self.measured: list[tuple[str, list[Setting]]] = []

    def __call__(self, what: str, settings: Sequence[Setting]) -> Sweep:
        self.measured.append((what, list(settings)))
        blocks = int(self.draw.integers(sweeping.FEWEST, sweeping.MOST + 1))
        drift = self.draw.normal(0, 0.1, blocks)

        def times(true_s: float) -> list[float]:
            slow = np.where(self.draw.random(blocks) < (0.05 if self.noise > 0.01 else 0), 1.5, 1.0)
            return list(true_s * slow * np.exp(drift + self.draw.normal(0, self.noise, blocks)))

        seconds = {number: times(self.true_s(setting)) for number, setting in enumerate(settings)}
        return Sweep(seconds, times(0.5), dict.fromkeys(seconds, 0.1))


def found_by(true_s: True_s, seed: int = 0, noise: float = 0.005, plan: Plan = PLAN) -> tuple[Found, Machine]:
    """Search on a machine."""
    machine = Machine(true_s, seed, noise)
    return search(plan, machine), machine


# What is found.


def test_noise_is_never_the_best():
    """Where all settings are equal, a better one is reported in fewer sweeps than the level allows."""
    falsely = [found_by(lambda _: 1.0, seed, 0.05)[0] for seed in range(2_000)]

    assert sum(found.gain is not None for found in falsely) < (1 - LEVEL) / 2 * 2_000
    # The choice alone, before it is measured again, keeps the level, too.
    chosen = [found for found in falsely if found.gain or found.unconfirmed]
    assert len(chosen) < (1 - LEVEL) * 2_000


def test_planted_gain_is_found():
    """Two workers that are 1.6 times as fast are found in noise, with an interval that holds it."""
    sweeps = [
        found_by(lambda setting: 1 / 1.6 if setting.workers >= 2 else 1.0, seed, 0.05)[0]
        for seed in range(200)
    ]

    right = [found for found in sweeps if found.best == Setting(2) and found.gain]
    holding = [found for found in right if found.gain.low <= 1.6 <= found.gain.high]
    assert len(right) >= 180
    assert len(holding) >= 0.9 * len(right)


def test_simpler_setting_stays():
    """Four workers that bring no measurable more than two are not chosen."""
    plan = Plan(Setting(0), (0, 1, 2, 4))

    found, _ = found_by(lambda setting: [1.0, 1.1, 0.6, 0.6, 0.599][setting.workers], plan=plan)

    assert Setting(2) == found.best


def test_faster_setting_of_several_is_taken():
    """Of several that are faster than the default, the one that is measurably the fastest is chosen."""
    plan = Plan(Setting(0), (0, 1, 2, 4))

    found, _ = found_by(lambda setting: [1.0, 0.9, 0.8, 0.8, 0.7, 0, 0, 0, 0.75][setting.workers], plan=plan)

    assert Setting(4) == found.best
    assert found.gain.low <= 1 / 0.7 <= found.gain.high


def test_more_workers_than_cores_are_tried_if_the_most_are_the_best():
    """At the end of the range the search goes on once."""
    found, machine = found_by(
        lambda setting: 0.6 + 1 / (1 + setting.workers), plan=Plan(Setting(0), (0, 1, 2))
    )

    assert Setting(4) == found.best
    assert [Setting(0), Setting(2), Setting(4)] == machine.measured[1][1]


def test_option_that_makes_workers_worth_it_is_found():
    """Workers that are slower by themselves are tried with what needs workers."""

    def true_s(setting: Setting) -> float:
        if setting.workers == 0:
            return 1.0
        return {1: 1.0, 2: 0.7}[min(setting.workers, 2)] * (
            1 if dict(setting.options).get("persistent_workers") else 1.5
        )

    found, _ = found_by(true_s)

    assert Setting(2, (("persistent_workers", True),)) == found.best


def test_options_without_effect_are_not_tried():
    """What needs workers is not tried where there are none."""
    _, machine = found_by(lambda _: 1.0, plan=Plan(Setting(), (), OPTIONS))

    assert [] == machine.measured


def test_nothing_is_tried_at_the_ceiling():
    """Once no setting can bring more, the search stops."""
    found, machine = found_by(lambda _: 0.5, noise=0.001)

    assert ["num_workers"] == [what for what, _ in machine.measured]
    assert (found.start, None) == (found.best, found.gain)


def test_what_is_not_confirmed_is_not_the_best():
    """A gain that is gone when it is measured once more is no gain."""
    machine = Machine(lambda setting: 0.7 if setting.workers == 2 else 1.0, 0, 0.005)

    def measure(what: str, settings: Sequence[Setting]) -> Sweep:
        if what == "once more":
            machine.true_s = lambda _: 1.0
        return machine(what, settings)

    found = search(Plan(Setting(0), (0, 1, 2)), measure)

    assert (Setting(0), None, Setting(2)) == (found.best, found.gain, found.unconfirmed)


def test_failing_setting_is_named():
    """What fails is kept with its reason, and chosen never."""
    machine = Machine(lambda setting: 1 / (1 + setting.workers), 0, 0.005)

    def measure(what: str, settings: Sequence[Setting]) -> Sweep:
        made = machine(what, settings)
        bad = {number for number, setting in enumerate(settings) if setting.workers == 2}
        seconds = {number: times for number, times in made.seconds.items() if number not in bad}
        return Sweep(seconds, made.ceiling, {}, dict.fromkeys(bad, "too many"))

    found = search(Plan(Setting(0), (0, 1, 2)), measure)

    assert Setting(1) == found.best
    assert [(Setting(2), "too many", None)] == [
        (one.setting, one.failed, one.speed) for one in found.tried if one.failed
    ]


@pytest.mark.parametrize("seed", range(20))
def test_as_many_comparisons_as_planned(seed):
    """Whatever is found, no more settings are tried than the intervals are made for, and none twice."""
    draw = np.random.default_rng(seed)
    plan = Plan(Setting(0), (0, 1, 2), {**OPTIONS, "cache": Tunable(values=(True,))})
    speeds: dict[Setting, float] = {}

    found, _ = found_by(lambda setting: speeds.setdefault(setting, draw.uniform(0.6, 2.0)), seed, plan=plan)

    settings = [one.setting for one in found.tried]
    assert len(set(settings)) == len(settings)
    assert len(settings) - 1 <= plan.comparisons


def test_intervals_widen_with_comparisons():
    """Bonferroni: the interval for one of ten comparisons is the one of 99.5 %; 7 degrees of freedom."""
    one = Sweep({0: list(np.exp([0.1, -0.1] * 4)), 1: [1.0] * 8}, [1.0] * 8)

    plain, strict = one.speed(1), one.speed(1, comparisons=10)

    assert plain.value == strict.value == pytest.approx(1.0)
    # The tables of Student's t: 2.365 and 4.029.
    assert 4.029 / 2.365 == pytest.approx(np.log(strict.high) / np.log(plain.high), rel=1e-3)


def test_given_up_settings_are_compared_in_their_blocks():
    """A setting that was measured in fewer blocks is compared with the others in those."""
    one = Sweep({0: [1.0, 1.0, 5.0], 1: [2.0, 2.0]}, [0.5, 0.5, 0.5])

    assert 0.5 == pytest.approx(one.speed(1).value)
    assert 0.25 == pytest.approx(one.of_ceiling(1).value)
    assert 0 == choose(one, 0, comparisons=1)


def test_far_too_slow_settings_are_given_up():
    """What took more than twice as long in each of its first blocks goes no further; the default always does."""
    seconds = {0: [9.0, 9.0, 9.0], 1: [1.0, 1.0, 1.0], 2: [2.5, 2.5, 2.5], 3: [2.5, 1.5, 2.5]}

    assert {2} == sweeping._hopeless(seconds)
    assert set() == sweeping._hopeless({number: each[:2] for number, each in seconds.items()})


# How it is measured.

READY = Setup(0.0, 0.1, 64, 4, "emulated")


def timed(seconds: float = 1.0, samples: int = 64) -> SimpleNamespace:
    """Return what counts of an epoch."""
    return SimpleNamespace(seconds=seconds, samples=samples, batches=4, first_batch_s=0.2)


class Asked:
    """A loader under judgement, and its process, which take what each setting does from a script.

    Args:
        trains: gets the number of a setting and how many epochs it had since it was opened; returns an
            epoch, or raises.
    """

    def __init__(self, trains: Callable[[int, int], Any]) -> None:
        self.trains, self.told, self.log = trains, [], []
        self.epochs: dict[int, int] = {}
        self.case = SimpleNamespace(label="asked", spec="asked")
        settings = SimpleNamespace(timeout_s=5.0, device="emulated:1ms")
        self.session = SimpleNamespace(settings=settings, subject=lambda _: self)

    def timed_scenario(self) -> Scenario:
        return Scenario("probe", Request(), 1)

    def progress(self, text: str) -> None:
        self.told.append(text)

    def ask(self, experiment: str, place: object, **arguments: Any) -> Any:
        del place
        return self.run(experiment, **arguments)

    def run(self, experiment: str, *, number: int = -1, **_: Any) -> Any:
        what = experiment.partition(":")[2]
        self.log.append((what, number))
        if what in {"open_loader", "train"}:
            self.epochs[number] = 0 if what == "open_loader" else self.epochs[number] + 1
            made = self.trains(number, self.epochs[number])
            return (READY, made) if what == "open_loader" else made
        return timed(0.5)


def swept(trains: Callable[[int, int], Any], settings: int = 3, blocks: int = 6) -> tuple[Sweep, Asked]:
    """Sweep so many settings."""
    asked = Asked(trains)
    requests = [Request(num_workers=number) for number in range(settings)]
    return sweeping.sweep(asked, requests, blocks), asked


def test_each_block_has_each_setting_and_the_ceiling_once():
    """All are opened first; then each block runs each once, in changing order; nothing of the first epochs counts."""
    made, asked = swept(lambda number, epoch: timed(1.0 + number / 4 + (100 if epoch == 0 else 0)))

    rounds = asked.log[5:-1]
    blocks = [rounds[at : at + 4] for at in range(0, len(rounds), 4)]
    assert [
        ("start", -1),
        *(("open_loader", number) for number in range(3)),
        ("train_on_ceiling", -1),
    ] == asked.log[:5]
    everyone = {("train", 0), ("train", 1), ("train", 2), ("train_on_ceiling", -1)}
    assert [everyone] * 6 == [set(block) for block in blocks]
    assert 1 < len({tuple(block) for block in blocks})
    assert ("finish", -1) == asked.log[-1]
    assert {number: [1.0 + number / 4] * 6 for number in range(3)} == made.seconds
    assert [0.5] * 6 == made.ceiling
    assert 0.3 == pytest.approx(made.setup_s[1])
    assert "sweep, block 6 of 6: num_workers=2" in asked.told


def test_setting_that_hangs_is_left_out():
    """When the process is lost with all that was open, the sweep begins anew without the one that lost it."""

    def trains(number: int, epoch: int) -> Any:
        if (number, epoch) == (1, 3):
            raise Hung("the loader gave no answer within 6 s. It did not return.\nAll stacks")
        return timed()

    made, asked = swept(trains)

    assert {1: "the loader gave no answer within 6 s"} == made.failed
    assert {0: [1.0] * 6, 2: [1.0] * 6} == made.seconds
    assert [("start", -1), ("open_loader", 0), ("open_loader", 2)] == asked.log[
        asked.log.index(("start", -1), 1) :
    ][:3]


def test_setting_that_cannot_be_opened_is_left_out():
    """What raises when it is opened costs nothing of the others' time."""

    def trains(number: int, _: int) -> Any:
        if number == 1:
            raise Raised("ValueError", "no such depth\nreally", "Traceback")
        return timed()

    made, asked = swept(trains)

    assert {1: "raised ValueError: no such depth"} == made.failed
    assert 1 == asked.log.count(("start", -1))


def test_setting_of_unequal_work_is_left_out():
    """What delivers fewer samples in any of its epochs is not compared."""
    made, _ = swept(lambda number, epoch: timed(samples=60 if (number, epoch) == (2, 4) else 64))

    assert {2: "unequal work: 60 samples in 4 batches, for 64 in 4"} == made.failed
    assert {0, 1} == set(made.seconds)


def test_default_that_fails_fails_the_test():
    """Without the first there is nothing to compare with."""

    def trains(number: int, _: int) -> Any:
        raise Raised("ValueError", f"not even {number}", "Traceback")

    with pytest.raises(Raised, match="not even 0"):
        swept(trains)


def test_far_too_slow_setting_costs_three_blocks():
    """What is given up is asked for no more, and keeps its three measurements."""
    made, _ = swept(lambda number, _: timed([1.0, 1.1, 9.0][number]))

    assert [6, 6, 3] == [len(made.seconds[number]) for number in range(3)]


# What can be tried.


@pytest.mark.parametrize(
    ("number", "more", "expected"),
    [
        (1.0, (), (0, 1, 2)),
        (2.0, (0, 2), (0, 1, 2)),
        (2.5, (), (0, 1, 2, 3)),
        (6.0, (), (0, 1, 2, 4, 6)),
        (16.0, (3,), (0, 1, 2, 3, 4, 8, 16)),
    ],
)
def test_worker_counts(number, more, expected):
    """Powers of two up to the cores, at least two, and what was asked for."""
    assert expected == worker_counts(number, more)


def test_setting_makes_a_request():
    """A setting changes the workers and options of a request, and nothing else."""
    setting = Setting(2, (("cache", True),)).having("depth", 4).having("cache", value=False)

    made = setting.request(Request(seed=3, batch_size=8, options={"old": 1}))

    assert Request(seed=3, batch_size=8, num_workers=2, options={"cache": False, "depth": 4}) == made
    assert "num_workers=2, cache=False, depth=4" == str(setting)


def test_setting_of_a_loader_without_workers():
    """Workers that a loader does not take are neither named nor changed."""
    assert ["as it is", "cache=True"] == [str(Setting()), str(Setting().having("cache", value=True))]
    assert Request(num_workers=3) == Setting().request(Request(num_workers=3))


def test_values_that_cannot_be_hashed():
    """An option may have a list as its value."""
    assert 1 == len({Setting(0, (("sizes", [1, 2]),)), Setting(0).having("sizes", [1, 2])})


def test_quota_limits_the_cores(tmp_path):
    """The strictest quota of all groups that the process is in counts, if it is below the affinity."""
    own, deep = tmp_path / "own", tmp_path / "groups" / "outer" / "inner"
    deep.mkdir(parents=True)
    own.write_text("0::/outer/inner\n")
    unlimited = cores(tmp_path / "groups", own)
    (deep / "cpu.max").write_text("max 100000\n")
    (deep.parent / "cpu.max").write_text("50000 100000\n")

    assert unlimited == cores(tmp_path / "nowhere", tmp_path / "nothing")
    assert 0.5 == cores(tmp_path / "groups", own)


def test_quota_of_the_first_version(tmp_path):
    """Control groups of version 1 say it in two files."""
    own, folder = tmp_path / "own", tmp_path / "cpu" / "mine"
    folder.mkdir(parents=True)
    own.write_text("5:memory:/other\n4:cpu,cpuacct:/mine\n")
    (folder / "cpu.cfs_quota_us").write_text("25000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")

    assert 0.25 == cores(tmp_path, own)


# What is told.

START, BEST = Setting(0), Setting(2, (("prefetch_factor", 4),))
PEAKS = {START: 100 * 2**20, BEST: 410 * 2**20}


def told(**found) -> str:
    """Return what is told of a default at 62 % of the ceiling and of one other setting."""
    tried = [
        Tried(START, Ratio(1, 1, 1), Ratio(0.62, 0.6, 0.64), 0.01, 8),
        Tried(BEST, Ratio(1.6, 1.4, 1.8), Ratio(0.99, 0.98, 1.0), 0.21, 8),
        Tried(Setting(4), failed="raised ValueError: too many"),
    ]
    return tuning_report.text(
        Found(**{"start": START, "best": START, "tried": tried, **found}), PEAKS, "about"
    )


def test_best_is_told_with_its_price():
    """One sentence says what is best, by how much, what it costs, and how to set it."""
    text = told(best=BEST, gain=Ratio(1.62, 1.5, 1.7))

    assert (
        "best: num_workers=2, prefetch_factor=4: 1.62 (1.50 to 1.70) times the default's speed for 310 MiB more"
        " and 0.2 s more setup; set it by Request(num_workers=2, options={'prefetch_factor': 4}),"
        " in a DataLoader of your own by DataLoader(..., num_workers=2, prefetch_factor=4)"
    ) == text.splitlines()[-1]


def test_table_of_settings():
    """Each setting has a line; those that failed are named with the reason."""
    cells = [re.split(r" {2,}", line) for line in told().splitlines()]

    assert ["num_workers=0 (default)", "1", "62.0 %", "0.01 s", "100 MiB", "8"] == cells[1]
    assert [
        "num_workers=2, prefetch_factor=4",
        "1.60 (1.40 to 1.80)",
        "99.0 %",
        "0.21 s",
        "410 MiB (+310)",
        "8",
    ] == (cells[2])
    assert ["num_workers=4", "left out", "-", "-", "-", "-"] == cells[3]
    assert ["left out: num_workers=4: raised ValueError: too many"] == cells[4]


def test_nothing_better_is_told():
    """Where no setting helps, it says what is left to gain, and where to look for it."""
    assert (
        "no setting is measurably faster than the default, which trains at 62.0 % of the ceiling;"
        " what holds it back is something else: --loader-profile stages"
    ) == told().splitlines()[-1]
    assert "(num_workers=2, prefetch_factor=4 was, until it was measured once more)" in told(unconfirmed=BEST)


def test_data_for_reports():
    """Everything is kept as plain data."""
    made = tuning_report.as_data(
        Found(START, BEST, Ratio(1.6, 1.5, 1.7), None, [Tried(START), Tried(BEST)]), PEAKS
    )

    assert (2, {"prefetch_factor": 4}, 310 * 2**20) == (made["workers"], made["options"], made["more_memory"])
    assert {"value": 1.6, "low": 1.5, "high": 1.7} == made["gain"]
    assert ["num_workers=0", str(BEST)] == [row["setting"] for row in made["tried"]]


# Real loaders.


def sections(text: str) -> str:
    """Return what was told of best settings."""
    return text.partition(" best settings ===")[2]


def test_workers_are_found(suite_run):
    """A loader that waits for each batch is told to take workers; what fails is named, and the run goes on."""
    data = (
        "--loader-data",
        "probe:730:28x26x1:10",
        "--loader-samples",
        "730",
        "--loader-device",
        "emulated:1ms",
    )

    done = suite_run.judge(*data, "--loader", f"{SLOW}:waiting", "--loader-tune", "-k", "test_tune")

    text = sections(done.stdout)
    best = re.search(r"^best: num_workers=(\d+): ([\d.]+) \(([\d.]+) to [\d.]+\) times", text, re.MULTILINE)
    failed = re.findall(r"^left out: num_workers=\d+, mood='(\w+)': (.*)$", text, re.MULTILINE)
    assert 0 == done.returncode
    assert best, done.stdout
    assert int(best[1]) >= 2
    assert float(best[3]) > 1
    assert re.search(r"^num_workers=0 \(default\) +1 .* \d+ MiB +\d+$", text, re.MULTILINE)
    assert ["raising", "dying", "short"] == [mood for mood, _ in failed]
    reasons = [reason for _, reason in failed]
    assert "raised ValueError: this setting is refused" == reasons[0]
    assert "the loader's process ended with exit code 3" == reasons[1]
    assert re.search(r"^unequal work: \d+ samples in \d+ batches, for \d+ in \d+$", reasons[2])
    swept = [one.what for one in suite_run.outcomes()]
    assert ["passed", "skipped"] == swept
    assert set() == {"torch", "tensorflow"} & suite_run.modules()


def test_a_loader_without_settings(suite_run):
    """Where there is nothing to try, it says so."""
    done = suite_run.judge(
        *("--loader-data", "probe:64:28x26x1:10"),
        *("--loader", f"{SLOW}:without_settings", "--loader-tune", "-k", "test_tune"),
    )

    assert 0 == done.returncode
    assert (
        "nothing to try: it takes no workers, and declares no options to be tuned on emulated 2 ms step"
        in sections(done.stdout)
    )
