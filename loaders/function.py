"""A plain function `(source, request) -> loader` as an adapter.

    def make(source, request):
        samples = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
        return DataLoader(samples, batch_size=request.batch_size, shuffle=request.shuffle)

What such a function promises is found by trying it: it is opened once on a tiny probe, and
what it reads from the request it promises to heed. A function that says more, or less, of itself
declares it with `adapter`, and is not tried.
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

from loaderproof.loaders.contract import Adapter, Description, Loader, Promise, Request, Source
from loaderproof.loaders.sources.probe import probe

Opener = Callable[[Source, Request], Loader]
AnyOpener = TypeVar("AnyOpener", bound=Callable[..., Any])

# A seed is worth nothing without a shuffle, and global generators are a function's own business:
# a bare DataLoader draws from torch's, so private randomness is only ever declared.
PROMISED_BY_READING: dict[frozenset[str], frozenset[Promise]] = {
    frozenset({"shuffle"}): frozenset({Promise.SHUFFLE, Promise.RESHUFFLING, Promise.SOURCE_ORDER}),
    frozenset({"shuffle", "seed"}): frozenset({Promise.SEEDED_ORDER}),
    frozenset({"drop_last"}): frozenset({Promise.DROP_LAST}),
    frozenset({"num_workers"}): frozenset({Promise.WORKERS}),
}
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
        """What the function declares."""
        return Description(**{"name": self.name, **getattr(self.function, "declared", {})})

    @cached_property
    def description(self) -> Description:  # type: ignore[override]  # found when first asked for
        """What the function declares, and the promises that a trial finds if it declares none."""
        if "promises" in getattr(self.function, "declared", {}):
            return self.untried
        promises, error = _try(self.function)
        found = replace(self.untried, promises=promises)
        return replace(found, summary=f"{found.summary} (its trial ended with {error!r})") if error else found

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return what the function returns."""
        return self.function(source, request)


def adapter(
    *, promises: Iterable[Promise | str] | None = None, **description: Any
) -> Callable[[AnyOpener], AnyOpener]:
    """Declare what is known of a function; the function itself stays as it is.

    Args:
        promises: what it claims beyond what every loader owes, even if nothing; without this
            argument its promises are found by a trial.
        description: further fields of `Description`: name, summary, requires, extra, variants,
            deviations, image_dtype, label_dtype, tolerance.

    Raises:
        TypeError: there is no such field.
        ValueError: there is no such promise.
    """
    if promises is not None:
        description["promises"] = frozenset(map(Promise, promises))
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
    try:
        inspect.signature(function).bind(None, None)
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


def _try(function: Opener) -> tuple[frozenset[Promise], Exception | None]:
    """Open a loader on a tiny probe, run through an epoch, and see what it read by then."""
    request = _Recording(**{name: getattr(TRIAL_REQUEST, name) for name in _FIELDS})
    promises: set[Promise] = set()
    raised = None
    try:
        loader = function(probe(TRIAL_SAMPLES), request)
        with contextlib.suppress(TypeError, NotImplementedError):
            len(loader)  # type: ignore[arg-type]  # that it may have none is what is asked
            promises.add(Promise.LENGTH)
        for _ in islice(iter(loader), TRIAL_BATCHES):
            pass
        getattr(loader, "close", lambda: None)()
    except Exception as error:  # noqa: BLE001  # it will surface again in the tests, where it belongs
        raised = error
    read = request.__dict__.get("_read", set())
    for names, promised in PROMISED_BY_READING.items():
        if names <= read:
            promises |= promised
    return frozenset(promises), raised
