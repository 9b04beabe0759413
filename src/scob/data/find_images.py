"""Find the images that a user names: files, folders, patterns, or a list on stdin. Does not import torch."""

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scob.data.images import SUFFIXES
from scob.errors import UserError

STDIN = "-"


@dataclass(frozen=True)
class FoundImages:
    """Image files in the order they were named, each once, and how many other files were in the folders."""

    paths: tuple[str, ...]
    skipped: int = 0


def find_images(words: Iterable[str | Path], stdin: Iterable[str] = ()) -> FoundImages:
    """The files that `words` name; the word '-' means the lines of `stdin`.

    A folder gives the images below it. A single file is taken whatever its suffix: decoding shows whether it is an
    image. Files listed on stdin need not exist, so that one missing file does not stop a long run.
    """
    files: dict[str, None] = {}
    skipped = 0
    for word in map(str, words):
        if word == STDIN:
            lines = [line.rstrip("\r\n") for line in stdin]
            files.update(dict.fromkeys(line for line in lines if line.strip()))
        elif Path(word).is_dir():
            inside, others = images_below(Path(word))
            files.update(dict.fromkeys(inside))
            skipped += others
        elif Path(word).exists():
            files[word] = None
        else:
            matched = sorted(glob.glob(word, recursive=True)) if glob.has_magic(word) else []  # noqa: PTH207 (patterns may be absolute)
            if not matched:
                what = "no file matches" if glob.has_magic(word) else "there is no file or folder"
                raise UserError(f"{what} {word}")
            for path in matched:
                if Path(path).is_dir():
                    inside, others = images_below(Path(path), empty=True)
                    files.update(dict.fromkeys(inside))
                    skipped += others
                else:
                    files[path] = None
    if not files:
        raise UserError("no image was named: the list is empty")
    return FoundImages(tuple(files), skipped)


def images_below(folder: Path, empty: bool = False) -> tuple[list[str], int]:
    """The images below a folder, sorted, and how many other files there are; hidden files are ignored.

    A folder without images is an error, unless `empty` allows it.
    """

    def refuse(error: OSError) -> None:
        raise UserError(f"cannot read the folder {error.filename}: {error.strerror}") from error

    images: list[str] = []
    others = 0
    for path, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in SUFFIXES:
                images.append(os.path.join(path, name))  # noqa: PTH118 (an undecodable name must survive)
            else:
                others += 1
    if not images and not empty:
        note = f" ({others} files of other kinds)" if others else ""
        raise UserError(f"there are no images in the folder {folder}{note}")
    return sorted(images), others
