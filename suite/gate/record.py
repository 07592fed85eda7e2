"""What the gate keeps of a loader in a file, and what of it can be trusted when it is read again."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loaderproof.suite.environment import Fingerprint
from loaderproof.suite.gate.choices import FEWEST
from loaderproof.suite.gate.decision import Answer

FORMAT = 1
_LONGEST_TEXT = 300

_FIELDS: dict[str, type] = {
    "loader": str,
    "environment": dict,
    "work": dict,
    "answer": str,
    "to_ceiling": dict,
}
_WORK: dict[str, type] = {
    "data": str,
    "samples": int,
    "batches": int,
    "batch_size": int,
    "seed": int,
    "processes": int,
    "device": str,
}
_KINDS = {str: "a text", int: "a whole number", dict: "an object", list: "a list"}
# Whether a record with such an answer may be a baseline; why not, otherwise.
_ANSWERS = {
    Answer.PASS: "",
    Answer.RECORDED: "",
    Answer.FAIL: "its own gate failed",
    Answer.INCONCLUSIVE: "its own gate was inconclusive",
}


class Unusable(Exception):
    """There is no baseline, or it must not be compared with; the text says why.

    Args:
        text: for people.
        elsewhere: whether it is of another machine, and nothing else is in the way.
    """

    def __init__(self, text: str, *, elsewhere: bool = False) -> None:
        super().__init__(text)
        self.elsewhere = elsewhere


@dataclass(frozen=True)
class Record:
    """What the gate measured of one loader in one run.

    Attributes:
        loader: label of the case.
        environment: see `loaderproof.suite.environment.fingerprint`.
        work: what was delivered: data, samples, batches, batch_size, seed, device, and beside how
            many processes, which share memory and so take less of it each.
        answer: of that run's own gate.
        to_ceiling: by measure, one number a block; see `loaderproof.suite.gate.measures.levels`.
        source: where it was read, and how the machine there differs, for people.
    """

    loader: str
    environment: Fingerprint
    work: Mapping[str, str | int]
    answer: str
    to_ceiling: Mapping[str, Sequence[float]]
    source: str = field(default="", compare=False)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data for JSON, which `parse` takes back."""
        return {
            "format": FORMAT,
            "loader": self.loader,
            "environment": dict(self.environment),
            "work": dict(self.work),
            "answer": str(self.answer),
            "to_ceiling": {measure: list(numbers) for measure, numbers in self.to_ceiling.items()},
        }


def parse(data: object) -> Record:
    """Return a record from plain data.

    Raises:
        Unusable: it is none, or none that may be a baseline.
    """
    record = of_type(data, dict, "the record")
    made = record.get("format")
    if type(made) is not int or made != FORMAT:
        msg = f"made by format {reprlib.repr(made)}: this version reads {FORMAT}"
        raise Unusable(msg)
    for name, kind in _FIELDS.items():
        of_type(record.get(name), kind, f"its {name}")
    for name, kind in _WORK.items():
        of_type(record["work"].get(name), kind, f"its work's {name}")
    for name, value in [
        ("loader", record["loader"]),
        *record["environment"].items(),
        *record["work"].items(),
    ]:
        _check_plain(value, f"its {text(name, 'a name')}")
    refusal = _ANSWERS.get(record["answer"], "its own gate never came to an answer")
    if refusal:
        raise Unusable(refusal)
    _check_levels(record["to_ceiling"])
    return Record(**{name: record[name] for name in _FIELDS})


def of_type(value: object, kind: type, what: str) -> Any:
    """Return a value of JSON if it is of exactly this type; True is no number here.

    Raises:
        Unusable: it is missing, or of another type.
    """
    if type(value) is not kind:
        msg = f"{what} is {'missing' if value is None else 'not ' + _KINDS[kind]}"
        raise Unusable(msg)
    return value


def text(value: object, what: str) -> str:
    """Return a text that can be shown on terminals and on pages.

    Raises:
        Unusable: it is none.
    """
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not value.isprintable():
        msg = f"{what} is no text to show"
        raise Unusable(msg)
    return value


def _check_plain(value: object, what: str) -> None:
    if isinstance(value, str):
        text(value, what)
    else:
        _check_number(value, what)


def _check_number(value: object, what: str) -> None:
    try:
        finite = isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        finite = False
    if not finite or isinstance(value, bool):
        msg = f"{what} is no finite number"
        raise Unusable(msg)


def _check_levels(to_ceiling: dict[str, Any]) -> None:
    for measure, levels in to_ceiling.items():
        for level in of_type(levels, list, f"its {text(measure, 'the name of a measure')}"):
            _check_number(level, f"its {measure}")
    blocks = sorted({len(levels) for levels in to_ceiling.values()})
    if not blocks:
        msg = "it holds no measure"
        raise Unusable(msg)
    if len(blocks) > 1:
        msg = f"its measures are of unlike numbers of blocks: {', '.join(map(str, blocks))}"
        raise Unusable(msg)
    if blocks[0] < FEWEST:
        msg = f"it has {blocks[0]} blocks, and fewer than {FEWEST} decide nothing"
        raise Unusable(msg)
