"""A verdict as text for a person, and as plain data for files."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from loaderproof.loaders.contract import Description
from loaderproof.suite.diagnosis import evidence as arms
from loaderproof.suite.diagnosis.advice import advice, observations
from loaderproof.suite.diagnosis.causes import LOADING, Cause
from loaderproof.suite.diagnosis.evidence import Evidence
from loaderproof.suite.diagnosis.verdict import Share, Verdict, costs

_MEANING = {
    Cause.COMPUTE: "the device computes",
    Cause.TRANSFER: "batches go to the device",
    Cause.PINNING: "batches go to the device by way of memory that is not pinned",
    Cause.START_UP: "the first batch of an epoch, and its end",
    Cause.FETCH: "waiting for disk, network or clock",
    Cause.PREPARATION: "decoding, transforming, collating",
    Cause.HAND_OVER: "batches go from process to process",
    Cause.STRAGGLERS: "a few workers or batches that all others wait for",
    Cause.OVER_SUBSCRIPTION: "more threads than cores",
    Cause.GIL: "threads wait for the interpreter's lock",
}
_HOT = 0.05


def text(found: Evidence, judgement: Verdict, about: Description) -> str:
    """Return the verdict with its shares, what was measured, and what to do."""
    lines = [f"  {_headline(judgement)}", "", f"  {_about(found)}"]
    lines += [
        f"    {one.cause:<17} {one!s:>24}  {_MEANING[one.cause]}" for one in judgement.shares if _shows(one)
    ]
    lines += ["", "  measured"]
    lines += [f"    - {sentence}" for sentence in [*observations(found), *_hot(found, judgement)]]
    lines += ["", "  what to do"]
    lines += [f"    - {sentence}" for sentence in advice(found, judgement, about)]
    return "\n".join(lines)


def _headline(judgement: Verdict) -> str:
    cost = judgement.cost
    if judgement.cause is Cause.NONE:
        said = f"no bottleneck: all but computing costs {cost} of the time"
    elif judgement.cause is Cause.UNKNOWN:
        said = f"not enough evidence: all but computing costs {cost} of the time"
    elif judgement.cause is Cause.COMPUTE:
        said = f"the accelerator is the bottleneck: it computes {cost} of the time"
    else:
        said = f"{judgement.cause} costs {cost} of the time"
    if judgement.second:
        said += f"; then {judgement.second.cause}, {judgement.second}"
    return said


def _about(found: Evidence) -> str:
    seconds = float(np.median([arms.epoch_s(one, found.batches) for one in found.passes[arms.WARM]]))
    return (
        f"an epoch of {found.batches} batches takes {seconds:.3g} s on {found.device}; of that (95 % intervals over"
        f" {found.blocks} blocks)"
    )


def _shows(one: Share) -> bool:
    return one.cause not in (*LOADING, Cause.PINNING) or one.percent >= 0.5


def _hot(found: Evidence, judgement: Verdict) -> list[str]:
    if judgement.cause not in LOADING:
        return []
    return [
        f"loading spends {one.share:.0%} of its time in {one.function} ({one.place})"
        for one in found.hot
        if one.own >= _HOT
    ]


def as_data(found: Evidence, judgement: Verdict, about: Description) -> dict[str, Any]:
    """Return the verdict as plain data, without infinities, which JSON does not know."""
    return {
        "loader": found.loader,
        "device": found.device,
        "blocks": found.blocks,
        "cause": str(judgement.cause),
        "cost": _finite(judgement.cost),
        "second": judgement.second and _finite(judgement.second),
        "shares": [_finite(one) for one in judgement.shares],
        "costs": {
            name: {"ms": ms, "half": half if math.isfinite(half) else None}
            for name, (ms, half) in costs(found).items()
        },
        "measured": observations(found),
        "advice": advice(found, judgement, about),
        "workers": {str(count): asdict(speed) for count, speed in found.speeds.items()},
    }


def _finite(one: Share) -> dict[str, Any]:
    figures = asdict(one) | {"cause": str(one.cause)}
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in figures.items()
    }
