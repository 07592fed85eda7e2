"""From the name of a loader to its adapter."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import zlib
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from loaderproof.loaders.contract import Adapter, Description
from loaderproof.loaders.function import FunctionAdapter, takes_source_and_request

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


class LoaderError(Exception):
    """What was asked for is no loader, or cannot be used here."""


def names() -> list[str]:
    """Return the built-in loaders in their order, then those that installed packages offer."""
    return [*BUILTIN, *sorted(_offered().keys() - BUILTIN.keys())]


def load(spec: str) -> Adapter:
    """Return the adapter that a spec names.

    Args:
        spec: a name from `names()`, `module:attribute`, or `path/to/file.py:attribute`. The
            attribute is an `Adapter`, an instance of one, or a function `(source, request)`.

    Raises:
        LoaderError: there is no such loader; the text says what there is. What a module raises
            while it is imported is not caught, so its author sees the traceback.
    """
    if spec in BUILTIN:
        place, _, attribute = BUILTIN[spec].partition(":")
        return _adapter(getattr(importlib.import_module(place), attribute), spec, spec)
    if spec in _offered():
        return _adapter(_offered()[spec].load(), spec, spec)
    place, attribute = _parts(spec)
    module = _module(place, spec)
    if not attribute:
        msg = f"{spec!r} does not say which loader: write {place}:NAME. {_listed(module)}"
        raise LoaderError(msg)
    home = re.split(r"[./\\]", place.removesuffix(".py"))[-1]
    return _adapter(_attribute(module, attribute, spec), spec, f"{home}:{attribute}")


def missing(description: Description) -> list[str]:
    """Return the modules that an adapter needs and that cannot be found; imports none of them."""
    return [name for name in description.requires if _find(name) is None]


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


def _parts(spec: str) -> tuple[str, str]:
    """Split at the last colon, unless it is the one behind a drive letter."""
    place, colon, attribute = spec.rpartition(":")
    if colon and (attribute == "" or attribute.isidentifier()):
        return place, attribute
    return spec, ""


def _module(place: str, spec: str) -> ModuleType:
    if place.endswith(".py"):
        return _from_file(Path(place).expanduser().resolve(), spec)
    _importable(Path.cwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
    except (TypeError, ValueError):
        pass  # a relative or an empty name: no module can be called so
    msg = (
        f"there is no loader {spec!r}{_near(spec, names())}. Known: {', '.join(names())}."
        " For another write module:attribute or path/to/file.py:attribute"
    )
    raise LoaderError(msg)


def _from_file(path: Path, spec: str) -> ModuleType:
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")]
        msg = f"loader {spec!r}: there is no file {path}{_near(path.name, beside)}"
        raise LoaderError(msg)
    _importable(Path.cwd())
    _importable(path.parent)
    if _leads_to(path.stem, path):
        return importlib.import_module(path.stem)
    return _execute(path)


def _leads_to(name: str, path: Path) -> bool:
    """Tell whether an import statement finds this file; then a spawned process will find it too."""
    found = _find(name) if name.isidentifier() else None
    return bool(found and found.has_location and found.origin and path == Path(found.origin).resolve())


def _execute(path: Path) -> ModuleType:
    """Import a file under a name that nothing else has."""
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return sys.modules[name]
    loader = SourceFileLoader(name, str(path))
    found = ModuleSpec(name, loader, origin=str(path))
    found.has_location = True
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()


def _find(name: str) -> ModuleSpec | None:
    """Find a module without importing it."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _attribute(module: ModuleType, attribute: str, spec: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        near = _near(attribute, [name for name in vars(module) if not name.startswith("_")])
        msg = f"loader {spec!r}: no {attribute!r} in {module.__file__}{near}. {_listed(module)}"
        raise LoaderError(msg) from None


def _adapter(found: Any, spec: str, name: str) -> Adapter:
    if inspect.isclass(found) and issubclass(found, Adapter) and not inspect.isabstract(found):
        found = found()
    if callable(found) and not inspect.isclass(found) and not isinstance(found, Adapter):
        if not takes_source_and_request(found):
            msg = f"loader {spec!r}: {_told(found)} must take (source, request), as in\n{THREE_LINES}"
            raise LoaderError(msg)
        found = FunctionAdapter(found, name)
    if not isinstance(found, Adapter):
        msg = (
            f"loader {spec!r} is {_told(found)}; a loader is a subclass of loaderproof.loaders.Adapter"
            f" that defines open, an instance of one, or a function such as\n{THREE_LINES}"
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
        return f"It holds no adapter and no function of (source, request); the shortest is\n{THREE_LINES}"
    return f"Loaders in it: {', '.join(found)}"


def _is_loader(value: Any, module: ModuleType) -> bool:
    if isinstance(value, Adapter):
        return True
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if inspect.isclass(value):
        return issubclass(value, Adapter) and not inspect.isabstract(value)
    return inspect.isfunction(value) and takes_source_and_request(value)


def _near(wanted: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(wanted, list(known))
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
