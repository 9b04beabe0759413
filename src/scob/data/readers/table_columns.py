"""The columns of a table: which one names the image, which one the labels, and what separates labels in a cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scob.data.images import rows_word
from scob.data.readers.text_lists import unknown_class
from scob.errors import UserError, nearest
from scob.labels import ABSENT, PRESENT, UNKNOWN

STATES = {"1": PRESENT, "+1": PRESENT, "1.0": PRESENT, "present": PRESENT, "true": PRESENT}
STATES |= {"-1": ABSENT, "-1.0": ABSENT, "absent": ABSENT}
STATES |= {"0": UNKNOWN, "0.0": UNKNOWN, "unknown": UNKNOWN, "false": UNKNOWN}
IMAGE_NAMES = ("image", "filename", "file_name", "image_name", "path", "img_path", "image_path", "filepath", "file")
LABEL_NAMES = ("label", "labels", "tags", "class", "classes", "tag", "category", "categories")
SEVERAL = ("labels", "tags", "classes", "categories")  # a column of such a name holds several labels in a cell
LONG = ("image", "label", "state", "split")
OURS = ("scores", "error", "confidence", "score", "estimate", "rank", "x0", "y0", "x1", "y1", "nearest")
SEPARATORS = {"|": "|", ";": ";", ",": ",", " ": "space"}
ONE_LABEL = "none"


@dataclass(frozen=True)
class Columns:
    """The columns of a table by their roles; those of the long form are renamed to `LONG`."""

    names: tuple[str, ...]  # '' for a column that is ignored
    image: str  # as the table calls it
    label: str  # as the table calls it; '' if there is one column per class
    ignored: tuple[str, ...]


@dataclass(frozen=True)
class Separator:
    """What separates labels in a cell ('' if a cell is one label), and how sure that is, in words."""

    mark: str
    remark: str = ""

    def split(self, cell: str) -> list[str]:
        """The labels of a cell, each once; in our own tables a ';' in a name is written '\\;'."""
        if not self.mark:
            return [cell] if cell else []
        parts = cell.replace("\\;", "\0").split(self.mark) if self.mark == ";" else cell.split(self.mark)
        names = (part.replace("\0", ";").strip() for part in parts)
        return list(dict.fromkeys(name for name in names if name))


def state_of(cell: str) -> int | None:
    """The state that a cell names, in any case; None if it names none."""
    return STATES.get(cell.strip().lower())


def find_columns(
    cells: Sequence[str], shown: str, fixed: tuple[str, ...] | None, only_states: Callable[[int], bool]
) -> Columns:
    """The roles of the columns; `only_states(i)`: whether column i has states and blanks only."""
    lower = [cell.lower() for cell in cells]
    image = next((name for name in IMAGE_NAMES if name in lower), None)
    if image is None:
        raise UserError(
            f"{shown}: no column is called 'image' (nor {', '.join(IMAGE_NAMES[1:6])}); the columns are "
            f"{', '.join(map(repr, cells))}"
        )
    label = next((n for n in LABEL_NAMES if n in lower and (n == "label" or not only_states(lower.index(n)))), None)
    names = [cell if cell.lower() not in ("state", "split") else cell.lower() for cell in cells]
    names[lower.index(image)] = "image"
    if label is not None:
        names[lower.index(label)] = "label"
    names = [name.lower() if name.lower() in LONG else name for name in names]
    if "" in names:
        raise UserError(f"{shown}: column {names.index('') + 1} has no name")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{shown}: two columns are called {name!r}")
    ignored: list[str] = []
    if label is not None:
        for number, name in enumerate(names):
            if name in LONG:
                continue
            ours = name.lower() in OURS or name.startswith("score:")
            if not ours and (nearest(name, LONG) or only_states(number)):
                raise UserError(
                    f"{shown}: unknown column {name!r}; the columns may be {', '.join(LONG)}.{nearest(name, LONG)}"
                )
            names[number] = "error" if name.lower() == "error" else ""
            ignored += [] if ours else [name]
    else:
        for name in names:
            if fixed is not None and name not in (*fixed, "image", "split"):
                raise unknown_class(f"{shown}, in its header", name, fixed)
        if set(names) <= {"image", "split", "state"}:
            raise UserError(f"{shown}: there is neither a 'label' column nor one column per class")
    return Columns(tuple(names), cells[lower.index(image)], "" if label is None else cells[lower.index(label)],
                   tuple(ignored))  # fmt: skip


def asked_separator(text: str) -> Separator | None:
    """The separator that the user names; None for 'auto'."""
    if text == "auto":
        return None
    if text in ("", ONE_LABEL):
        return Separator("")
    mark = {word: mark for mark, word in SEPARATORS.items()}.get(text, text)
    if len(mark) != 1 or mark.isalnum():
        raise UserError(f"--separator {text!r} must be one sign such as | ; , or 'space', or 'none': a cell is a label")
    return Separator(mark)


def find_separator(cells: Sequence[str], column: str, one_per_row: bool) -> Separator:
    """What separates labels, from all cells of the column.

    `|` and `;` always do, and a comma in a column called labels or tags. A space, or a comma elsewhere, does if most of
    the words around it also occur in other cells, in other company: 'haze primary', 'primary water'. 'traffic light'
    is one label. Where a table has several rows per image, each has one label (`one_per_row`).
    """
    if one_per_row:
        return Separator("")
    values = {cell for cell in cells if cell}
    for mark, word in SEPARATORS.items():
        joined = [cell for cell in values if mark in cell.strip(mark)]
        if not joined:
            continue
        shown = min(joined, key=lambda cell: (len(cell), cell))
        if mark in "|;" or (mark == "," and column.lower() in SEVERAL) or _recombine(values, mark, column):
            return Separator(mark, f"several labels in a cell, separated by {_named(word)}, as in {shown!r}")
        return Separator("", f"a cell is one label, as in {shown!r}; if it is several, add --separator {word!r}")
    return Separator("")


def _named(word: str) -> str:
    """A separator in a sentence: a space, or the sign in quotes."""
    return "a space" if word == "space" else repr(word)


def _recombine(values: set[str], mark: str, column: str) -> bool:
    """Whether the words of joined cells also occur in other cells: half of them, or all if the column has one label."""
    company: dict[str, int] = {}
    joined: set[str] = set()
    for cell in values:
        words = {word.strip() for word in cell.split(mark)} - {""}
        for word in words:
            company[word] = company.get(word, 0) + 1
        joined |= words if len(words) > 1 else set()
    again = sum(company[word] > 1 for word in joined)
    return again >= len(joined) / 2 if column.lower() in SEVERAL else again > 0.8 * len(joined)


def described(columns: Columns, separator: Separator) -> str:
    """The form of a table in words."""
    form = f"labels in the column {columns.label!r}" if columns.label else "one column per class (0 means unknown)"
    parts = [f"images in the column {columns.image!r}", form]
    parts += [separator.remark] if separator.remark else []
    parts += [f"ignoring the columns {rows_word(columns.ignored, 4)}"] if columns.ignored else []
    return ", ".join(parts)
