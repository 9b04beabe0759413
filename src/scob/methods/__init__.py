"""Finds methods by name. A method is one file, here or in a folder of your own, with one subclass of `Method`.

Other packages offer theirs through entry points (`scob.plugins`).
"""

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
from scob.config.values import section_before
from scob.errors import UserError, nearest
from scob.plugins import check_names, load_plugin, plugins

__all__ = [
    "Batch",
    "LossMethod",
    "Method",
    "Optimiser",
    "Problem",
    "class_for",
    "comparable",
    "find",
    "names",
    "register",
    "register_folder",
    "section_names",
    "settings_of",
    "written_out",
]

_registered: dict[str, type[Method]] = {}


def register(method: type[Method]) -> type[Method]:
    """Register a method under its name; two different methods of one name are an error."""
    first = _registered.setdefault(method.name, method)
    if first is not method and first.__qualname__ != method.__qualname__:
        raise UserError(
            f"two methods are named {method.name!r}, in {first.__module__} and in {method.__module__}: rename one"
        )
    return method


def _register_classes_in(module: Any) -> None:
    """Register every method that the module itself defines and names."""
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if issubclass(cls, Method) and cls.__module__ == module.__name__ and "name" in cls.__dict__:
            register(cls)


def _register_built_in() -> None:
    """Register the methods of this package, and Scob, once."""
    if "scob" in _registered:
        return
    for info in pkgutil.iter_modules(__path__):
        _register_classes_in(importlib.import_module(f"{__name__}.{info.name}"))
    _register_classes_in(importlib.import_module("scob.algorithm.bootstrap"))
    check_names("methods", _registered)


def register_folder(folder: Path) -> None:
    """Register the methods in every `*.py` file of a folder of your own."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to load methods from")
    for file in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"scob_methods_{file.stem}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        _register_classes_in(module)


def names() -> list[str]:
    """The names of all methods."""
    _register_built_in()
    return sorted({*_registered, *plugins("methods")})


def comparable() -> list[str]:
    """The methods that tables compare unless others are named: no oracle, and none that needs a prior file."""
    return [name for name in names() if find(name).labels != "oracle" and not find(name).needs_prior]


def section_names() -> list[str]:
    """The methods whose settings are an optional section. (Scob's section is always there.)"""
    return [name for name in names() if name != "scob"]


def find(name: str) -> type[Method]:
    """The method of that name."""
    _register_built_in()
    if name not in _registered and name in plugins("methods"):
        _register_plugin(name)
    if name not in _registered:
        raise UserError(f"there is no method {name!r}.{nearest(name, names())} Known: {', '.join(names())}")
    return _registered[name]


def _register_plugin(name: str) -> None:
    """Register a method of another package."""
    offered = load_plugin(plugins("methods")[name])
    if not (inspect.isclass(offered) and issubclass(offered, Method) and getattr(offered, "name", None) == name):
        raise UserError(
            f"the entry point {name!r} under scob.methods must be a subclass of Method whose name is {name!r}"
        )
    register(offered)


def class_for(config: Config) -> type[Method]:
    """The class that trains a configuration; contrast between whole images (Tab. 4) has a class of its own."""
    from scob.methods.image_contrast import KINDS, ImageLevelContrast

    return ImageLevelContrast if config.method == "scob" and config.scob.contrast in KINDS else find(config.method)


def settings_of(config: Config, name: str) -> Section:
    """A method's own settings, validated: the section of the configuration that has its name."""
    method = find(name)
    if name == "scob":
        return config.scob
    try:
        return method.Settings.model_validate(config.method_section(name))
    except ValidationError as error:
        keys = [f"{name}.{key}" for key in method.Settings.model_fields]
        raise UserError(explain(error, name, keys)) from None


def written_out(config: Config, stored: bool = False) -> Config:
    """The configuration with all settings of its method: their defaults may change, and a run keeps what it began with.

    Settings that a `stored` run lacks came later, and have the value that says how things were before. A stored run's
    method need not be known here, or loadable: its settings are left as they are.
    """
    if config.method == "scob":
        return config
    try:
        section = find(config.method).Settings
    except UserError:
        if stored:
            return config
        raise
    own = section.model_construct().model_dump(mode="json") | (section_before(section) if stored else {})
    return config.model_copy(update={config.method: own | config.method_section(config.method)}) if own else config
