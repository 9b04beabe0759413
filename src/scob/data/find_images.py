"""Which image files a person means: files, folders, patterns, or a list on stdin. Nothing here imports torch."""

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
    """Image files in the order asked for, each once, and how many other files the folders held."""

    paths: tuple[str, ...]
    skipped: int = 0


def find_images(words: Iterable[str | Path], stdin: Iterable[str] = ()) -> FoundImages:
    """The files that `words` name; the word '-' stands for the lines of `stdin`.

    A folder gives the images below it. A file named outright is taken as it is: whether it is an image shows when
    it is decoded. Lines of a list need not exist, so that one lost file does not end a long run.
    """
    found: dict[str, None] = {}
    skipped = 0
    for word in map(str, words):
        if word == STDIN:
            lines = [line.rstrip("\r\n") for line in stdin]
            found.update(dict.fromkeys(line for line in lines if line.strip()))
        elif Path(word).is_dir():
            inside, others = images_below(Path(word))
            found.update(dict.fromkeys(inside))
            skipped += others
        elif Path(word).exists():
            found[word] = None
        else:
            matched = sorted(glob.glob(word, recursive=True)) if glob.has_magic(word) else []  # noqa: PTH207 (absolute patterns, too)
            if not matched:
                what = "no file matches" if glob.has_magic(word) else "there is no file or folder"
                raise UserError(f"{what} {word}")
            for path in matched:
                if Path(path).is_dir():
                    inside, others = images_below(Path(path), empty=True)
                    found.update(dict.fromkeys(inside))
                    skipped += others
                else:
                    found[path] = None
    if not found:
        raise UserError("there is no image to look at: the list is empty")
    return FoundImages(tuple(found), skipped)


def images_below(folder: Path, empty: bool = False) -> tuple[list[str], int]:
    """The images below a folder, sorted, and the number of files that are none; hidden files are not looked at."""

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
        beside = f" (it holds {others} files of other kinds)" if others else ""
        raise UserError(f"the folder {folder} holds no image{beside}")
    return sorted(images), others
