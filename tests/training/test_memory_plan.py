"""Where features and images go, by what is free: over many sizes, never more than there is."""

from itertools import product

import pytest
import torch

from scob.config import Config
from scob.training.memory_plan import (
    DEVICE_SHARE,
    HOST_SHARE,
    FreeMemory,
    MemoryPlan,
    Needs,
    feature_bytes,
    free_memory,
    gigabytes,
    plan_memory,
    step_bytes,
    step_down,
    worth_caching,
)

GB = 10**9
SIZES = (0, 1, 2, 5, 10, 24, 50, 200)
CASES = list(product(SIZES, SIZES, (1, 4), (None, 2, 8, 30, 140), (0, 4, 100), (False, True)))


@pytest.mark.parametrize("asked", ["auto", "device", "host", "none", "disk"])
def test_what_is_planned_fits(asked: str) -> None:
    for features, images, step, device, host, captured in CASES:
        needs = Needs(features * GB, images * GB, step * GB)
        free = FreeMemory(None if device is None else device * GB, host * GB)
        plan = plan_memory(needs, free, asked, captured)
        taken = needs.step + (needs.features if plan.features == "device" else 0)
        taken += needs.images if plan.resident else 0
        if plan.features == "device" or plan.resident:
            assert free.device is not None and taken <= DEVICE_SHARE * free.device
        if plan.features == "host":
            assert needs.features <= HOST_SHARE * free.host
        if asked in ("none", "disk"):
            assert plan.features == asked


def test_nothing_is_left_out_that_would_fit() -> None:
    for features, images, step, device, host, captured in CASES:
        needs = Needs(features * GB, images * GB, step * GB)
        free = FreeMemory(None if device is None else device * GB, host * GB)
        plan = plan_memory(needs, free, "auto", captured)
        room = 0.0 if free.device is None else DEVICE_SHARE * free.device - needs.step
        if free.device is not None and needs.features + needs.images <= room:
            assert plan == MemoryPlan("device", True)
        elif plan.features == "none" and needs.features <= HOST_SHARE * free.host:
            assert captured and plan.resident  # the graph is worth more than features on the host


def test_more_room_never_means_less() -> None:
    order = ("none", "host", "device")
    for features, images, step, device, host, _ in CASES:
        needs = Needs(features * GB, images * GB, step * GB)
        small = plan_memory(needs, FreeMemory(None if device is None else device * GB, host * GB))
        large = plan_memory(needs, FreeMemory(None if device is None else 2 * device * GB, 2 * host * GB))
        assert order.index(large.features) >= order.index(small.features)


@pytest.mark.parametrize(
    ("asked", "device", "host", "expected"),
    [("device", 8, 100, "host"), ("device", 8, 1, "none"), ("host", 100, 1, "device"), ("host", 100, 100, "host")],
)
def test_a_resumed_run_keeps_its_features_cached_where_it_can(
    asked: str, device: int, host: int, expected: str
) -> None:
    needs = Needs(20 * GB, 60 * GB, GB)
    assert plan_memory(needs, FreeMemory(device * GB, host * GB), asked, captured=True).features == expected


def test_steps_down_end_with_none() -> None:
    assert [step_down(place) for place in ("device", "host", "none", "disk")] == ["host", "none", "none", "none"]


def test_sizes_of_a_resnet_at_448() -> None:
    """VOC 2007 with its test images: 48 GB in half precision, as on an H200."""
    channels, grids = (1024, 2048), ((28, 28), (14, 14))
    assert feature_bytes(channels, grids, 1, "bf16") == 2 * 2 * (1024 * 784 + 2048 * 196)
    assert gigabytes(feature_bytes(channels, grids, 5011 + 4952, "bf16")) == "48.0 GB"
    config = Config()
    small, large = (
        step_bytes(config.model_copy(update={"train": config.train.model_copy(update={"batch": b})}), channels, grids)
        for b in (8, 64)
    )
    assert 2 * GB < small < large < 60 * GB


def test_short_runs_and_trained_backbones_are_not_cached() -> None:
    config = Config()
    assert worth_caching(config, frozen=True) and not worth_caching(config, frozen=False)
    short = config.model_copy(update={"train": config.train.model_copy(update={"epochs": 2})})
    assert not worth_caching(short, frozen=True)


def test_the_free_memory_of_this_machine() -> None:
    free = free_memory(torch.device("cpu"))
    assert free.device is None and free.host > 1 << 20
    assert free_memory(torch.device("cpu"), 4).host < free.host / 2
    assert (gigabytes(2_500_000), gigabytes(60_000_000)) == ("2 MB", "0.1 GB")
