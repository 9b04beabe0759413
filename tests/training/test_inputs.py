"""Backbone, images and cached features of a run."""

from typing import Any

import numpy as np
import pytest
import torch

from scob.errors import UserError
from scob.model.row_tables import RowStorage
from scob.parallel import Processes
from scob.training import inputs as module
from scob.training.events import Calibrating, Note, Working
from scob.training.inputs import make_feed, open_inputs
from scob.training.memory_plan import MemoryPlan
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


def test_features_that_do_not_fit_after_all_take_steps_down(
    configure: Any, scenes_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of the second stage cannot be allocated, first in one place, then in both."""
    config, table = configure("train.feature_cache=auto"), RowStorage.table
    data, tried = scenes_of(config), []

    def short(storage: RowStorage, name: str, *args: Any) -> Any:
        tried.append((storage.kind, name))
        if name == "features1" and storage.kind in places:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return table(storage, name, *args)

    monkeypatch.setattr(RowStorage, "table", short)
    places: tuple[str, ...] = ("host",)
    opened = open_inputs(config, data, Processes())
    assert opened.features == "none" and opened.sources["train"].cache is None
    assert opened.reason.startswith("features are not cached (the cached features do not fit into memory")
    assert tried == [("host", "features0"), ("host", "features1")]
    with pytest.raises(UserError, match=r"do not fit into memory: train\.feature_cache=none or auto needs less"):
        open_inputs(configure("train.feature_cache=host"), data, Processes())


def test_from_the_device_to_the_host(configure: Any, scenes_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure("train.feature_cache=auto")
    data, cache_features = scenes_of(config), module.cache_features

    def short(source: Any, batches: Any, images: int, storage: RowStorage) -> Any:
        if storage.kind == "device":
            raise RuntimeError("CUDNN_STATUS_ALLOC_FAILED")
        return cache_features(source, batches, images, storage)

    monkeypatch.setattr(module, "cache_features", short)
    monkeypatch.setattr(module, "plan_inputs", lambda *_: (MemoryPlan("device", False), ""))
    opened = open_inputs(config, data, Processes())
    assert opened.features == "host" and opened.sources["train"].cache is not None
    assert opened.reason.startswith("features are cached in memory (")


def test_images_that_do_not_fit_are_sent_batch_by_batch(
    configure: Any, scenes_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, events = configure(), []

    def full(feed: Any, progress: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    device, train = torch.device("cpu"), scenes_of(config).train
    kept = make_feed(train, config, device, True)
    monkeypatch.setattr(module.Feed, "_keep", full)
    feed = make_feed(train, config, device, True, events.append)
    assert feed.resident is None and kept.resident is not None and len(events) == 1
    assert isinstance(events[0], Note) and "batch by batch" in events[0].message
    rows = np.array([3, 1])
    assert torch.equal(feed.fetch(rows), kept.fetch(rows))
