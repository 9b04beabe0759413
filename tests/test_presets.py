"""The settings files that come with Scob."""

import pytest

from scob import methods
from scob.config import load_config, resolve
from scob.errors import UserError
from scob.presets import packaged_config, packaged_configs


def test_packaged_configs_resolve() -> None:
    assert "demo" in packaged_configs()
    for file in packaged_configs().values():
        load_config(file, (), methods.section_names())


def test_a_packaged_config_is_a_tree_by_name() -> None:
    tree = packaged_config("voc2007")
    assert resolve(tree).data.format == "voc"


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"'dmo'.*Did you mean 'demo'.*coco2014, cub, demo, voc2007, voc2012"):
        packaged_config("dmo")
