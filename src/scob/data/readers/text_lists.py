"""Text files with one entry per line: image lists, class lists."""

from collections.abc import Iterator
from pathlib import Path

from scob.data.split import ReadOptions
from scob.errors import UserError, nearest


def read_text(path: Path, exact: bool = False) -> str:
    """A UTF-8 text, with or without a byte-order mark.

    `exact`: for file names, which may hold any bytes. Line endings stay, and bytes that are not UTF-8 are kept as
    `os.fsdecode` would.
    """
    try:
        with path.open(
            encoding="utf-8-sig", errors="surrogateescape" if exact else "strict", newline="" if exact else None
        ) as file:
            return file.read()
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError:  # the name comes from another file, and contains a NUL or a lone surrogate
        raise UserError(f"{str(path)!r} cannot be the name of a file") from None


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, stripped, each with its number."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def class_list(folder: Path, options: ReadOptions) -> tuple[str, ...] | None:
    """The classes that the user fixed, by option or in a `classes.txt` beside the data; None if neither is given."""
    if options.classes is not None:
        return options.classes
    path = folder / "classes.txt"
    if not path.is_file():
        return None
    names: dict[str, int] = {}
    for number, name in read_lines(path):
        if name in names:
            raise UserError(f"{path} line {number}: the class {name!r} is already on line {names[name]}")
        names[name] = number
    if not names:
        raise UserError(f"{path} is empty; list one class per line, or remove the file")
    return tuple(names)


def unknown_class(where: str, label: str, classes: tuple[str, ...]) -> UserError:
    """The error for a label that is not in the class list."""
    hint = nearest(label, classes)
    return UserError(f"{where}: the label {label!r} is not in the list of {len(classes)} classes.{hint}")
