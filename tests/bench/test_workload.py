"""What the benches run on."""

from pathlib import Path

import pytest
import torch

from scob.bench.workload import CLASSES, bench_config, random_data, random_resnet, replayed
from scob.model.load_backbone import load_backbone


def test_each_random_image_has_one_label() -> None:
    data = random_data(45, 16)
    assert data.train.labels.values.shape == (45, CLASSES)
    assert (data.train.labels.values.sum(axis=1) == 1).all()
    assert data.train.images.load(3, 16).shape == (16, 16, 3)


def test_benches_start_with_contrast_and_write_no_checkpoints() -> None:
    config = bench_config("some-backbone", 4, 64, compile=True)
    assert (config.scob.init_epochs, config.train.checkpoint_minutes) == (0, 0)
    assert (config.train.batch, config.data.size, config.train.compile) == (4, 64, True)


def test_on_a_cpu_a_call_is_not_replayed() -> None:
    def run() -> None:
        pass

    assert replayed(run, torch.device("cpu")) is run


@pytest.mark.slow
def test_the_random_resnet_is_a_backbone_folder(tmp_path: Path) -> None:
    assert load_backbone(random_resnet(tmp_path)).grids(64) == ((4, 4), (2, 2))
