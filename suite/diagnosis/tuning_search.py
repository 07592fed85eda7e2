"""The search for a loader's best setting: what to try next, and what is better. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loaderproof.loaders.contract import Tunable
from loaderproof.suite.diagnosis.tuning import Setting, Sweep
from loaderproof.suite.statistics import Ratio

# So close to the ceiling, no setting can bring much more.
ENOUGH = 0.98

Measure = Callable[[str, Sequence[Setting]], Sweep]


@dataclass(frozen=True)
class Plan:
    """What can be tried of one loader.

    Attributes:
        start: the default, which everything is compared with.
        workers: numbers of workers; none if the loader takes none.
        options: of the adapter.
    """

    start: Setting
    workers: tuple[int, ...] = ()
    options: Mapping[str, Tunable] = field(default_factory=dict)

    @property
    def comparisons(self) -> int:
        """The most candidates that one search tries, so many intervals have to hold together."""
        more = 2 * (len(self.workers) + 1) if self.workers else 0
        return max(1, more + sum(len(option.values) for option in self.options.values()))


@dataclass(frozen=True)
class Tried:
    """One setting that was tried.

    Attributes:
        setting: what it was.
        speed: as a multiple of the default's; None if it failed. These intervals hold together.
        of_ceiling: as a share of the ceiling's; None likewise.
        setup_s: opening the loader and its very first batch, in seconds.
        blocks: how many were measured.
        failed: why it was left out; empty if it was not.
    """

    setting: Setting
    speed: Ratio | None = None
    of_ceiling: Ratio | None = None
    setup_s: float | None = None
    blocks: int = 0
    failed: str = ""


@dataclass
class Found:
    """What a search found.

    Attributes:
        start: the default.
        best: the setting to use; the default if nothing is measurably faster.
        gain: speed of the best as a multiple of the default's, from blocks that chose nothing;
            None if the default is the best.
        unconfirmed: what was faster when it was chosen, and was not when it was measured again.
        tried: everything, in the order in which it was tried; the default first.
    """

    start: Setting
    best: Setting
    gain: Ratio | None = None
    unconfirmed: Setting | None = None
    tried: list[Tried] = field(default_factory=list)


def search(plan: Plan, measure: Measure) -> Found:
    """Find the best setting, changing one thing at a time.

    First the number of workers, then each option at the best so far, then workers again if that
    changed something. Whatever is chosen must be measurably faster than what it replaces. The
    winner is measured once more, beside the default alone, in blocks that had no part in the choice.

    Args:
        plan: what can be tried.
        measure: runs settings side by side; gets what is tried, in words, and the settings, of which
            the first is the default.
    """
    return _Search(plan, measure).run()


class _Search:
    def __init__(self, plan: Plan, measure: Measure) -> None:
        self._plan, self._measure = plan, measure
        self._best = plan.start
        self._speeds: dict[Setting, float] = {}
        self._headroom = True
        self.found = Found(plan.start, plan.start)

    def run(self) -> Found:
        self._try_workers()
        for name, option in self._plan.options.items():
            self._try_option(name, option)
        if self._best.options != self._plan.start.options:
            self._try_workers()
        self._confirm()
        return self.found

    def _try_workers(self) -> None:
        least = self._least_workers()
        counts = [count for count in self._plan.workers if count >= least]
        self._try("num_workers", [replace(self._best, workers=count) for count in counts])
        if counts and self._best.workers == counts[-1]:  # the end of the range need not be the best there is
            self._try("num_workers", [replace(self._best, workers=2 * counts[-1])])

    def _least_workers(self) -> int:
        """Return the number of workers below which an option that was chosen would have no effect."""
        chosen = {name for name, value in self._best.options if (name, value) not in self._plan.start.options}
        return max((self._plan.options[name].min_workers for name in chosen), default=0)

    def _try_option(self, name: str, option: Tunable) -> None:
        base = self._base(option.min_workers)
        if base is not None:
            self._try(name, [base.having(name, value) for value in option.values])

    def _base(self, workers: int) -> Setting | None:
        """Return the fastest setting with so many workers, even if the best has fewer; None if there is none."""
        if (self._best.workers or 0) >= workers:
            return self._best
        enough = [setting for setting in self._speeds if (setting.workers or 0) >= workers]
        return max(enough, key=self._speeds.__getitem__, default=None)

    def _try(self, what: str, candidates: Sequence[Setting]) -> None:
        """Measure those candidates that are new, beside the default and the best so far; choose."""
        new = [one for one in dict.fromkeys(candidates) if one not in self._known]
        if not new or not self._headroom:
            return
        settings = list(dict.fromkeys([self._plan.start, self._best, *new]))
        sweep = self._measure(what, settings)
        self._note(settings, sweep)
        chosen = choose(sweep, settings.index(self._best), self._plan.comparisons)
        self._best = settings[chosen]
        self._headroom = sweep.of_ceiling(chosen, self._plan.comparisons).low < ENOUGH

    @property
    def _known(self) -> set[Setting]:
        return {one.setting for one in self.found.tried} | {self._plan.start}

    def _note(self, settings: Sequence[Setting], sweep: Sweep) -> None:
        for tried in self._tried(settings, sweep):
            if tried.speed:
                self._speeds[tried.setting] = tried.speed.value
            if tried.setting not in {one.setting for one in self.found.tried}:
                self.found.tried.append(tried)

    def _tried(self, settings: Sequence[Setting], sweep: Sweep) -> Iterator[Tried]:
        for number, setting in enumerate(settings):
            if number in sweep.failed:
                yield Tried(setting, failed=sweep.failed[number])
                continue
            yield Tried(
                setting,
                sweep.speed(number, 0, self._plan.comparisons),
                sweep.of_ceiling(number),
                sweep.setup_s.get(number),
                len(sweep.seconds[number]),
            )

    def _confirm(self) -> None:
        if self._best == self._plan.start:
            return
        sweep = self._measure("once more", [self._plan.start, self._best])
        gain = None if 1 in sweep.failed else sweep.speed(1)
        if gain and gain.low > 1:
            self.found.best, self.found.gain = self._best, gain
        else:
            self.found.unconfirmed = self._best


def choose(sweep: Sweep, incumbent: int, comparisons: int) -> int:
    """Return the number of the setting to go on with.

    The fastest of those that are measurably faster than the incumbent, or a simpler one, which comes
    before it, that is faster than the incumbent, too, and not measurably slower than the fastest.

    Args:
        sweep: what was measured; requests in the order of what they cost, the simplest first.
        incumbent: number of the best so far.
        comparisons: how many intervals must hold together.
    """

    def faster(one: int, other: int) -> bool:
        return sweep.speed(one, other, comparisons).low > 1

    others = [
        number for number in sweep.seconds if number not in (0, incumbent) and number not in sweep.failed
    ]
    better = [number for number in others if faster(number, incumbent)]
    if not better:
        return incumbent
    fastest = max(better, key=lambda number: sweep.speed(number, incumbent).value)
    return next(number for number in sorted(better) if number == fastest or not faster(fastest, number))
