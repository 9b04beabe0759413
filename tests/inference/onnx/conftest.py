"""One exported model, shared by the tests of this folder."""

from pathlib import Path

import pytest

from scob.inference.onnx.export import export
from support.small_model import Small


@pytest.fixture(scope="session")
def exported(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    made = export(small.run, path)
    assert made.difference < 1e-5 and made.bytes == path.stat().st_size
    assert [p.name for p in path.parent.iterdir()] == ["model.onnx"]  # one file, nothing half-written
    return path
