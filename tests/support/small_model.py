"""A small trained run on scenes and a folder of the same scenes as files, shared by the tests of the verbs."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import ResNetConfig
from transformers.models.resnet.modeling_resnet import ResNetBackbone

from scob.config import Config, resolve
from scob.data.readers import open_split
from scob.training.train import train


def small_backbone(folder: Path) -> Path:
    """A ResNet of 40 thousand random weights, saved as transformers saves one."""
    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], layer_type="basic",
                          out_features=["stage3", "stage4"])  # fmt: skip
    ResNetBackbone(config).save_pretrained(folder)
    return folder


def small_config(backbone: Path, source: str = "scenes:96x64", **sections: dict[str, object]) -> Config:
    tree: dict[str, dict[str, object]] = {
        "data": {"source": source, "size": 64, "workers": 0},
        "model": {"backbone": str(backbone), "width": 32, "heads": 2, "layers": 1, "feedforward": 32, "projection": 16},
        "train": {"epochs": 2, "batch": 16, "device": "cpu", "holdout": 0.2, "lr_smt": 1e-3, "log_every": 2},
    }
    for name, section in sections.items():
        tree[name] = {**tree.get(name, {}), **section}
    return resolve(tree)


def write_scenes(folder: Path, count: int, source: str = "scenes:96x64") -> list[Path]:
    """The first scenes of the training split as PNG files, one folder per (drawn) class."""
    split = open_split(source, "train")
    observed = split.labels.single_positive(0)
    made = []
    for row in range(count):
        name = split.labels.classes[int(observed.values[row].argmax())]
        path = folder / name / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(split.images.load(row)).save(path)
        made.append(path)
    return made


@dataclass(frozen=True)
class Small:
    run: Path
    backbone: Path
    photos: Path
    files: list[Path]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A finished run of two epochs, and 24 of its images as files. Not to be written to."""
    root = tmp_path_factory.mktemp("small")
    backbone = small_backbone(root / "backbone")
    train(small_config(backbone), root / "run")
    return Small(root / "run", backbone, root / "photos", write_scenes(root / "photos", 24))


@pytest.fixture
def own_run(small: Small, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(small.run, tmp_path / "run"))


def scob(*words: object, **how: object) -> subprocess.CompletedProcess[str]:
    """`scob WORDS...` in a process of its own."""
    command = [sys.executable, "-m", "scob", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, **how)  # type: ignore[call-overload]
