"""Scob and its rivals. A method is one file, here or in a folder of your own, with one subclass of `Method`."""

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scob.algorithm.method import LossMethod, Method, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, explain
from scob.errors import UserError, nearest

__all__ = [
    "Batch",
    "LossMethod",
    "Method",
    "Optimiser",
    "Problem",
    "class_for",
    "find",
    "names",
    "register",
    "register_folder",
    "section_names",
    "settings_of",
]

_found: dict[str, type[Method]] = {}


def register(method: type[Method]) -> type[Method]:
    """Make a method known by its name; a second one of the same name is an error."""
    known = _found.setdefault(method.name, method)
    if known is not method and known.__qualname__ != method.__qualname__:
        raise UserError(f"two methods are named {method.name!r}: {known.__module__} and {method.__module__}")
    return method


def _collect(module: Any) -> None:
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if issubclass(cls, Method) and cls.__module__ == module.__name__ and "name" in cls.__dict__:
            register(cls)


def _load() -> None:
    if "scob" in _found:
        return
    for info in pkgutil.iter_modules(__path__):
        _collect(importlib.import_module(f"{__name__}.{info.name}"))
    _collect(importlib.import_module("scob.algorithm.bootstrap"))


def register_folder(folder: Path) -> None:
    """Find methods in a folder of your own: every `*.py` file in it."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to look for methods in")
    for file in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"scob_methods_{file.stem}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        _collect(module)


def names() -> list[str]:
    """The names of all methods."""
    _load()
    return sorted(_found)


def section_names() -> list[str]:
    """The methods whose settings are a section of their own; Scob's are always there."""
    return [name for name in names() if name != "scob"]


def find(name: str) -> type[Method]:
    """The method of that name."""
    _load()
    if name not in _found:
        raise UserError(f"there is no method {name!r}.{nearest(name, _found)} Known: {', '.join(names())}")
    return _found[name]


def class_for(config: Config) -> type[Method]:
    """The class that trains a configuration. Contrast of whole images (Tab. 4) has a class of its own."""
    from scob.methods.image_contrast import KINDS, ImageLevelContrast

    return ImageLevelContrast if config.method == "scob" and config.scob.contrast in KINDS else find(config.method)


def settings_of(config: Config, name: str) -> Section:
    """A method's own settings, checked: the section of its name in the configuration."""
    method = find(name)
    if name == "scob":
        return config.scob
    try:
        return method.Settings.model_validate(config.method_section(name))
    except ValidationError as error:
        keys = [f"{name}.{key}" for key in method.Settings.model_fields]
        raise UserError(explain(error, name, keys)) from None
