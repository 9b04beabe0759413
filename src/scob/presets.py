"""Settings files that come with Scob, by name: `demo` and one for each benchmark."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from scob.config import read_yaml
from scob.errors import UserError, nearest


def packaged_configs() -> dict[str, Path]:
    """The settings files there are, by name."""
    folder = Path(str(files("scob"))) / "configs"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def packaged_config(name: str) -> dict[str, Any]:
    """The settings of that name as a tree, to be laid under others with `scob.config.merge`."""
    known = packaged_configs()
    if name not in known:
        raise UserError(f"Scob brings no settings named {name!r}.{nearest(name, known)} There are: {', '.join(known)}")
    return read_yaml(known[name])
