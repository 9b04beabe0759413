"""What the settings say about themselves: the values of a preset, of the time before a setting, and the keys."""

from collections.abc import Iterator
from typing import Any, cast

from scob.config.sections import RELEASED_K, SECTIONS
from scob.config.setting import Section


def _extras() -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """(section, key, default, what `setting` stored with it) of every setting."""
    for name, section in SECTIONS.items():
        for key, field in section.model_fields.items():
            yield name, key, field.default, cast(dict[str, Any], field.json_schema_extra)


def preset_values(preset: object, data_format: object = "auto") -> dict[str, dict[str, Any]]:
    """Every value that a preset gives, whatever the default is; {} for the default preset or an unknown one."""
    if preset not in ("paper", "released"):
        return {}
    values: dict[str, dict[str, Any]] = {}
    for name, key, _, extra in _extras():
        if extra[preset] is not None and key != "backbone":
            values.setdefault(name, {})[key] = extra[preset]
    if preset == "released" and isinstance(data_format, str) and data_format in RELEASED_K:
        values["labels"]["k"] = RELEASED_K[data_format]
    return values


def changed_values(preset: str) -> dict[str, dict[str, Any]]:
    """What a preset changes: its values that differ from the defaults."""
    values: dict[str, dict[str, Any]] = {}
    for name, given in preset_values(preset).items():
        for key, value in given.items():
            if value != SECTIONS[name].model_fields[key].default:
                values.setdefault(name, {})[key] = value
    return values


def section_before(section: type[Section]) -> dict[str, Any]:
    """What settings of a section that came later are in a stored run that lacks them, where that is not the default."""
    extras = {key: cast(dict[str, Any], field.json_schema_extra or {}) for key, field in section.model_fields.items()}
    return {key: extra["before"] for key, extra in extras.items() if "before" in extra}


def values_before() -> dict[str, dict[str, Any]]:
    """`section_before` of every section that has such settings."""
    values = {name: section_before(section) for name, section in SECTIONS.items()}
    return {name: before for name, before in values.items() if before}


def result_neutral_keys() -> frozenset[str]:
    """Every `section.key` that is marked with `changes_result=False`."""
    return frozenset(f"{name}.{key}" for name, key, _, extra in _extras() if not extra["changes_result"])


def known_keys() -> list[str]:
    """Every `section.key` there is, after the two top-level keys."""
    return ["preset", "method"] + [f"{name}.{key}" for name, key, _, _ in _extras()]
