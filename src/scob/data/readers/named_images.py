"""Find the images that rows name: at the very name, or else by the end of their path, below one folder."""

import os
from collections.abc import Mapping
from pathlib import Path

from scob.data.images import SUFFIXES, Root, image_names
from scob.errors import UserError


def ending_alike(name: str, paths: Mapping[str, str]) -> list[str]:
    """The keys of the paths that end as `name` does, with as many of its parts as any path has; [] if none does."""
    parts = name.split("/")
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    found = ([key for key, path in paths.items() if f"/{path}".endswith(f"/{tail}")] for tail in tails)
    return next((keys for keys in found if keys), [])


class NamedImages:
    """The images of a folder, by the names that tables give them.

    A name that is not a path of the folder may be the end of one ('a.jpg' for 'train/a.jpg'), may lack its suffix
    ('train_0'), or may begin elsewhere ('photos/a.jpg' for 'a.jpg'). It must fit one image only.
    """

    def __init__(self, folder: Path) -> None:
        self.root = Root(folder)
        self._by_name: dict[str, list[str]] | None = None

    def find(self, name: str, where: str) -> tuple[str, str]:
        """The image's path, and its name relative to the folder; `where` is the row that named it."""
        plain = os.path.normpath(name).replace(os.sep, "/")
        if Path(plain).is_absolute():
            plain = os.path.relpath(plain, os.path.abspath(self.root.folder)).replace(os.sep, "/")  # noqa: PTH100
        try:
            return self.root.inside(name, where), plain
        except UserError:
            found = None if plain.startswith("..") or "\0" in name or "://" in name else self._ending_in(plain, where)
            if found is None:
                raise
            return self.root.inside(found, where), found

    def _ending_in(self, name: str, where: str) -> str | None:
        if os.path.lexists(self.root.folder / name):
            return None
        known, parts = self._names(), name.split("/")
        suffixed = Path(name).suffix.lower() in SUFFIXES
        fitting = known.get(parts[-1] if suffixed else f"{parts[-1]}.", [])
        ends = ending_alike(name, {n: n if suffixed else str(Path(n).with_suffix("")) for n in fitting})
        if len(ends) > 1:
            raise UserError(f"{where}: {name!r} could be {ends[0]} or {ends[1]}; write the whole path")
        return ends[0] if ends else None

    def _names(self) -> dict[str, list[str]]:
        """Every image below the folder by its last name, and, with a dot at the end, by that without suffix."""
        if self._by_name is None:
            self._by_name = {}
            for name in image_names(self.root.folder):
                last = name.rpartition("/")[2]
                for key in (last, f"{Path(last).stem}."):
                    self._by_name.setdefault(key, []).append(name)
        return self._by_name
