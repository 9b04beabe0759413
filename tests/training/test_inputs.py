"""Backbone, images and cached features of a run."""

from typing import Any

import numpy as np
import torch

from scob.parallel import Processes
from scob.training.events import Calibrating, Working
from scob.training.inputs import open_inputs
from support.runs import same


def test_every_split_has_a_feed_and_cached_features_are_those_of_the_images(configure: Any, scenes_of: Any) -> None:
    config = configure("train.feature_cache=host", "train.holdout=0.25", "data.evaluate=val")
    data = scenes_of(config)
    inputs = open_inputs(config, data, Processes())
    assert inputs.feeds.keys() == {"train", "holdout", "evaluate"}
    assert [len(inputs.feeds[name]) for name in ("train", "holdout")] == [30, 10]
    assert inputs.grids == ((8, 8), (4, 4))
    source, rows = inputs.sources["holdout"], np.array([3, 0])
    flip = torch.tensor([True, False])
    cached = source.clean(torch.from_numpy(rows), None, flip)
    computed = source.of(source.views.weak(inputs.feeds["holdout"].fetch(rows), flip))[0]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(cached, computed, strict=True))
    inputs.close()


def test_batchnorm_is_calibrated_once_and_then_restored(configure: Any, scenes_of: Any) -> None:
    config = configure()
    data, events = scenes_of(config), []
    first = open_inputs(config, data, Processes(), listen=events.append)
    assert events == [Calibrating(40), *(Working("re-estimating BatchNorm", n, 40) for n in (0, 32, 40))]
    stored = {f"method.network.backbone.{name}": value for name, value in first.backbone.state_dict().items()}
    events.clear()
    again = open_inputs(config, data, Processes(), restored=stored, listen=events.append)
    plain = open_inputs(configure("model.calibrate_bn=false"), data, Processes())
    assert events == []
    assert same(dict(first.backbone.state_dict()), dict(again.backbone.state_dict()))
    assert not same(dict(first.backbone.state_dict()), dict(plain.backbone.state_dict()))
