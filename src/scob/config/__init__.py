"""All settings of a run: what they are (`sections`), and how they are read, checked and written (`reading`)."""

from scob.config.reading import (
    dump,
    explain,
    load_config,
    merge,
    parse_overrides,
    read_yaml,
    resolve,
)
from scob.config.sections import (
    SECTIONS,
    Config,
    DataSettings,
    LabelSettings,
    ModelSettings,
    ScobSettings,
    Section,
    TrainSettings,
    known_keys,
    paper_values,
    result_neutral_keys,
    setting,
)

__all__ = [
    "SECTIONS",
    "Config",
    "DataSettings",
    "LabelSettings",
    "ModelSettings",
    "ScobSettings",
    "Section",
    "TrainSettings",
    "dump",
    "explain",
    "known_keys",
    "load_config",
    "merge",
    "paper_values",
    "parse_overrides",
    "read_yaml",
    "resolve",
    "result_neutral_keys",
    "setting",
]
