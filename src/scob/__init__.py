"""Scob: learn to name everything in an image from one label per image.

The public interface is the names below; each is loaded when first used, so `import scob` is quick.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Config": "scob.config",
    "load_config": "scob.config",
    "Labels": "scob.labels",
    "UserError": "scob.errors",
    "open_split": "scob.data.readers",
    "train": "scob.training",
}

__all__ = ["Config", "Labels", "UserError", "__version__", "load_config", "open_split", "train"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'scob' has no attribute {name!r}")
