"""What to change, by cause, with the options that the adapter has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loaderproof.loaders.contract import Description, Promise
from loaderproof.suite.diagnosis import evidence as arms
from loaderproof.suite.diagnosis.causes import BESIDE, LOADING, Cause
from loaderproof.suite.diagnosis.evidence import Evidence, Role
from loaderproof.suite.diagnosis.verdict import CROWDED_OUT, Verdict, fetch_stall

_ADVICE: dict[Cause, tuple[str, ...]] = {
    Cause.NONE: ("loader and device are well matched: a faster loader brings at most what is lost here",),
    Cause.UNKNOWN: (
        "measure again on a quiet machine, or longer: --loader-samples all",
        "other programs that use the cores, and clocks that change, widen the intervals",
    ),
    Cause.COMPUTE: ("leave the loader as it is: a smaller network or a faster device is what helps",),
    Cause.TRANSFER: (
        "hand over fewer bytes: uint8 instead of float32, converted and scaled on the device",
        "make batches contiguous, and no larger than the network takes",
    ),
    Cause.PINNING: (
        "have batches lie in pinned memory: pin_memory=True in a DataLoader, or tensor.pin_memory()",
    ),
    Cause.START_UP: ("do what workers need to begin once, before the first epoch, or when it is first used",),
    Cause.FETCH: (
        "read larger pieces, one after the other, instead of one file for each sample",
        "copy the data to a local disk, or keep it in memory after the first epoch",
    ),
    Cause.PREPARATION: (
        "do once what is the same in each epoch (decoding, resizing) and store what comes out",
        "work on whole batches instead of single samples, or on the device",
    ),
    Cause.HAND_OVER: (
        "send less through the queue: uint8, no field that training does not use, no copy in float64",
        "hand over torch tensors, which lie in shared memory, instead of objects that are pickled",
    ),
    Cause.STRAGGLERS: (
        "find what the slow worker or batch has that others have not: a larger file, a busy core, a slower disk",
        "see if Python's garbage collector pauses: gc.freeze() once everything is open, gc.disable() to try",
        "spread expensive samples evenly, or take batches as they get ready (in_order=False), in another order",
    ),
    Cause.OVER_SUBSCRIPTION: (
        "give each process one thread: torch.set_num_threads(1), cv2.setNumThreads(0), OMP_NUM_THREADS=1",
        "start no more workers than there are cores",
    ),
    Cause.GIL: (
        "use processes instead of threads: threads of one interpreter take turns",
        "or do the work in libraries that release the lock, on whole batches instead of single samples",
    ),
}
# Options by which adapters do something about a cause.
_OPTIONS: dict[Cause, tuple[str, ...]] = {
    Cause.TRANSFER: ("on_device",),
    Cause.PINNING: ("pin_memory",),
    Cause.START_UP: ("persistent_workers",),
    Cause.FETCH: ("cache", "prefetch_factor", "autotune", "file"),
    Cause.PREPARATION: ("cache", "autotune"),
    Cause.STRAGGLERS: ("prefetch_factor",),
}
_WORTH = 1.03
# Workers of which so few are busy at a time, though all that they make is taken at once, wait for each other.
_IN_TURNS, _BUSY = 1.3, 0.7


def advice(found: Evidence, judgement: Verdict, about: Description) -> list[str]:
    """Return what to do, what was measured here first.

    Args:
        found: what was measured.
        judgement: the verdict on it.
        about: the adapter.
    """
    told = [
        *_workers(found, judgement, about),
        *_sharing(found, judgement),
        *_options(judgement.cause, about),
    ]
    return [*told, *_ADVICE[judgement.cause]]


def _workers(found: Evidence, judgement: Verdict, about: Description) -> Iterator[str]:
    """Say what other numbers of workers bring, if they were tried; else which option tries them."""
    if judgement.cause not in (*LOADING, Cause.START_UP):
        return
    if found.speeds:
        yield _best(found)
    elif Promise.WORKERS in about.promises:
        yield "let the settings be measured: --loader-tune"


def _sharing(found: Evidence, judgement: Verdict) -> Iterator[str]:
    """Say what processes or threads that make batches have in common, if that holds them back."""
    seen = found.activity
    if seen is None or judgement.cause not in (Cause.FETCH, Cause.PREPARATION):
        return
    busy = [_busy(worker, found.granted) for worker in seen.workers]
    if len(busy) > 1 and sum(busy) < _IN_TURNS and seen.main.active < _BUSY:
        yield (
            "look for what the workers share: they wait for each other, as for a lock, one connection, or a"
            " queue of tasks"
        )
    if judgement.cause is Cause.PREPARATION and not busy and seen.threads_cpu > BESIDE * seen.main.cpu:
        yield "other threads of this process compute: as far as that is Python, they take turns; try processes"


def _busy(role: Role, granted: float) -> float:
    """Return the share of the time in which a process would be busy if nobody else had the cores."""
    active = role.running * granted + role.device
    return active / max(active + 1 - role.active, 1e-9)


def _best(found: Evidence) -> str:
    others = {count: speed for count, speed in found.speeds.items() if count != found.workers}
    gains = {count: speed for count, speed in others.items() if speed.low > _WORTH}
    listed = ", ".join(f"{count}: {speed.value:.2f}x" for count, speed in sorted(others.items()))
    if not gains:
        return f"leave num_workers={found.workers}: no other number is faster here ({listed})"
    best = max(gains, key=lambda count: gains[count].value)
    speed = gains[best]
    return (
        f"num_workers={best} brings {speed.value:.2f}x here ({speed.low:.2f} to {speed.high:.2f});"
        f" by number of workers, against {found.workers}: {listed}"
    )


def _options(cause: Cause, about: Description) -> list[str]:
    names = [name for name in _OPTIONS.get(cause, ()) if name in about.tunable]
    return [f"try {_shown(name, about)}; --loader-tune measures what it brings" for name in names]


def _shown(name: str, about: Description) -> str:
    return " or ".join(f"{name}={value!r}" for value in about.tunable[name].values)


def observations(found: Evidence) -> list[str]:
    """Return what was measured, in sentences."""
    return [sentence for say in (_speed, _others, _makers, _threads, _cold) for sentence in say(found)]


def _ms(found: Evidence, arm: str) -> float:
    return 1e3 * float(np.median([arms.steady_s(one) for one in found.passes[arm]]))


def _speed(found: Evidence) -> Iterator[str]:
    step, alone = _ms(found, arms.CEILING), _ms(found, arms.ALONE)
    yield (
        f"a step takes {_ms(found, arms.WARM):.2f} ms; with batches on the device it takes {step:.2f} ms, with this"
        f" loader's batches replayed from memory {_ms(found, arms.REPLAY):.2f} ms"
    )
    yield f"the loader alone makes a batch in {alone:.2f} ms: {step / alone:.2f} times as fast as the device"


def _others(found: Evidence) -> Iterator[str]:
    first = 1e3 * float(np.median([one.first_batch_s for one in found.passes[arms.WARM]]))
    yield f"the first batch of an epoch takes {first:.0f} ms"
    if found.passes.get(arms.PLAIN):
        yield f"without workers a step takes {_ms(found, arms.PLAIN):.2f} ms"


def _makers(found: Evidence) -> Iterator[str]:
    if not found.activity:
        yield "this kernel does not tell what the loader's processes do: what loading waits for is not known"
        return
    roles = found.activity.workers
    for number, role in enumerate(roles[: found.workers] or [found.activity.main]):
        who = f"worker {number}" if roles else "the process itself"
        yield (
            f"{who}, while the loader ran alone: computing or ready to {role.running:.0%} of the time, waiting for"
            f" disk, network or clock {role.device:.0%}, for other processes {1 - role.active:.0%}"
        )
    if roles:
        yield f"the process that takes the batches was busy {found.activity.main.active:.0%} of the time"


def _threads(found: Evidence) -> Iterator[str]:
    if not found.activity:
        return
    role = max([found.activity.main, *found.activity.workers], key=lambda one: one.demand)
    yield (
        f"threads of one process wanted {role.demand:.1f} cores and got {role.cpu:.1f}; there are {found.cores:g}"
        " (affinity and quota)"
    )
    if found.granted < CROWDED_OUT:
        yield (
            f"other programs used the cores meanwhile: the loader got {found.granted:.0%} of what it wanted and the"
            " machine has; on a quiet one loading takes less time"
        )
    if found.activity.threads_cpu > 0.1:
        yield (
            f"threads beside the main one used {found.activity.threads_cpu:.1f} cores; one that wants to run Python"
            f" waited {found.activity.late_ms:.1f} ms for the interpreter's lock (mean)"
        )


def _cold(found: Evidence) -> Iterator[str]:
    if found.passes.get(arms.COLD):
        stall = fetch_stall(found)
        said = f"{stall} longer" if stall.low > 0 else "no longer, as far as this run can tell"
        yield f"after its files were dropped from the page cache an epoch takes {said}"
