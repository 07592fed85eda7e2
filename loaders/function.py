"""A plain function as an adapter: `(source, request) -> loader`, or `(request) -> loader` over its own data.

    def make(source, request):
        samples = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
        return DataLoader(samples, batch_size=request.batch_size, shuffle=request.shuffle)

What such a function promises is found by trying it: it is opened once on a tiny probe (or on the
first batches of its own data), and what it reads from the request it promises to heed. A function that
says more, or less, of itself declares it with `adapter`, and is not tried.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from loaderproof.loaders.contract import (
    Adapter,
    Description,
    Loader,
    OnError,
    Promise,
    Request,
    Source,
    Uneven,
)
from loaderproof.loaders.sources.probe import probe

Opener = Callable[[Source, Request], Loader] | Callable[[Request], Loader]
AnyOpener = TypeVar("AnyOpener", bound=Callable[..., Any])

# A seed is worth nothing without a shuffle, and global generators are a function's own business:
# a bare DataLoader draws from torch's, so private randomness is only ever declared.
PROMISED_BY_READING: dict[frozenset[str], frozenset[Promise]] = {
    frozenset({"shuffle"}): frozenset({Promise.SHUFFLE, Promise.RESHUFFLING, Promise.SOURCE_ORDER}),
    frozenset({"shuffle", "seed"}): frozenset({Promise.SEEDED_ORDER}),
    frozenset({"drop_last"}): frozenset({Promise.DROP_LAST}),
    frozenset({"num_workers"}): frozenset({Promise.WORKERS}),
    frozenset({"rank", "world_size"}): frozenset({Promise.SHARDING}),
    frozenset({"augment"}): frozenset({Promise.AUGMENTATION}),
}
STATE = ("state_dict", "load_state_dict")
TRIAL_SAMPLES = 5
TRIAL_REQUEST = Request(batch_size=2, shuffle=True)
TRIAL_BATCHES = 10  # more than the probe gives: a loader that never ends is not the trial's matter


class FunctionAdapter(Adapter):
    """An adapter around a function.

    Args:
        function: takes a source and a request, returns a loader.
        name: how it is called in tables, unless it declares a name; its own by default.
    """

    def __init__(self, function: Opener, name: str | None = None) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)

    @cached_property
    def untried(self) -> Description:
        """What the function declares, and whether it takes a source."""
        own = {"own_data": not takes_source_and_request(self.function)}
        return Description(**{"name": self.name, **own, **getattr(self.function, "declared", {})})

    @cached_property
    def description(self) -> Description:  # type: ignore[override]  # found when first asked for
        """What the function declares, and the promises that a trial finds if it declares none."""
        declared = getattr(self.function, "declared", {})
        if "promises" in declared:
            return self.untried
        trial = _Trial(self)
        found: dict[str, Any] = {"promises": trial.promises}
        if self.untried.own_data:
            found |= {"batch_size": trial.batch_size, "splits": trial.splits}
        told = replace(self.untried, **{name: found[name] for name in found.keys() - declared})
        if trial.error:
            return replace(told, summary=f"{told.summary} (its trial ended with {trial.error!r})")
        return told

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return what the function returns; it gets the source if it takes one."""
        function: Callable[..., Loader] = self.function
        return function(source, request) if takes_source_and_request(function) else function(request)


def adapter(
    *, promises: Iterable[Promise | str] | None = None, **description: Any
) -> Callable[[AnyOpener], AnyOpener]:
    """Declare what is known of a function; the function itself stays as it is.

    Args:
        promises: what it claims beyond what every loader owes, even if nothing; without this
            argument its promises are found by a trial.
        description: further fields of `Description`: name, summary, requires, extra, variants,
            deviations, image_dtype, label_dtype, tolerance, and so on.

    Raises:
        TypeError: there is no such field.
        ValueError: there is no such promise, or no such word for `uneven` or `on_error`.
    """
    if promises is not None:
        description["promises"] = frozenset(map(Promise, promises))
    words = {"uneven": Uneven, "on_error": OnError}
    description |= {name: kind(description[name]) for name, kind in words.items() if name in description}
    Description(**{"name": "", **description})  # an unknown field shall fail here, at its author's line

    def declare(function: AnyOpener) -> AnyOpener:
        function.declared = description  # type: ignore[attr-defined]  # functions take attributes
        return function

    return declare


def untried(adapter: Adapter) -> Description:
    """Return what an adapter says of itself, without the trial of a function that may crash or hang."""
    return adapter.untried if isinstance(adapter, FunctionAdapter) else adapter.description


def takes_source_and_request(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with two arguments."""
    return _takes(function, 2)


def takes_a_request(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with one argument, and does not call that a source."""
    return _takes(function, 1) and next(iter(inspect.signature(function).parameters)) != "source"


def _takes(function: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:
        return True  # some built-ins have no signature: calling will tell
    return True


class _Recording(Request):
    """A request that notes which of its fields are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            object.__getattribute__(self, "__dict__").setdefault("_read", set()).add(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        """Show the fields, which does not count as reading them."""
        return repr(Request(**{name: self.__dict__[name] for name in _FIELDS}))


_FIELDS = tuple(field.name for field in fields(Request))


class _Trial:
    """Open a loader on a tiny probe or its own data, go through its first batches, and see what it read.

    Attributes:
        promises: to heed what was read, and what the loader has.
        batch_size: of the first batch, if no size was read; else None.
        splits: `train` alone, if no split was read.
        error: what it ended with, or None.
    """

    def __init__(self, adapter: FunctionAdapter) -> None:
        request = _Recording(**{name: getattr(TRIAL_REQUEST, name) for name in _FIELDS})
        self.error: Exception | None = None
        self.promises: frozenset[Promise] = frozenset()
        self.batch_size: int | None = None
        try:
            self._use(adapter.open(probe(TRIAL_SAMPLES), Path(), request))
        except Exception as error:  # noqa: BLE001  # it will surface again in the tests, where it belongs
            self.error = error
        read = request.__dict__.get("_read", set())
        for names, promised in PROMISED_BY_READING.items():
            self.promises |= promised if names <= read else frozenset()
        if "batch_size" in read:
            self.batch_size = None
        self.splits = ("train", "test") if "split" in read else ("train",)

    def _use(self, loader: Any) -> None:
        if all(callable(getattr(loader, name, None)) for name in STATE):
            self.promises |= {Promise.RESUMING}
        with contextlib.suppress(TypeError, NotImplementedError):
            len(loader)  # that it may have none is what is asked
            self.promises |= {Promise.LENGTH}
        for number, batch in enumerate(islice(iter(loader), TRIAL_BATCHES)):
            if number == 0:
                with contextlib.suppress(Exception):  # what is no batch is the tests' matter
                    self.batch_size = len(batch[0])
        getattr(loader, "close", lambda: None)()
