"""All settings of a run: what they are (`sections`, `values`), and how they are read, checked, written (`reading`)."""

from scob.config.reading import (
    PACKAGED,
    dump,
    explain,
    is_packaged,
    load_config,
    merge,
    parse_overrides,
    parse_yaml,
    read_yaml,
    resolve,
    with_preset,
)
from scob.config.sections import (
    SECTIONS,
    Config,
    DataSettings,
    LabelSettings,
    ModelSettings,
    ScobSettings,
    TrainSettings,
)
from scob.config.setting import Section, setting
from scob.config.values import changed_values, known_keys, preset_values, result_neutral_keys

__all__ = [
    "PACKAGED",
    "SECTIONS",
    "Config",
    "DataSettings",
    "LabelSettings",
    "ModelSettings",
    "ScobSettings",
    "Section",
    "TrainSettings",
    "changed_values",
    "dump",
    "explain",
    "is_packaged",
    "known_keys",
    "load_config",
    "merge",
    "parse_overrides",
    "parse_yaml",
    "preset_values",
    "read_yaml",
    "resolve",
    "result_neutral_keys",
    "setting",
    "with_preset",
]
