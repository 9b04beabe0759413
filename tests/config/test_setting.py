"""One setting and what it declares about itself."""

from typing import Any

import pytest
from pydantic import ValidationError

from scob.config.setting import Section, setting


class Small(Section):
    """A section of three settings."""

    plain: int = setting(3, "as in the paper", ge=1)
    own: float = setting(0.5, "ours", 0.1, released=0.2)
    newer: str = setting("auto", "was not there before", None, changes_result=False, before="none")


def declared(name: str) -> Any:
    return Small.model_fields[name].json_schema_extra


def test_the_paper_has_the_default_and_the_released_code_the_papers_value_unless_said() -> None:
    assert declared("plain") == {"paper": 3, "released": 3, "changes_result": True}
    assert (declared("own")["paper"], declared("own")["released"]) == (0.1, 0.2)


def test_a_newer_setting_says_how_things_were_before() -> None:
    assert declared("newer") == {"paper": None, "released": None, "changes_result": False, "before": "none"}


@pytest.mark.parametrize("given", [{"plain": 0}, {"unknown": 1}, {"own": float("nan")}])
def test_what_a_section_does_not_take_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Small(**given)
