"""Help pages as people read them."""

from collections.abc import Callable

import pytest

from scob.cli import VERBS


@pytest.mark.parametrize("words", [(), *((verb,) for verb in VERBS), ("data", "check")])
def test_no_flag_has_a_type(scob: Callable[..., tuple[int, str, str]], words: tuple[str, ...]) -> None:
    code, text, _ = scob(*words, "--help")
    assert code == 0 and "--help" in text
    assert "<bool>" not in text and "BOOLEAN" not in text and "…" not in text
