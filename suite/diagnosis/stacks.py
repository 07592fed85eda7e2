"""From recorded stacks to a table of roles and stages, and to the functions in which loading spends its time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loaderproof.suite.diagnosis.frames import Frame, Role, Stack
from loaderproof.suite.diagnosis.recordings import Recording
from loaderproof.suite.diagnosis.stack_rules import LOADING, Stage, matching

# They call the loader's code and are none of it.
_PLUMBING = re.compile(
    r"(?:^|/)(?:torch/utils/data/(?:dataloader|_utils/(?:worker|fetch|pin_memory))\.py|torch/multiprocessing/.*"
    r"|suite/experiments/\w+\.py|suite/worker\.py|model/\w+\.py|loaders/_epochs\.py)$"
)

# Share from which on something is worth a sentence.
_MUCH = 0.02
_UNSEEN = (
    "{} of the main thread's time it waited in TensorFlow, whose own threads have no Python stacks:"
    " what they do is not seen here (TensorFlow's own profiler sees it)"
)
# So many samples bring a share of a half within 10 points (95 %, binomial).
_FEW = 100


@dataclass(frozen=True)
class Profile:
    """Samples by role and stage.

    Attributes:
        counts: samples of each stage, by role.
        rate: samples of a thread in a second.
        unseen: share of the main thread's time in which it waited for threads without Python stacks.
    """

    counts: Mapping[Role, Mapping[Stage, int]]
    rate: int
    unseen: float

    def seconds(self, role: Role) -> float:
        """Return for how long threads of a role were seen, all together."""
        return sum(self.counts.get(role, {}).values()) / self.rate

    def share(self, role: Role, stage: Stage) -> float:
        """Return the share of a role's time that a stage took."""
        counts = self.counts.get(role, {})
        return counts.get(stage, 0) / max(sum(counts.values()), 1)


@dataclass(frozen=True)
class Hot:
    """A function in which loading spends its time.

    Attributes:
        function: its name, with the class if that is known.
        place: file and line; the line of it that was seen most.
        share: of the time spent loading, in it and all that it calls; 0 to 1.
        own: of the time spent loading, in itself and in Python's library and compiled code that it calls; 0 to 1.
    """

    function: str
    place: str
    share: float
    own: float


def profile(stacks: Iterable[Stack], rate: int) -> Profile:
    """Count samples by role and stage.

    Args:
        stacks: of one recording.
        rate: samples of a thread in a second.
    """
    counts: dict[Role, Counter[Stage]] = defaultdict(Counter)
    native = 0
    for stack in stacks:
        rule = matching(stack.frames)
        counts[stack.role][_for_role(rule.stage, stack.role)] += stack.count
        native += stack.count if rule.native and stack.role is Role.MAIN else 0
    return Profile(counts, rate, native / max(sum(counts[Role.MAIN].values()), 1))


def _for_role(stage: Stage, role: Role) -> Stage:
    return Stage.BATCH_WAIT if stage is Stage.WAIT and role is Role.MAIN else stage


def hottest(stacks: Iterable[Stack], limit: int = 5) -> list[Hot]:
    """Return the functions in which loading spends most time of its own, the first of them first.

    Args:
        stacks: of one recording.
        limit: how many at the most.

    Returns:
        Functions of the loader and of the libraries that it calls, but for Python's own; shares are of the
        samples in which any thread read, decoded, transformed, collated, or ran other code of the loader.
    """
    own: Counter[tuple[str, str]] = Counter()
    within: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    total = 0
    for stack in stacks:
        if matching(stack.frames).stage not in LOADING:
            continue
        total += stack.count
        theirs = [frame for frame in stack.frames if _is_loading(frame)]
        for key in {_key(frame) for frame in theirs}:
            within[key] += stack.count
        if theirs:
            own[_key(theirs[-1])] += stack.count
            lines[_key(theirs[-1])][theirs[-1].line] += stack.count
    return [
        Hot(key[0], Frame(*key, lines[key].most_common(1)[0][0]).place, within[key] / total, count / total)
        for key, count in own.most_common(limit)
    ]


def _is_loading(frame: Frame) -> bool:
    return not frame.library and not _PLUMBING.search(frame.file)


def _key(frame: Frame) -> tuple[str, str]:
    return re.sub(r"\.<locals>\.<\w+>$", "", frame.function), frame.file


def report(found: Sequence[Stack], recording: Recording) -> str:
    """Return everything that a recording says, for a person.

    Args:
        found: the stacks of the recording.
        recording: all of it.
    """
    seen, hot = profile(found, recording.rate), hottest(found)
    parts = [f"{recording.steps} steps on {recording.device}", "", table(seen)]
    if seen.unseen >= _MUCH:
        parts += ["", _UNSEEN.format(_percent(seen.unseen))]
    if hot:
        parts += [
            "",
            f"where loading spends its time, {_loading_s(seen):.1f} s of all threads:",
            hot_table(hot),
        ]
    samples = sum(seen.counts.get(Role.MAIN, {}).values())
    if samples < _FEW:
        parts += ["", f"only {samples} samples of the main thread: the shares are rough"]
    unread = _unread(recording)
    if unread >= _MUCH:
        parts += [
            "",
            f"py-spy could not read {_percent(unread)} of the samples; the shares are of the others",
        ]
    return "\n".join([*parts, ""])


def _unread(recording: Recording) -> float:
    """Return the share of samples that py-spy could not read."""
    found = re.search(r"Samples: (\d+) Errors: (\d+)", recording.said)
    samples, errors = (int(found[1]), int(found[2])) if found else (0, 0)
    return errors / max(samples + errors, 1)


def _loading_s(seen: Profile) -> float:
    counts = (counts[stage] for counts in seen.counts.values() for stage in LOADING if stage in counts)
    return sum(counts) / seen.rate


def table(found: Profile) -> str:
    """Return the shares of all stages, a column for each role."""
    roles = [role for role in Role if found.counts.get(role)]
    stages = [stage for stage in Stage if any(found.counts[role].get(stage) for role in roles)]
    rows = [["", *roles]]
    rows += [[stage, *(_percent(found.share(role, stage)) for role in roles)] for stage in stages]
    rows.append(["seen for", *(f"{found.seconds(role):.1f} s" for role in roles)])
    return _aligned(rows)


def hot_table(hot: Sequence[Hot]) -> str:
    """Return the hottest functions as a table."""
    rows = [["itself", "with calls", "function"]]
    rows += [[_percent(one.own), _percent(one.share), f"{one.function} ({one.place})"] for one in hot]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows)


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %") if share else "-"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:{'<' if number == 0 else '>'}{widths[number]}}" for number, cell in enumerate(row))
        for row in rows
    )
