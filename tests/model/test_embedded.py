"""Names of the backbones inside the package."""

from pathlib import Path

import pytest

from scob.model.embedded import EMBEDDED, backbone_path


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_name_is_a_folder_with_weights_and_a_card(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()  # a folder of photographs is not a backbone
    monkeypatch.chdir(tmp_path)
    folder = backbone_path(name)
    assert {"config.json", "model.safetensors", "README.md"} <= {path.name for path in folder.iterdir()}


def test_other_names_are_paths() -> None:
    assert backbone_path("~/resnet.pth") == Path.home() / "resnet.pth"
    assert not backbone_path("nobody/resnet").exists()
