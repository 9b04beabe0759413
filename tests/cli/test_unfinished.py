"""Every verb says that it uses a run that is not finished."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scob.training.stopping import Interrupted
from scob.training.train import train
from support.interrupted import stop_at
from support.small_model import Small, small_config


def test_predict_thresholds_and_finish_each_say_what_they_use(
    scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path
) -> None:
    run: Any = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(small_config(small.backbone, train={"epochs": 3}), run, listen=stop_at(7))
    for words in (("predict", run, small.files[0]), ("thresholds", run, "--no-figures"), ("export", run)):
        code, _, err = scob(*words)
        assert code == 0 and "this is the model of epoch 1, the best of 1 so far (3 were planned)" in err
    code, _, err = scob("serve", run, "--host", "0.0.0.0")  # refused, so that it ends
    assert code == 2 and "this is the model of epoch 1" in err and "set a secret with --token" in err
    code, out, _ = scob("train", "--resume", run, "--finish")
    assert code == 0 and "1 of 1" in out
    code, _, err = scob("predict", run, small.files[0])
    assert code == 0 and "not finished" not in err
