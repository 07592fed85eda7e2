"""What is judged: the contract, the sources of truth, and one adapter for each library."""

from loaderproof.loaders.contract import (
    ALL_PROMISES,
    Adapter,
    Description,
    Deviation,
    Loader,
    OnError,
    Promise,
    Request,
    Source,
    Tunable,
    Uneven,
    Variant,
    promised,
)
from loaderproof.loaders.function import adapter

__all__ = [
    "ALL_PROMISES",
    "Adapter",
    "Description",
    "Deviation",
    "Loader",
    "OnError",
    "Promise",
    "Request",
    "Source",
    "Tunable",
    "Uneven",
    "Variant",
    "adapter",
    "promised",
]
