"""Every registered method trains, with every head, frozen or not, and resumes exactly; a new one is one file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scob import methods
from scob.errors import UserError
from scob.methods import LossMethod
from scob.training.loop import Training
from scob.training.model_folder import load_network
from scob.training.stopping import Interrupted
from scob.training.train import SharedParts, train
from support.runs import batches_of

OWN_HEAD = ("ssgrl", "ml-gcn", "kggr", "sst", "sarb", "role-li", "boostlu")
LOSSES = [name for name in methods.names() if issubclass(methods.find(name), LossMethod) and name not in OWN_HEAD]
GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-method.md"


def test_the_methods_of_the_comparison_are_all_here() -> None:
    single = "an an-ls wan epr role em em-apl ll-r ll-ct ll-cp splc hill asl gr scob full"
    partial = "partial-bce curriculum ssgrl ml-gcn kggr sst sarb role role-li observed-only scob full"
    assert {*single.split(), *partial.split()} <= set(methods.names())
    later = "boostlu ignore cap mime vlpl aevlp oracle-negatives oracle-share oracle-estimator"
    assert set(later.split()) <= set(methods.names())


def test_tables_compare_neither_oracles_nor_methods_that_need_a_file() -> None:
    left_out = {"vlpl", "aevlp", "oracle-negatives", "oracle-share", "oracle-estimator"}
    assert set(methods.names()) - set(methods.comparable()) == left_out


@pytest.mark.parametrize("name", methods.names())
def test_an_oracle_is_marked(name: str) -> None:
    marked = "uses labels that no method may see" in (methods.find(name).__doc__ or "").partition("\n")[0]
    assert marked == (methods.find(name).labels == "oracle") == name.startswith("oracle-")


@pytest.mark.parametrize("name", methods.names())
def test_a_method_says_where_it_comes_from(name: str) -> None:
    import sys

    kind = methods.find(name)
    docstring = sys.modules[kind.__module__].__doc__ or ""
    ours = name in ("full", "observed-only", "pairs", "scob") or kind.labels == "oracle"
    assert ours or "20" in docstring, "it does not name a paper"
    assert all(field.description for field in kind.Settings.model_fields.values())


@pytest.mark.parametrize("labels", ["single", "partial"])
@pytest.mark.parametrize("name", [n for n in methods.names() if n != "scob"])
def test_a_method_learns_something_finite(
    experiment_of: Callable[..., Any], prior_word: str, name: str, labels: str
) -> None:
    """One step in each epoch of the schedule: the losses are finite, and the weights move."""
    more = [prior_word] if methods.find(name).needs_prior else []
    e = experiment_of(f"method={name}", f"labels.kind={labels}", "labels.fraction=0.3", "train.warmup=0", *more)
    before = {n: p.detach().clone() for n, p in e.network.named_parameters() if p.requires_grad}
    e.method.train()
    for epoch in range(4):
        batch = next(iter(batches_of(e, epoch)))
        e.optimiser.begin(batch.step)
        e.method.begin_epoch(epoch)
        losses = e.method.step(batch, e.optimiser)
        assert losses and all(bool(torch.isfinite(v)) for v in losses.values()), losses
    after = dict(e.network.named_parameters())
    assert any(not torch.equal(before[n], after[n]) for n in before)
    assert all(bool(torch.isfinite(p).all()) for p in after.values())


@pytest.mark.parametrize("freeze", ["all", "none"])
@pytest.mark.parametrize("head", ["linear", "cnn", "large-cnn", "smt"])
def test_any_loss_with_any_head(experiment_of: Callable[..., Any], head: str, freeze: str) -> None:
    """Losses differ only in what they do with logits: one network per head, and every loss on it in turn."""
    e = experiment_of("method=an", f"model.head={head}", f"model.freeze={freeze}", "train.warmup=0")
    batch = next(iter(batches_of(e, 1)))
    known = e.method.problem.observed
    problem = replace(e.method.problem, truth=known, prior=torch.rand(known.shape))
    for name in [*LOSSES, "role"]:
        kind = methods.find(name)
        method = kind(e.network, problem, e.source, e.config, methods.settings_of(e.config, name))
        method.begin_epoch(batch.epoch)
        before = next(p.detach().clone() for p in e.network.backbone.parameters())
        weights = e.network.classifier.weight.detach().clone()
        losses = method.step(batch, e.optimiser)
        assert all(bool(torch.isfinite(v)) for v in losses.values()), (name, losses)
        assert not torch.equal(weights, e.network.classifier.weight), name
        moved = not torch.equal(before, next(iter(e.network.backbone.parameters())))
        assert moved == (freeze == "none"), name


@pytest.mark.parametrize("name", OWN_HEAD)
def test_a_head_of_its_own_comes_back_from_the_model_folder(run_small: Callable[..., Path], name: str) -> None:
    run = run_small(f"method={name}", "labels.kind=partial", "labels.fraction=0.3", "train.epochs=1")
    network, card = load_network(run / "model")
    assert card.head is not None and card.method == name
    torch.manual_seed(0)
    first = network(torch.randn(2, 3, 64, 64))
    assert first.shape == (2, 16) and bool(torch.isfinite(first).all())


class StopAfter(Training):
    """Stops itself in the middle of the third epoch."""

    def iterate(self, batch: Any) -> None:
        super().iterate(batch)
        if self.progress.step == 12:
            self.stop.number = 15


@pytest.mark.parametrize(
    "name", ["em-apl", "curriculum", "ll-cp", "sarb", "role-li", "cap", "ignore", "mime", "aevlp", "pairs"]
)
def test_what_a_method_remembers_survives_a_resume(
    run_small: Callable[..., Path],
    configure: Callable[..., Any],
    scenes_of: Callable[..., Any],
    tmp_path: Path,
    prior_word: str,
    name: str,
) -> None:
    words = (f"method={name}", "labels.kind=partial", "labels.fraction=0.3", "ll-cp.delta=10", "em-apl.warm_up=0.25")
    words += (prior_word,) if methods.find(name).needs_prior else ()
    uninterrupted = run_small(*words)
    config = configure(*words)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), loop=StopAfter)
    train(config, tmp_path / "run", resume=True, shared=SharedParts(scenes_of(config)))
    model = Path("model") / "model.safetensors"
    assert (uninterrupted / model).read_bytes() == (tmp_path / "run" / model).read_bytes()


def test_a_new_method_is_one_file(
    tmp_path: Path, small_words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guide's example, unchanged: saved, trained with a setting of its own, and evaluated."""
    from scob.config import load_config
    from scob.inference.evaluate import evaluate
    from scob.parallel import Processes
    from scob.training.resume import resume_config

    built_in = dict(methods._registered)
    monkeypatch.setattr(methods, "_registered", dict(built_in))
    (tmp_path / "confident.py").write_text(GUIDE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0])
    methods.register_folder(tmp_path)
    assert "confident" in methods.names()
    words = [*small_words, "method=confident", "confident.limit=0.4", "train.epochs=1"]
    finished = train(load_config(None, words, methods.section_names()), tmp_path / "run")
    assert finished.summary["method"] == "confident"
    with pytest.raises(UserError, match=r"confident\.limt.*confident\.limit"):
        train(load_config(None, [*words, "confident.limt=1"], methods.section_names()), tmp_path / "other")
    # Without the file, the model can still be used, but the run cannot be continued.
    monkeypatch.setattr(methods, "_registered", built_in)
    assert evaluate(tmp_path / "run", split="val", processes=Processes()).images == 20
    with pytest.raises(UserError, match="no method 'confident'"):
        resume_config(tmp_path / "run")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        methods.register_folder(tmp_path / "none")
