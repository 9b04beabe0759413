"""Finding a model: what a path names, and what is said about a path that names none."""

from pathlib import Path

import pytest

from scob.errors import UserError
from scob.training.find_model import find_model
from support.small_model import Small


def test_a_run_names_its_model_and_a_model_folder_itself(small: Small, tmp_path: Path) -> None:
    run, folder = find_model(small.run), find_model(small.run / "model")
    assert run.path == folder.path == small.run / "model" and not run.is_onnx
    assert run.run == small.run and folder.run is None
    (tmp_path / "model.onnx").write_bytes(b"")
    assert find_model(tmp_path / "model.onnx").is_onnx


def test_a_missing_model_an_unfinished_run_and_another_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no model"):
        find_model(tmp_path / "none")
    with pytest.raises(UserError, match=r"neither a model folder \(config\.json\), a run folder, nor an \.onnx file"):
        find_model(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(UserError, match="is not finished: continue it with scob train --resume"):
        find_model(tmp_path)
