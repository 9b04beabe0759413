"""The backbones that have a name: two inside the package, and those that other packages offer.

`drawings` is for the demo and the tests, `photographs` for everything else.
"""

from pathlib import Path

from scob.errors import UserError
from scob.plugins import check_names, load_plugin, plugins

DRAWINGS, PHOTOGRAPHS = "drawings", "photographs"
EMBEDDED = (DRAWINGS, PHOTOGRAPHS)


def backbone_path(name: str) -> Path:
    """The folder of a backbone that has a name, or the path that a name would be; a hub name is a path to nothing."""
    if name in EMBEDDED:
        return Path(__file__).parent / name
    return _offered_folder(name) if name in plugins("backbones") else Path(name).expanduser()


def _offered_folder(name: str) -> Path:
    """The folder of a backbone of another package: its entry point is a function that returns it."""
    check_names("backbones", EMBEDDED)
    offered = load_plugin(plugins("backbones")[name])
    folder = offered() if callable(offered) else None
    if not isinstance(folder, str | Path) or not Path(folder).is_dir():
        raise UserError(f"the entry point {name!r} under scob.backbones must be a function that returns a folder")
    return Path(folder)
