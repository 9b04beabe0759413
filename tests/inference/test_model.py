"""Opening a model: folders that move, files that are damaged, ONNX without torch."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from scob.errors import UserError
from scob.inference.model import Scob, load_model
from scob.inference.onnx.export import export
from scob.inference.onnx.runtime import OnnxModel
from scob.model.fold import has_batchnorm
from support.small_model import Small


def test_a_run_its_model_folder_and_an_onnx_file_open_the_same_way(small: Small, tmp_path: Path) -> None:
    exported = export(small.run, tmp_path / "model.onnx").path
    run, folder, onnx = (load_model(path, "cpu") for path in (small.run, small.run / "model", exported))
    assert isinstance(run, Scob) and isinstance(folder, Scob) and isinstance(onnx, OnnxModel)
    assert run.classes == folder.classes == onnx.classes and run.size == folder.size == onnx.size
    assert run.thresholds.tolist() == folder.thresholds.tolist() == onnx.thresholds.tolist()


def test_an_onnx_file_opens_without_torch_and_can_only_predict(small: Small, tmp_path: Path) -> None:
    exported = export(small.run, tmp_path / "model.onnx").path
    code = (
        "import sys; from scob.inference.model import load_model; load_model(sys.argv[1])\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code, str(exported)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UserError, match="can only predict: give the model folder it was exported from"):
        Scob.from_pretrained(exported, "cpu")


def test_a_model_predicts_in_half_precision_if_asked(small: Small) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    full, half = (Scob.from_pretrained(small.run, "cpu", precision) for precision in ("fp32", "bf16"))
    pixels = pixels.repeat(-(-full.size // 64), axis=1).repeat(-(-full.size // 64), axis=2)[:, : full.size, : full.size]
    exact, rounded = full.scores(pixels), half.scores(pixels)
    assert not np.array_equal(exact, rounded) and np.allclose(exact, rounded, atol=0.05)
    with pytest.raises(UserError, match="fp32 or bf16, not 'fp16'"):
        Scob.from_pretrained(small.run, "cpu", "fp16")  # type: ignore[arg-type]


def test_on_a_cpu_a_model_predicts_with_a_folded_copy(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (4, model.size, model.size, 3), dtype=np.uint8)
    with torch.inference_mode():
        exact = model.network(model.prepare(pixels)).sigmoid().numpy()
    assert has_batchnorm(model.network) and not has_batchnorm(model._predictor)
    assert np.allclose(model.scores(pixels), exact, atol=1e-5)


def test_a_model_of_another_version_is_refused(own_run: Path) -> None:
    config = own_run / "model" / "config.json"
    config.write_text(config.read_text().replace("scob-model-1", "scob-model-9"))
    with pytest.raises(UserError, match="another version"):
        Scob.from_pretrained(own_run, "cpu")


def test_a_corrupted_safetensors_is_refused(own_run: Path) -> None:
    weights = own_run / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged"):
        Scob.from_pretrained(own_run, "cpu")


def test_one_changed_byte_among_the_weights_is_noticed(own_run: Path) -> None:
    weights = own_run / "model" / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-5] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(UserError, match="damaged: it is not what config"):
        Scob.from_pretrained(own_run, "cpu")


def test_a_model_folder_moves(small: Small, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(small.run / "model", tmp_path / "elsewhere"))
    assert Scob.from_pretrained(moved, "cpu").classes == Scob.from_pretrained(small.run, "cpu").classes
