"""Predicting with an ONNX file: without torch, with any batch size; damaged and foreign files are refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from scob.errors import UserError
from scob.inference.onnx.export import export
from scob.inference.onnx.runtime import FORMAT, OnnxModel, read_metadata
from support.small_model import Small

# The light install, `scob[predict]`: of all that the extras bring, only onnxruntime.
LIGHT = """
import sys
from scob.installation import EXTRAS
for packages in EXTRAS.values():
    for package in set(packages) - {"onnxruntime"}:
        sys.modules[package.replace("-", "_")] = None
from scob.cli import build
build()(args=sys.argv[1:], standalone_mode=False)
"""


def test_predicting_with_onnx_needs_nothing_but_onnxruntime(exported: Path, small: Small, tmp_path: Path) -> None:
    words = ["predict", str(exported), str(small.photos), "-o", str(tmp_path / "found.csv")]
    done = subprocess.run([sys.executable, "-c", LIGHT, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 25


# The same with FastAPI: a model is served, and answers once.
LIGHT_SERVER = (
    LIGHT.replace('{"onnxruntime"}', '{"onnxruntime", "fastapi", "uvicorn"}').partition("from scob.cli")[0]
    + """
import os, signal
from threading import Thread
from urllib.request import urlopen
from scob.inference.web.serve import serve_model
def ask(address):
    print(urlopen(address, timeout=60).status, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
def ready(address):
    Thread(target=ask, args=(address,), daemon=True).start()
serve_model(sys.argv[1], port=0, ready=ready)
"""
)


def test_serving_an_onnx_file_needs_no_torch(exported: Path) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    done = subprocess.run([sys.executable, "-c", LIGHT_SERVER, exported], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "200"), done.stderr


def test_any_batch_size_works(exported: Path) -> None:
    model = OnnxModel(exported)
    pixels = np.random.default_rng(0).integers(0, 256, (7, 64, 64, 3), dtype=np.uint8)
    whole = model.scores(pixels)
    assert np.allclose(whole, np.concatenate([model.scores(pixels[i : i + 1]) for i in range(7)]), atol=1e-5)


def test_what_onnxruntime_cannot_compute_is_one_sentence(exported: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="onnxruntime cannot compute this model's scores: "):
        OnnxModel(exported).scores(np.zeros((1, 8, 8, 3), np.uint8))  # the model takes 64 x 64 pixels
    assert capfd.readouterr().err == ""  # it says nothing beside the exception


def test_a_device_that_onnxruntime_does_not_know_is_refused(small: Small, tmp_path: Path) -> None:
    export(small.run, tmp_path / "model.onnx")
    with pytest.raises(UserError, match="does not run on 'foo': use auto, cpu or cuda"):
        OnnxModel(tmp_path / "model.onnx", device="foo")


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "damaged"), (b"not a model", "damaged"), (None, "there is no model")]
)
def test_a_damaged_onnx_file_is_an_error(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        OnnxModel(path)


def test_an_onnx_file_of_somebody_else_is_refused(exported: Path, tmp_path: Path) -> None:
    proto = onnx.load(str(exported))
    del proto.metadata_props[:]
    onnx.save(proto, str(tmp_path / "model.onnx"))
    with pytest.raises(UserError, match="not from this version's `scob export`"):
        OnnxModel(tmp_path / "model.onnx")


@pytest.mark.parametrize("wrong", ["NaN", "1e300", "-Infinity"])
def test_a_threshold_must_be_a_finite_number(wrong: str, recwarn: pytest.WarningsRecorder) -> None:
    stored = {"format": FORMAT, "classes": '["cat", "dog"]', "preprocessing": '{"size": 64}'}
    with pytest.raises(UserError, match="a threshold is not a finite number"):
        read_metadata({**stored, "thresholds": f"[0.5, {wrong}]"}, Path("model.onnx"))
    assert not recwarn.list


def test_an_operation_with_a_damaged_name_is_one_sentence_and_nothing_else(
    exported: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.onnx").write_bytes(exported.read_bytes().replace(b"Sigmoid", b"Sigmo\xe9d"))
    with pytest.raises(UserError, match="damaged"):
        OnnxModel(tmp_path / "model.onnx", device="cpu")
    assert "EP Error" not in capfd.readouterr().out
