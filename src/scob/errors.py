"""The exception that users see: what was wrong, where, and what to do about it."""

import difflib
import unicodedata
from collections.abc import Iterable

LONGEST, END = 1_000, 395  # characters of a message, and how many of them are its end if it is shortened


class UserError(Exception):
    """A problem the user can fix. The CLI prints its message as one sentence and exits with code 2.

    Messages quote what files contain, which has no limit: one that is too long is shortened.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


def shortened(message: str) -> str:
    """The message without its middle if it is too long: its start says where, its end what to do."""
    if len(message) <= LONGEST:
        return message
    gap = " ... "
    return message[: LONGEST - END - len(gap)] + gap + message[-END:]


def nearest(key: str, among: Iterable[str]) -> str:
    """' Did you mean ...?' with the most similar name, or '' if none is similar."""
    names = list(among)
    tails = {name.rpartition(".")[2]: name for name in names}
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    if not close:
        close = [tails[t] for t in difflib.get_close_matches(key.rpartition(".")[2], list(tails), n=1, cutoff=0.75)]
    return f" Did you mean {close[0]!r}?" if close else ""


def printable(text: str) -> str:
    """The text with control characters (ESC and others that a terminal obeys) written out, as in \\x1b.

    Line breaks and tabs stay.
    """
    return "".join(
        sign if unicodedata.category(sign) != "Cc" or sign in "\n\t" else f"\\x{ord(sign):02x}" for sign in text
    )


def first_line(error: Exception) -> str:
    """The first line of another library's message, or the exception's name if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
