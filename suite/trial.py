"""One request of a search with all that is done with its loader, as words of a command line."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from loaderproof.loaders.contract import Request
from loaderproof.suite.observation import Scenario

SHAPES = GREY, SQUARE = "9x14x1", "8x8x3"


class NotATrial(ValueError):
    """Words that say nothing that can be tried."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is asked of a loader, and what is done with it.

    Attributes:
        samples: in the source, which is a probe.
        batch_size, shuffle, seed, drop_last, world_size: as in a request; every rank is tried.
        workers: as in a request; None for those of the case.
        epochs: passes over one loader.
        break_after: batches after which the first of several epochs is left, to see the following ones; 0 for
            never.
        resume_after: batches of the last epoch after which a state goes to a fresh loader; 0 for never.
        shape: height, width and channels of the images, one of SHAPES.
    """

    samples: int
    batch_size: int
    shuffle: bool = False
    drop_last: bool = False
    seed: int = 0
    workers: int | None = None
    world_size: int = 1
    epochs: int = 1
    break_after: int = 0
    resume_after: int = 0
    shape: str = GREY

    def __str__(self) -> str:
        """Name what has to be asked, and whatever else is unusual."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        return " ".join(f"{name}={value}" for name, (value, usual) in values.items() if value != usual)

    @property
    def whole(self) -> bool:
        """Whether every sample is asked for, of one rank."""
        return self.world_size == 1 and not self.drop_last

    def scenarios(self, usual: Request) -> list[Scenario]:
        """Return what each rank is asked.

        Args:
            usual: holds workers and options.
        """
        request = replace(
            usual,
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            drop_last=self.drop_last,
            seed=self.seed,
            num_workers=usual.num_workers if self.workers is None else self.workers,
            world_size=self.world_size,
        )
        data = f"probe:{self.samples}:{self.shape}"
        return [Scenario(data, replace(request, rank=rank), self.epochs) for rank in range(self.world_size)]


_LEAST = {"seed": 0, "workers": 0, "break_after": 0, "resume_after": 0}
_WORDS = {"True": True, "False": False}


def parse(text: str) -> Trial:
    """Return the trial that some words such as `samples=3 batch_size=2 shuffle=True` ask for.

    Raises:
        NotATrial: a word is unknown or makes no sense, or one is missing.
    """
    known = {one.name: str(one.type) for one in fields(Trial)}
    found: dict[str, Any] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in known:
            msg = f"there is no {name!r}; there is {', '.join(known)}"
            raise NotATrial(msg)
        found[name] = _value(name, value, known[name])
    missing = {"samples", "batch_size"} - set(found)
    if missing:
        msg = f"{' and '.join(sorted(missing))} must be given, as in 'samples=3 batch_size=2'"
        raise NotATrial(msg)
    return Trial(**found)


def _value(name: str, text: str, kind: str) -> Any:
    if kind == "bool":
        if text not in _WORDS:
            msg = f"{name} is {text!r}; give True or False"
            raise NotATrial(msg)
        return _WORDS[text]
    if kind == "str":
        if text not in SHAPES:
            msg = f"{name} is {text!r}; give {' or '.join(SHAPES)}"
            raise NotATrial(msg)
        return text
    least = _LEAST.get(name, 1)
    if not text.isdecimal() or int(text) < least:
        msg = f"{name} is {text!r}; give a whole number of at least {least}"
        raise NotATrial(msg)
    return int(text)
