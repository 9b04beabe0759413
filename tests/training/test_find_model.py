"""Finding the model that a path names."""

from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.training.find_model import FoundModel, find_model, is_hub_name


def test_a_model_folder_and_a_run_folder_name_the_same_model(run_small: Any) -> None:
    run = run_small()
    assert find_model(run) == FoundModel(run / "model", run)
    assert find_model(str(run / "model")) == FoundModel(run / "model")
    assert not find_model(run).is_onnx


def test_an_onnx_file_is_a_model_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    with pytest.raises(UserError, match=r"there is no model at .*model\.onnx"):
        find_model(file)
    file.write_bytes(b"")
    assert find_model(file) == FoundModel(file) and find_model(file).is_onnx


def test_what_is_not_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither a model folder \(config\.json\), a run folder, nor an \.onnx file"):
        find_model(tmp_path)
    with pytest.raises(UserError, match=r"there is no model at .*nowhere"):
        find_model(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("path", "is_name"),
    [
        ("owner/name", True), ("owner/na.me-1@v2", True), ("owner/name@refs/pr/1", True),
        ("name", False), ("./owner/name", True), ("../owner/name", False), ("/owner/name", False), ("a/b/c", False),
        ("runs/photos", False),
    ],
)  # fmt: skip
def test_which_paths_can_be_names_on_the_hub(
    path: str, is_name: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()  # so runs/photos is a folder that is missing
    assert is_hub_name(Path(path)) == is_name
