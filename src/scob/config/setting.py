"""One setting: its default, its help, the values of the paper and of the authors' code, and what it may change."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_SAME = object()


def setting(
    default: Any,
    help: str,
    paper: Any = _SAME,
    changes_result: bool = True,
    released: Any = _SAME,
    before: Any = _SAME,
    **limits: Any,
) -> Any:
    """A field with its help text, the paper's value (`paper=None`: the paper does not give one) and the released one.

    Without `paper` it is the default, without `released` that of the paper.

    `before` is how things were before the setting existed, or before it got today's default: its value in a stored run
    that lacks it. `changes_result=False` marks a setting that changes where or how fast a run computes, or when it logs
    and saves, but not what it computes: a resumed run may change it, and two runs that differ only in it are the same.
    """
    paper_value = default if paper is _SAME else paper
    released_value = paper_value if released is _SAME else released
    extra = {"paper": paper_value, "released": released_value, "changes_result": changes_result}
    if before is not _SAME:
        extra["before"] = before
    return Field(default, description=help, json_schema_extra=extra, **limits)


class Section(BaseModel):
    """A group of settings. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False)
