"""Where the rows of all images lie does not show in what a run learns."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.algorithm.estimator import Estimator
from scob.errors import UserError
from scob.model.row_tables import RowStorage
from support.runs import same, trained_weights


@pytest.mark.parametrize("place", ["host", "disk"])
def test_rows_elsewhere_learn_the_same(run_small: Any, place: str) -> None:
    run = run_small(f"train.rows={place}")
    assert same(trained_weights(run_small()), trained_weights(run))
    files = sorted(p.name for p in (run / "rows-0").glob("*")) if place == "disk" else []
    assert len(files) == (5 if place == "disk" else 0)


def test_mapped_rows_stay_in_their_file_when_the_module_moves(tmp_path: Path) -> None:
    observed = torch.zeros(11, 3, dtype=torch.int8)
    estimator = Estimator(observed, torch.arange(11), 0, storage=RowStorage("disk", tmp_path)).double().to("cpu")
    assert estimator.logits.dtype == torch.float32
    estimator.move(torch.tensor([2, 5]), torch.ones(2, 3), 0.1)
    stored = torch.frombuffer(bytearray((tmp_path / "estimator-logits.rows").read_bytes()), dtype=torch.float32)
    assert torch.equal(stored.view(11, 3), estimator.logits)
    plain = Estimator(observed, torch.arange(11), 0)
    plain.move(torch.tensor([2, 5]), torch.ones(2, 3), 0.1)
    assert torch.equal(plain.logits, estimator.logits)


def test_disk_rows_need_a_folder() -> None:
    with pytest.raises(UserError, match="needs a run folder"):
        RowStorage("disk").table("a", (1,), torch.float32, None)
