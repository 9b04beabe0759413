"""A step replayed as a CUDA graph is the same step."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.training import build, inputs
from scob.training.events import Note
from scob.training.execution import read_execution
from scob.training.graphs import GraphedStep
from scob.training.memory_plan import MemoryPlan
from scob.training.train import SharedParts, train
from support.runs import same, trained_weights

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize(
    "method", ["scob", "role", "an", "an-ls", "wan", "epr", "em", "splc", "hill", "asl", "pairs", "full"]
)
@pytest.mark.parametrize(
    "more",
    ["train.feature_cache=none", "train.feature_cache=device", "train.estimator=dense", "scob.second_step=shared"],
)
def test_a_graphed_run_is_the_plain_run(configure: Any, scenes_of: Any, tmp_path: Path, method: str, more: str) -> None:
    words = (
        f"method={method}", "train.device=cuda", "train.precision=fp32", "train.deterministic=true",
        "model.dropout=0", "scob.tree_lifetime=epoch", more,
    )  # fmt: skip
    for compiled in ("false", "true"):
        config = configure(*words, f"train.compile={compiled}")
        train(config, tmp_path / compiled, shared=SharedParts(scenes_of(config)))
    plain, graphed = (trained_weights(tmp_path / c) for c in ("false", "true"))
    for name, value in plain.items():
        assert torch.allclose(value, graphed[name], rtol=1e-2, atol=1e-3), name


def test_a_step_that_cannot_be_captured_runs_plainly_from_then_on(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capturing begins with a synchronisation, which fails here: the run ends with the weights of a plain one."""
    failed: list[int] = []

    def short() -> None:
        failed.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "synchronize", short)
    config, events = configure("train.compile=auto"), []
    monkeypatch.setattr(build, "why_plain", lambda *_: "")
    monkeypatch.setattr(inputs, "plan_inputs", lambda *_: (MemoryPlan("none", True), ""))
    train(config, tmp_path, shared=SharedParts(scenes_of(config)), listen=events.append)
    said = [e.message for e in events if isinstance(e, Note) and "from here on" in e.message]
    assert said == ["from here on, steps run one operation at a time, not as a CUDA graph: memory is short"]
    assert failed == [1]  # it is not tried again
    record = read_execution(tmp_path)
    assert record is not None and not record.graph and record.padded
    assert same(trained_weights(run_small()), trained_weights(tmp_path))


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("method", ["scob", "role"])
def test_by_default_a_gpu_runs_graphs_with_cached_features(
    configure: Any, scenes_of: Any, tmp_path: Path, method: str
) -> None:
    words = (
        f"method={method}",
        "train.device=cuda",
        "train.precision=fp32",
        "train.deterministic=true",
        "model.dropout=0",
    )
    chosen = configure(*words, "train.compile=auto", "train.feature_cache=auto")
    plain = configure(*words)
    for name, config in (("chosen", chosen), ("plain", plain)):
        train(config, tmp_path / name, shared=SharedParts(scenes_of(config)))
    record = read_execution(tmp_path / "chosen")
    assert record is not None and record.graph and record.features == "device"
    weights = trained_weights(tmp_path / "chosen")
    for name, value in trained_weights(tmp_path / "plain").items():
        assert torch.allclose(value, weights[name], rtol=1e-2, atol=1e-3), name


@pytest.mark.gpu
@NEEDS_GPU
def test_a_capture_without_memory_leaves_the_gpu_usable(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory runs out in the middle of the capture."""
    if torch.cuda.mem_get_info()[0] < 4 << 30:
        pytest.skip("other programs have filled the GPU: the step would not be captured at all")
    config, events = configure("train.device=cuda", "train.compile=auto", "train.feature_cache=auto"), []
    step = GraphedStep._step

    def short(graphed: GraphedStep, epoch: int, number: int) -> Any:
        losses = step(graphed, epoch, number)
        if torch.cuda.is_current_stream_capturing():
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        return losses

    monkeypatch.setattr(GraphedStep, "_step", short)
    train(config, tmp_path, shared=SharedParts(scenes_of(config)), listen=events.append)
    assert any("memory is short" in e.message for e in events if isinstance(e, Note))


@pytest.mark.gpu
@NEEDS_GPU
def test_a_nearly_full_card_is_enough(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config, events = configure("train.device=cuda", "train.compile=auto", "train.feature_cache=auto"), []
    held = torch.empty(torch.cuda.mem_get_info()[0] - (600 << 20), dtype=torch.uint8, device="cuda")
    try:
        train(config, tmp_path, shared=SharedParts(scenes_of(config)), listen=events.append)
    finally:
        del held
        torch.cuda.empty_cache()
    record = read_execution(tmp_path)
    assert record is not None and record.features != "device"
