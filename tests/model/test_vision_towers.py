"""CLIP, SigLIP, SigLIP 2 and ViT as two maps."""

import re
from pathlib import Path

import pytest
import torch
import transformers as t
from safetensors.torch import load_file, save_file

from scob.errors import UserError
from scob.model.load_backbone import backbone_config, load_backbone, save_backbone
from scob.model.vision_towers import patches, two_layers


def test_the_maps_are_the_cells_of_two_layers(tower: tuple[str, Path]) -> None:
    """The last map is the model's own last state; a cell of it changes most with the pixels of that cell."""
    kind, folder = tower
    backbone, images = load_backbone(str(folder)), torch.randn(2, 3, 64, 64)
    third, fourth = backbone(images)
    assert third.shape == fourth.shape == (2, 16, 4, 4) and not torch.allclose(third, fourth)
    model = t.AutoModel.from_pretrained(folder).eval()
    if kind == "siglip2":
        rows, shapes = patches(images, 16), torch.tensor([[4, 4]] * 2)
        state = model.vision_model(rows, torch.ones(2, 16), shapes).last_hidden_state
    elif kind == "vit":
        state = model(images).last_hidden_state[:, 1:]
    elif kind == "clip":
        state = model.vision_model.post_layernorm(model.vision_model(images).last_hidden_state[:, 1:])
    else:
        state = model.vision_model(images).last_hidden_state
    assert torch.allclose(fourth, state.transpose(1, 2).reshape(2, 16, 4, 4), atol=1e-5)


def test_any_size_works_and_positions_are_interpolated(tower: tuple[str, Path]) -> None:
    backbone = load_backbone(str(tower[1]))
    assert backbone.grids(96) == ((6, 6), (6, 6)) and backbone.grids(70) == ((4, 4), (4, 4))
    assert backbone(torch.randn(1, 3, 96, 96))[1].isfinite().all()


def test_only_the_last_quarter_learns_and_only_the_image_half_is_kept(tower: tuple[str, Path], tmp_path: Path) -> None:
    backbone = load_backbone(str(tower[1]), "stages")
    learning = [name for name, p in backbone.named_parameters() if p.requires_grad]
    assert learning and all(".layers.6." in name or ".layers.7." in name for name in learning)
    assert not any("text" in name or "head" in name for name, _ in backbone.named_parameters())
    save_backbone(backbone, tmp_path, (0.5,) * 3, (0.5,) * 3)
    again, images = load_backbone(str(tmp_path)), torch.randn(1, 3, 64, 64)
    assert all(torch.equal(a, b) for a, b in zip(again(images), backbone(images), strict=True))
    assert backbone_config(again)["out_features"] == ["stage6", "stage8"]


def test_a_model_without_its_image_weights_is_refused(tower: tuple[str, Path], tmp_path: Path) -> None:
    weights = load_file(tower[1] / "model.safetensors")
    some = {name: tensor for name, tensor in weights.items() if not re.search(r"layers?\.3\.", name)}
    save_file(some, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_bytes((tower[1] / "config.json").read_bytes())
    with pytest.raises(UserError, match="weights of the image model are missing"):
        load_backbone(str(tmp_path))


def test_nothing_is_printed_about_the_text_half(tower: tuple[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    load_backbone(str(tower[1]))
    said = capfd.readouterr()
    assert "UNEXPECTED" not in said.out + said.err


def test_patches_are_cut_as_siglip_2_was_trained_with() -> None:
    """Row by row; within a patch, pixel by pixel with its three colours together."""
    image = torch.randn(3, 35, 48)
    cut = [image[:, y : y + 16, x : x + 16].permute(1, 2, 0).reshape(-1) for y in (0, 16) for x in (0, 16, 32)]
    assert torch.equal(patches(image[None], 16)[0], torch.stack(cut))


@pytest.mark.parametrize(("depth", "layers"), [(12, ["stage9", "stage12"]), (24, ["stage18", "stage24"]),
                                               (2, ["stage1", "stage2"])])  # fmt: skip
def test_the_layers_are_at_three_quarters_and_at_the_end(depth: int, layers: list[str]) -> None:
    assert two_layers(t.ViTConfig(num_hidden_layers=depth)) == layers
