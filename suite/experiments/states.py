"""The states of loaders: taken, packed for the way to another loader, unpacked, emptied."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Mapping
from typing import Any

from loaderproof.suite.continuation import Cut, Packed, Saved


def taken(loader: Any, cut: Cut) -> Saved:
    """Return the state of a loader, or why it could not be taken."""
    try:
        return Saved(cut, pack(loader.state_dict()))
    except Exception as error:  # noqa: BLE001 - whatever it raises is a finding
        return Saved(cut, error=named(error))


def named(error: Exception) -> str:
    """Return the class and the text of an exception."""
    return f"{type(error).__qualname__}: {error}"


def pack(state: Any) -> Packed:
    """Return a state as JSON if it survives that, else as Python pickles it, if it can."""
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        text = json.dumps(state)
        if json.loads(text) == _as_lists(state):
            return Packed(json=text)
    return Packed(
        pickled=_pickled(state), strange=_strange(state) or "the state changes when it is read again"
    )


def unpack(packed: Packed) -> Any:
    """Return a state as another loader gets it."""
    if packed.json is not None:
        return json.loads(packed.json)
    return pickle.loads(packed.pickled or b"")  # noqa: S301 - the loader's own


def _pickled(state: Any) -> bytes | None:
    try:
        return pickle.dumps(state)
    except Exception:  # noqa: BLE001 - pickling runs the state's own code
        return None


def _as_lists(value: Any) -> Any:
    """Return plain data with lists for tuples, which is what JSON makes of them and no harm."""
    if isinstance(value, dict):
        return {key: _as_lists(one) for key, one in value.items()}
    return [_as_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def _strange(value: Any, path: str = "state") -> str | None:
    """Return the first that is not plain data."""
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            return f"{path} has the key {odd!r} of type {type(odd).__name__}"
        inner = ((f"{path}[{key!r}]", one) for key, one in value.items())
    elif isinstance(value, (list, tuple)):
        inner = ((f"{path}[{place}]", one) for place, one in enumerate(value))
    else:
        plain = value is None or (isinstance(value, (str, int, float)) and value == value)  # noqa: PLR0124 - NaN
        return (
            None
            if plain
            else f"{path} is {value!r:.60} of type {type(value).__module__}.{type(value).__name__}"
        )
    return next((found for where, one in inner if (found := _strange(one, where))), None)


def empty(state: Any) -> None:
    """Take everything out of a state, in place."""
    if isinstance(state, Mapping):
        for one in state.values():
            empty(one)
    elif isinstance(state, (list, tuple)):
        for one in state:
            empty(one)
    with contextlib.suppress(Exception):  # what cannot be changed needs no protection
        if hasattr(state, "clear"):
            state.clear()
        elif hasattr(state, "__setitem__"):
            state[...] = 0
