"""Scob: learn to name everything in an image from one label per image.

The public interface is the names below, a function for each verb of the command line (but `reproduce`, whose name is a
package's: scob.reproduce.registry); each is loaded when first used, so `import scob` is quick.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Config": "scob.config",
    "load_config": "scob.config",
    "Labels": "scob.labels",
    "UserError": "scob.errors",
    "open_split": "scob.data.readers",
    "demo": "scob.studies.demo",
    "describe": "scob.data.describe",
    "check": "scob.data.describe",
    "download": "scob.data.download",
    "prepare": "scob.training.prepare",
    "continuing": "scob.training.continuation",
    "train": "scob.training.train",
    "evaluate": "scob.inference.evaluate",
    "compare": "scob.studies.compare",
    "Scob": "scob.inference.model",
    "predict": "scob.inference.predict",
    "explain": "scob.inference.explain",
    "thresholds": "scob.inference.thresholds",
    "recover": "scob.recovery.suggest",
    "serve": "scob.recovery.web.server",
    "import_reviewed": "scob.recovery.reviewed",
    "export": "scob.inference.onnx.export",
}

__all__ = [
    "Config",
    "Labels",
    "Scob",
    "UserError",
    "__version__",
    "check",
    "compare",
    "continuing",
    "demo",
    "describe",
    "download",
    "evaluate",
    "explain",
    "export",
    "import_reviewed",
    "load_config",
    "open_split",
    "predict",
    "prepare",
    "recover",
    "serve",
    "thresholds",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'scob' has no attribute {name!r}")


class _Package(ModuleType):
    """Keeps `scob.recover` the function: importing the module of that name would put the module in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
