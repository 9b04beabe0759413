"""What settings say about themselves: the time before one existed. Presets and keys: test_sections.py."""

import yaml

from scob.config import SECTIONS, dump, load_config, resolve
from scob.config.values import values_before


def test_a_stored_run_that_lacks_a_setting_is_as_it_was_before_it() -> None:
    tree = yaml.safe_load(dump(load_config(None)))
    for section, values in values_before().items():
        for key in values:
            del tree[section][key]
    stored, new = resolve(tree, stored=True), resolve(tree)
    for section, values in values_before().items():
        for key, value in values.items():
            assert getattr(getattr(stored, section), key) == value
            assert getattr(getattr(new, section), key) == SECTIONS[section].model_fields[key].default != value


def test_what_has_changed_since_it_could_be_set() -> None:
    assert values_before() == {
        "data": {"separator": "none"},
        "scob": {"cam_dropout": True},
        "train": {"compile": False, "feature_cache": "none"},
    }


def test_a_stored_value_is_kept() -> None:
    assert not resolve({"scob": {"cam_dropout": False}}, stored=True).scob.cam_dropout
