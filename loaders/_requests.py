"""What adapters read from a request: its sense, their own options, and how much it asks for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar, cast

from loaderproof.loaders.contract import Request, Uneven

LEAST = {"batch_size": 1, "num_workers": 0, "world_size": 1, "rank": 0}
Options = TypeVar("Options")


def options_of(kind: type[Options], request: Request) -> Options:
    """Return a request's options as the dataclass that an adapter keeps them in.

    Raises:
        ValueError: there is no such option, or no loader can do what the request asks for.
    """
    check(request)
    known = [field.name for field in fields(cast("Any", kind))]
    unknown = [name for name in request.options if name not in known]
    if unknown:
        msg = f"no option {', '.join(map(repr, unknown))} here; there is {', '.join(known) or 'none'}"
        raise ValueError(msg)
    return cast("Options", cast("Any", kind)(**request.options))


def check(request: Request) -> None:
    """Refuse a request that makes no sense for any loader.

    Raises:
        ValueError: says which number is too small or too large, and what it may be.
    """
    for name, least in LEAST.items():
        value = getattr(request, name)
        if value < least:
            msg = f"{name}={value!r} is too small: the least is {least}"
            raise ValueError(msg)
    if request.rank >= request.world_size:
        msg = (
            f"rank={request.rank!r} is too large for world_size={request.world_size!r}:"
            f" ranks are 0 to {request.world_size - 1}"
        )
        raise ValueError(msg)


def share(samples: int, request: Request, uneven: Uneven) -> int:
    """Return how many of so many samples are the rank's in an epoch."""
    full, rest = divmod(samples, request.world_size)
    more = {Uneven.EXACT: request.rank < rest, Uneven.PADDED: rest > 0, Uneven.DROPPED: False}
    return full + more[uneven]


def number_of_batches(samples: int, request: Request) -> int:
    """Return how many batches so many samples of one rank make."""
    full, rest = divmod(samples, request.batch_size)
    return full + (rest > 0 and not request.drop_last)
