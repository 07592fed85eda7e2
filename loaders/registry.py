"""From the name of a loader to its adapter."""

from __future__ import annotations

import importlib
import inspect
import re
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from loaderproof.loaders import _modules
from loaderproof.loaders.contract import Adapter, Description
from loaderproof.loaders.function import FunctionAdapter, takes_a_request, takes_source_and_request

GROUP = "loaderproof.loaders"

BUILTIN: dict[str, str] = {
    "torch_dataloader": "loaderproof.loaders.torch_dataloader:TorchDataLoader",
    "resident": "loaderproof.loaders.resident:Resident",
    "memmap": "loaderproof.loaders.memmap:Memmap",
    "tfds_numpy": "loaderproof.loaders.tfds_numpy:TfdsNumpy",
    "tfds_article": "loaderproof.loaders.tfds_article:TfdsArticle",
    "tf_slices": "loaderproof.loaders.tf_slices:TfSlices",
    "tfds_builder": "loaderproof.loaders.tfds_builder:TfdsBuilder",
}

THREE_LINES = """\
    def make(source, request):
        samples = [(torch.from_numpy(image).permute(2, 0, 1) / 255, label) for image, label in source]
        return DataLoader(samples, batch_size=request.batch_size, shuffle=request.shuffle)"""
OWN_DATA = """\
    def make(request):
        return DataLoader(my_dataset, batch_size=request.batch_size, shuffle=request.shuffle)"""
EITHER = f"{THREE_LINES}\nor, if it reads data of its own,\n{OWN_DATA}"


class LoaderError(Exception):
    """What was asked for is no loader, or cannot be used here."""


def names() -> list[str]:
    """Return the built-in loaders in their order, then those that installed packages offer."""
    return [*BUILTIN, *sorted(_offered().keys() - BUILTIN.keys())]


def load(spec: str) -> Adapter:
    """Return the adapter that a spec names.

    Args:
        spec: a name from `names()`, `module:attribute`, or `path/to/file.py:attribute`. The
            attribute is an `Adapter`, an instance of one, a function `(source, request)`, or a
            function `(request)` that reads data of its own.

    Raises:
        LoaderError: there is no such loader; the text says what there is. What a module raises
            while it is imported is not caught, so its author sees the traceback.
    """
    if spec in BUILTIN:
        place, _, attribute = BUILTIN[spec].partition(":")
        return _adapter(getattr(importlib.import_module(place), attribute), spec, spec)
    if spec in _offered():
        return _adapter(_offered()[spec].load(), spec, spec)
    place, attribute = _modules.parts(spec)
    module = _module(place, spec)
    if not attribute:
        msg = f"{spec!r} does not say which loader: write {place}:NAME. {_listed(module)}"
        raise LoaderError(msg)
    home = re.split(r"[./\\]", place.removesuffix(".py"))[-1]
    return _adapter(_attribute(module, attribute, spec), spec, f"{home}:{attribute}")


def missing(description: Description) -> list[str]:
    """Return the modules that an adapter needs and that cannot be found; imports none of them."""
    return [name for name in description.requires if _modules.find(name) is None]


def require(description: Description) -> None:
    """Refuse an adapter whose libraries are not installed.

    Raises:
        LoaderError: names the missing modules and the command that installs them.
    """
    gone = missing(description)
    if gone:
        wanted = f"'loaderproof[{description.extra}]'" if description.extra else " ".join(gone)
        msg = f"loader {description.name!r} needs {', '.join(gone)}: pip install {wanted}"
        raise LoaderError(msg)


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _module(place: str, spec: str) -> ModuleType:
    try:
        return _modules.load(place)
    except _modules.NoModuleError as error:
        msg = (
            f"loader {spec!r}: {error}"
            if str(error)
            else f"there is no loader {spec!r}{_modules.near(spec, names())}. Known: {', '.join(names())}."
            " For another write module:attribute or path/to/file.py:attribute"
        )
        raise LoaderError(msg) from None


def _attribute(module: ModuleType, attribute: str, spec: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        near = _modules.near_in(module, attribute)
        msg = f"loader {spec!r}: no {attribute!r} in {module.__file__}{near}. {_listed(module)}"
        raise LoaderError(msg) from None


def _adapter(found: Any, spec: str, name: str) -> Adapter:
    if inspect.isclass(found) and issubclass(found, Adapter) and not inspect.isabstract(found):
        found = found()
    if callable(found) and not inspect.isclass(found) and not isinstance(found, Adapter):
        if not takes_source_and_request(found) and not takes_a_request(found):
            msg = f"loader {spec!r}: {_told(found)} must take (source, request), or (request) alone, as in\n{EITHER}"
            raise LoaderError(msg)
        found = FunctionAdapter(found, name)
    if not isinstance(found, Adapter):
        msg = (
            f"loader {spec!r} is {_told(found)}; a loader is a subclass of loaderproof.loaders.Adapter"
            f" that defines open, an instance of one, or a function such as\n{EITHER}"
        )
        raise LoaderError(msg)
    if not isinstance(found, FunctionAdapter) and not isinstance(
        getattr(found, "description", None), Description
    ):
        msg = f"loader {spec!r}: {_told(found)} needs a class attribute: description = Description(name=...)"
        raise LoaderError(msg)
    return found


def _told(found: Any) -> str:
    if inspect.isclass(found):
        left = sorted(getattr(found, "__abstractmethods__", ()))
        return f"the class {found.__name__}" + (f" without {', '.join(left)}" if left else "")
    if inspect.isroutine(found):
        return f"the function {found.__name__}{inspect.signature(found)}"
    shown = repr(found)
    return f"{type(found).__name__} {shown[:60]}{'...' if len(shown) > 60 else ''}"


def _listed(module: ModuleType) -> str:
    found = [name for name, value in vars(module).items() if name[0] != "_" and _is_loader(value, module)]
    if not found:
        return f"It holds no adapter and no function of (source, request); the shortest is\n{EITHER}"
    return f"Loaders in it: {', '.join(found)}"


def _is_loader(value: Any, module: ModuleType) -> bool:
    if isinstance(value, Adapter):
        return True
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if inspect.isclass(value):
        return issubclass(value, Adapter) and not inspect.isabstract(value)
    # A file holds many functions of one argument: only its name tells one that takes a request.
    return inspect.isfunction(value) and (
        takes_source_and_request(value) or list(inspect.signature(value).parameters) == ["request"]
    )
