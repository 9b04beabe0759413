"""The one exception a person is meant to read: what was wrong, where, and what to do about it."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend. The CLI prints its message as one sentence and exits with code 2."""


def nearest(key: str, among: Iterable[str]) -> str:
    """' Did you mean ...?', or nothing where no name is near."""
    names = list(among)
    tails = {name.rpartition(".")[2]: name for name in names}
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    if not close:
        close = [tails[t] for t in difflib.get_close_matches(key.rpartition(".")[2], list(tails), n=1, cutoff=0.75)]
    return f" Did you mean {close[0]!r}?" if close else ""
