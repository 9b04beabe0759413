"""The loop: it can fit, stops where it must, goes on where it stopped, and keeps the epoch it should."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.errors import UserError
from scob.training import checkpoint
from scob.training.events import Event, Listener, StepLogged
from scob.training.metrics import mean_average_precision
from scob.training.results import reference
from scob.training.scoring import score_images
from scob.training.stopping import Interrupted
from scob.training.train import Shared, train
from support.runs import batches_of, logged, same, step_epoch, trained_weights


@pytest.mark.parametrize("method", ["full", pytest.param("scob", marks=pytest.mark.slow)])
def test_full_labels_of_32_scenes_can_be_learnt_by_heart(experiment_of: Any, method: str) -> None:
    e = experiment_of(
        f"method={method}", "labels.kind=full", "data.source=scenes:32x64", "model.dropout=0", "train.epochs=60",
        "train.lr_smt=5e-3", "train.lr_other=2e-2", "train.feature_cache=device", "model.width=64",
    )  # fmt: skip
    reached = 0.0
    for epoch in range(60):
        step_epoch(e, epoch)
        if epoch % 5 == 4:
            scores = e.scores("train")
            reached = mean_average_precision(scores, e.data.train.labels.values)
        if reached == 100:
            break
    assert reached == pytest.approx(100)


def test_a_loss_that_is_not_finite_stops_the_run(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("train.lr_smt=1e30", "train.warmup=0", "train.checkpoint_steps=1")
    with pytest.raises(UserError, match=r"not finite at step \d+ \(.*class=.*last good checkpoint") as caught:
        train(config, tmp_path / "run", shared=Shared(scenes_of(config)))
    assert "nan" in str(caught.value) or "inf" in str(caught.value)
    assert not (tmp_path / "run" / "summary.json").exists()
    kept = checkpoint.latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None
    stopped = int(str(caught.value).split("at step ")[1].split()[0])
    assert 0 < kept.progress.step < stopped


@pytest.mark.parametrize("word", ["method=rolee", "data.source=nowhere"])
def test_a_mistake_leaves_no_run_folder(configure: Any, tmp_path: Path, word: str) -> None:
    with pytest.raises(UserError):
        train(configure(word), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()  # a folder that was there before stays
    with pytest.raises(UserError):
        train(configure(word), tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()


def at_step(number: int, act: Callable[[], None]) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, StepLogged) and event.step == number:
            act()

    return listen


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def crash() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "words",
    [(), ("scob.contrast=moco", "train.ema=0.9"), ("scob.optimisation=two-stage", "train.feature_cache=device")],
)
def test_a_resumed_run_ends_in_the_same_bits(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    whole = run_small(*words)
    config = configure(*words, "train.checkpoint_steps=3")
    data = scenes_of(config)
    with pytest.raises(ZeroDivisionError):  # between checkpoints, in the middle of the second epoch
        train(config, tmp_path / "run", shared=Shared(data), listen=at_step(8, crash))
    with pytest.raises(Interrupted) as caught:  # asked to stop, in the middle of the third
        train(config, tmp_path / "run", resume=True, shared=Shared(data), listen=at_step(13, terminate))
    assert caught.value.code == 128 + signal.SIGTERM
    finished = train(config, tmp_path / "run", resume=True, shared=Shared(data))
    assert same(trained_weights(whole), trained_weights(tmp_path / "run"))
    assert logged(whole, "class") == logged(tmp_path / "run", "class")
    again = train(config, tmp_path / "run", resume=True, shared=Shared(data))
    assert again.summary == json.loads(json.dumps(finished.summary))


def test_a_folder_that_holds_a_run_is_refused(configure: Any, scenes_of: Any, run_small: Any) -> None:
    config, run = configure(), run_small()
    before = trained_weights(run)
    with pytest.raises(UserError, match="already contains a run"):
        train(config, run, shared=Shared(scenes_of(config)))
    assert same(before, trained_weights(run))


@pytest.mark.parametrize(("select", "figure"), [("last", None), ("holdout", "mAP-observed"), ("best-on-test", "mAP")])
def test_the_chosen_epoch_is_the_one_the_rule_names(run_small: Any, select: str, figure: str | None) -> None:
    run = run_small("train.holdout=0.25", "data.evaluate=val", "data.source=scenes:64x64", f"train.select={select}")
    summary = json.loads((run / "summary.json").read_text())
    curve = summary["curve"]
    assert [c["epoch"] for c in curve] == [0, 1, 2, 3]
    expected = 3 if figure is None else int(np.argmax([c[figure] for c in curve]))
    assert summary["selected_epoch"] == expected
    assert summary["evaluation"]["mAP"] == pytest.approx(curve[expected]["mAP"], abs=1e-4)
    assert summary["select"] == select


def test_full_holdout_labels_are_named_where_they_are_used(run_small: Any) -> None:
    run = run_small("train.holdout=0.25", "train.holdout_labels=full", "train.epochs=1")
    curve = json.loads((run / "summary.json").read_text())["curve"]
    assert "mAP-holdout-full" in curve[0]
    assert curve[0]["holdout"] == curve[0]["mAP-holdout-full"] != curve[0]["mAP-observed"]


def test_averaged_weights_are_what_is_kept(run_small: Any) -> None:
    plain, averaged = run_small("train.ema=0"), run_small("train.ema=0.9")
    assert not same(trained_weights(plain), trained_weights(averaged))
    assert logged(plain, "class") == logged(averaged, "class")  # training does not notice


def test_a_run_folder_holds_everything(run_small: Any) -> None:
    names = {p.name for p in run_small().iterdir()}
    assert names >= {"config.yaml", "labels.safetensors", "metrics.jsonl", "summary.json", "model", "tensorboard"}
    assert list((run_small() / "tensorboard").iterdir())


def test_every_image_is_scored_once_whatever_the_batch(experiment_of: Any) -> None:
    e = experiment_of()
    feed, count = e.inputs.feeds["train"], len(e.data.train)
    whole = score_images(e.network, e.source, feed, 64)
    assert whole.shape == (count, len(e.data.observed.classes))
    assert score_images(e.network, e.source, feed, 7).numpy() == pytest.approx(whole.numpy(), abs=1e-5)
    mirrored = score_images(e.network, e.source, feed, 64, mirror=True)
    assert not np.allclose(mirrored, whole, atol=1e-4)


def test_a_batch_of_padding_changes_nothing(experiment_of: Any) -> None:
    """The last batch of an epoch filled up to one shape gives the gradients of the part that is real."""
    from scob.algorithm.sampling import Plan, to_device

    e = experiment_of("method=role", "train.batch=16", "model.dropout=0")
    losses = []
    for pad in (False, True):
        planned = list(Plan(e.data.observed, 16, 0, pad=pad).epoch(0))[-1]
        batch = to_device(planned, 0, 2, e.processes.device)
        batch.images = e.inputs.feeds["train"].fetch(np.minimum(planned.rows, e.plan.count - 1))
        loss, _ = e.method.class_loss(e.method.logits(e.method.clean_features(batch)), batch)
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert len(next(batches_of(e, 0)).rows) == 16


def test_held_out_labels_count_unknown_as_absent_only_where_negatives_are_not_known() -> None:
    single = np.array([[1, 0, 0], [0, 1, 0]], np.int8)
    assert reference(single).tolist() == [[1, -1, -1], [-1, 1, -1]]
    partial = np.array([[1, -1, 0], [0, -1, -1]], np.int8)
    assert reference(partial).tolist() == partial.tolist()
    reviewed = np.array([[1, 0, -1], [0, 1, 0], [1, 0, 0]], np.int8)  # one negative somebody happened to give
    assert reference(reviewed).tolist() == [[1, -1, -1], [-1, 1, -1], [1, -1, -1]]
