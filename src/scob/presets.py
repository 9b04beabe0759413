"""The settings files that come with Scob: `demo` and one for each benchmark."""

from pathlib import Path
from typing import Any

from scob.config import PACKAGED, read_yaml
from scob.errors import UserError, nearest


def packaged_configs() -> dict[str, Path]:
    """Their paths by name."""
    return {file.stem: file for file in sorted(PACKAGED.glob("*.yaml"))}


def packaged_config(name: str) -> dict[str, Any]:
    """One of them as a tree of settings; `scob.config.merge` puts others on top of it."""
    known = packaged_configs()
    if name not in known:
        raise UserError(f"Scob has no settings named {name!r}.{nearest(name, known)} It has: {', '.join(known)}")
    return read_yaml(known[name])
