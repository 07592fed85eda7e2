"""The gate's answer as a file, for machines: written whole or not at all, and read as data only."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loaderproof.suite.gate.decision import LEVEL, Answer, Effect, overall
from loaderproof.suite.gate.judgement import Judgement
from loaderproof.suite.gate.measures import SHARES, Measure

FORMAT = 1
_ANSWERS = frozenset(map(str, Answer))
_MEASURES = frozenset(map(str, Measure))
# What is there of each loader, and of each of its measures.
_LOADER = {
    "loader": str,
    "base": str,
    "answer": str,
    "reason": str,
    "tests": int,
    "measures": dict,
    "missing": dict,
}
_EFFECT = {"answer": str, "scale": str, "differences": list, "noise": list}
_NUMBERS = ("margin", "mean", "low", "high", "error", "degrees", "p_worse", "p_within", "smallest")


class ResultError(Exception):
    """A file holds no answer of a gate that could be relied on; the text says why."""


def answer_of(answers: Sequence[Answer]) -> Answer:
    """Return the answer for all loaders of a run."""
    return Answer.RECORDED if set(answers) == {Answer.RECORDED} else overall(answers)


def as_text(judgements: Sequence[Judgement], environment: Mapping[str, Any], *, complete: bool) -> str:
    """Return everything that was found, as JSON.

    Args:
        judgements: of all loaders.
        environment: plain data about machine and versions.
        complete: whether all loaders of the run are among them.
    """
    data = {
        "format": FORMAT,
        "complete": complete,
        "answer": str(answer_of([one.answer for one in judgements])),
        "level": LEVEL,
        "environment": environment,
        "loaders": [_loader(one) for one in judgements],
    }
    return json.dumps(_finite(data), indent=1, allow_nan=False) + "\n"


def _loader(one: Judgement) -> dict[str, Any]:
    return {
        "loader": one.loader,
        "base": one.base,
        "answer": str(one.answer),
        "reason": one.reason,
        "tests": one.tests,
        "seconds": one.seconds,
        "measures": {
            str(measure): _effect(measure, effect, one.answers[measure], one.tests)
            for measure, effect in one.effects.items()
        },
        "missing": {str(measure): reason for measure, reason in one.missing.items()},
    }


def _effect(measure: Measure, effect: Effect, answer: Answer, tests: int) -> dict[str, Any]:
    low, high = effect.interval()
    return {
        "answer": str(answer),
        "scale": "difference of shares" if measure in SHARES else "natural logarithm of a ratio",
        "margin": effect.margin,
        "mean": effect.mean,
        "low": low,
        "high": high,
        "error": effect.error,
        "degrees": effect.degrees,
        "p_worse": effect.p_worse(),
        "p_within": effect.p_within(),
        "smallest": effect.smallest(tests),
        "unlike_itself": bool(effect.unlike_itself()),
        "differences": [float(one) for one in effect.differences],
        "noise": [float(one) for one in effect.noise],
    }


def _finite(data: Any) -> Any:
    """Return the data with null for what is no number; JSON knows neither NaN nor infinity."""
    if isinstance(data, Mapping):
        return {str(name): _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def put(path: Path, text: str) -> None:
    """Write a file so that whoever looks sees all of it, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()


def drop(path: Path) -> None:
    """Remove a file, and what a run that was killed left of one."""
    for one in (path, *path.parent.glob(f".{path.name}.*")):
        one.unlink(missing_ok=True)


def read(path: Path) -> list[dict[str, Any]]:
    """Return what was found of each loader.

    Args:
        path: of a file that a gate wrote.

    Raises:
        ResultError: it cannot be read, is no such file, not whole, or of a run that did not answer for all
            of its loaders.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
        return _checked(data)
    except (OSError, ValueError, RecursionError, ResultError) as error:
        msg = f"{path} is no answer of a gate that can be relied on: {error}"
        raise ResultError(msg) from None


def _refuse(word: str) -> None:
    msg = f"{word} is no number"
    raise ResultError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    _require(len(found) == len(pairs), "a name stands in it twice")
    return found


def _checked(data: Any) -> list[dict[str, Any]]:
    _require(isinstance(data, dict), "it holds no object")
    version = data.get("format")
    _require(type(version) is int and version == FORMAT, f"its format is {version!r}, and not {FORMAT}")
    _require(data.get("complete") is True, "its run did not answer for all of its loaders")
    loaders = data.get("loaders")
    _require(isinstance(loaders, list) and bool(loaders), "it names no loaders")
    for one in loaders:
        _check_loader(one)
    names = [one["loader"] for one in loaders]
    _require(len(set(names)) == len(names), f"a loader stands in it twice: {', '.join(sorted(names))}")
    whole = answer_of([Answer(one["answer"]) for one in loaders])
    _require(data.get("answer") == whole, f"it says {data.get('answer')!r}, and its loaders {str(whole)!r}")
    return list(loaders)


def _check_loader(one: Any) -> None:
    _check_fields(one, _LOADER)
    for measure, effect in one["measures"].items():
        _require(measure in _MEASURES, f"there is no measure {measure!r}")
        _check_fields(effect, _EFFECT)
        numbers = [effect.get(name, "") for name in _NUMBERS] + effect["differences"] + effect["noise"]
        _require(all(map(_is_number, numbers)), f"{measure} of {one['loader']} lacks numbers")
    if one["measures"]:
        whole = overall([Answer(effect["answer"]) for effect in one["measures"].values()])
        _require(
            one["answer"] == whole, f"{one['loader']} is {one['answer']!r}, and its measures {str(whole)!r}"
        )
    _require(bool(one["measures"]) or one["answer"] != Answer.PASS, f"{one['loader']} passes unmeasured")


def _check_fields(data: Any, kinds: Mapping[str, type]) -> None:
    _require(isinstance(data, dict), "a part of it is no object")
    for name, kind in kinds.items():
        _require(type(data.get(name)) is kind, f"{name!r} is not there, or no {kind.__name__}")
    _require(data["answer"] in _ANSWERS, f"there is no answer {data['answer']!r}")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _require(true: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like a sentence
    if not true:
        raise ResultError(otherwise)
