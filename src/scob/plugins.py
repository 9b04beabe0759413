"""Methods, readers and backbones of other packages, found through their entry points.

A package that is installed beside Scob offers them in its own pyproject.toml, under `scob.methods`, `scob.readers` and
`scob.backbones`. Nothing is imported before it is asked for by name.
"""

import functools
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from scob.errors import UserError, first_line


@functools.cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """What the installed packages offer under `scob.GROUP`, by name; two packages must not share a name."""
    offered: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"scob.{group}"):
        first = offered.setdefault(entry.name, entry)
        if first.value != entry.value:
            raise UserError(
                f"two packages offer {entry.name!r} under scob.{group}, {owner(first)} and {owner(entry)}: "
                "uninstall one"
            )
    return offered


def check_names(group: str, ours: Collection[str]) -> None:
    """Refuse a package that offers something under a name that Scob itself uses."""
    for name, entry in plugins(group).items():
        if name in ours:
            raise UserError(
                f"the package {owner(entry)} offers {name!r} under scob.{group}, but Scob has one of that name: "
                "rename it there, or uninstall the package"
            )


def load_plugin(entry: EntryPoint) -> Any:
    """What an entry point names: a module, a class or a function."""
    try:
        return entry.load()
    except Exception as error:  # the code of another package can fail in any way
        raise UserError(
            f"{entry.name!r} of the package {owner(entry)} cannot be loaded ({type(error).__name__}: "
            f"{first_line(error)}): install a version of it that fits this Scob, or uninstall it"
        ) from error


def owner(entry: EntryPoint) -> str:
    """The name of the package that an entry point comes from."""
    return entry.dist.name if entry.dist is not None else entry.value
