"""Backbones from folders and stored configurations, and what is refused."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scob.errors import UserError
from scob.model.load_backbone import backbone_config, backbone_from_config, load_backbone, save_backbone
from scob.model.preprocessing import preprocessing


def test_a_stored_configuration_rebuilds_it(family: tuple[str, Path]) -> None:
    backbone = load_backbone(str(family[1]))
    twin = backbone_from_config(backbone_config(backbone), "twin")
    twin.load_state_dict(backbone.state_dict())
    images = torch.randn(1, 3, 64, 64)
    assert all(torch.equal(a, b) for a, b in zip(twin(images), backbone(images), strict=True))


# Older versions of PyTorch cannot be imported completely while tensors are made on the meta device.
ON_META = """
import json, sys
import torch
from scob.model.load_backbone import backbone_from_config

class Devices:
    def find_spec(self, name, path=None, target=None):
        seen.setdefault(torch.empty(0).device.type, name)

seen = {}
sys.meta_path.insert(0, Devices())
with torch.device("meta"):
    backbone = backbone_from_config(json.loads(sys.argv[1]), "stored")
print(json.dumps(seen), {weight.device.type for weight in backbone.parameters()})
"""


def test_nothing_is_imported_while_tensors_are_made_on_meta(tiny_backbone: Path) -> None:
    config = json.dumps(backbone_config(load_backbone(str(tiny_backbone))))
    done = subprocess.run([sys.executable, "-c", ON_META, config], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen, made = done.stdout.rsplit(maxsplit=1)
    assert json.loads(seen).keys() == {"cpu"} and made == "{'meta'}"


def test_a_saved_backbone_loads_again_with_its_preprocessing(tiny_backbone: Path, tmp_path: Path) -> None:
    backbone, folder = load_backbone(str(tiny_backbone)), tmp_path / "run" / "init-backbone"
    save_backbone(backbone, folder, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    images = torch.randn(1, 3, 64, 64)
    assert all(torch.equal(a, b) for a, b in zip(load_backbone(str(folder))(images), backbone(images), strict=True))
    assert preprocessing(str(folder)) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


def test_a_folder_that_cannot_be_written_is_named(tiny_backbone: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UserError, match=r"cannot write .*taken"):
        save_backbone(load_backbone(str(tiny_backbone)), tmp_path / "taken", (0.5,) * 3, (0.5,) * 3)


@pytest.mark.parametrize(("name", "words"), [("empty", "config.json"), ("missing.pth", "there is no backbone")])
def test_what_is_missing_is_said(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=words):
        load_backbone(str(tmp_path / name))


def test_a_hub_that_cannot_be_reached_is_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(UserError, match=r"put its config.json and model.safetensors into a folder"):
        load_backbone("nobody/resnet-none")
    assert time.monotonic() - began < 12
    assert "Retrying" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "no model_type"),
        ({"model_type": "bert"}, "no backbone class for 'bert'"),
        ({"model_type": "resnet", "layer_type": "cubic"}, "cannot be used"),
    ],
)
def test_a_damaged_configuration_is_refused(config: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        backbone_from_config(config, "damaged")


def test_code_that_comes_with_a_model_is_never_run(tmp_path: Path) -> None:
    own = '{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}'
    (tmp_path / "config.json").write_text(own)
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(UserError, match="comes with its own Python code, which Scob never runs"):
        load_backbone(str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_lacks_a_weight_is_refused_instead_of_drawing_it_at_random(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_backbone, tmp_path / "backbone")
    weights = load_file(tmp_path / "backbone" / "model.safetensors")
    del weights["encoder.stages.1.layers.0.layer.0.convolution.weight"]
    save_file(weights, tmp_path / "backbone" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 of its weights are missing, the first: encoder\.stages\.1"):
        load_backbone(str(tmp_path / "backbone"))
