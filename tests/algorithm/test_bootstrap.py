"""Algorithm 1: what a step costs, what it may know, and that every setting has an effect."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import scob.algorithm.bootstrap
import scob.training.build
import scob.training.run_data
from scob.bench.step import count_waits
from scob.data.split import Split
from scob.labels import Labels
from scob.training.train import train
from support.runs import batches_of, differing, logged, same, step_epoch, trained_weights

# Every variant of the paper's tables and every setting of the method that changes what is learnt.
SWITCHES = (
    "scob.guidance=none", "scob.guidance=gt-mask",
    "model.head=cnn", "model.head=large-cnn", "model.head=linear",
    "scob.contrast=random", "scob.contrast=none", "scob.contrast=byol", "scob.contrast=moco", "scob.contrast=simclr",
    "scob.optimisation=joint", "scob.optimisation=two-stage", "scob.second_step=shared",
    "scob.negatives=10", "scob.negatives=100", "scob.negatives=1000",
    "scob.gamma_cam=0.2", "scob.gamma_cam=0.8", "scob.lambda_c=0.5", "labels.k=3.0", "scob.positive=self",
    "scob.cam=grad++", "scob.cam_source=stage4", "scob.cam_window=[1, 1]", "scob.cam_window=[3, 3]",
    "model.position=qk", "model.projector=query-mlp", "scob.cont_scale=paper", "scob.mask_classification=true",
    "scob.contrasted=0.5", "scob.contrasted=0.2",
    "scob.tree_lifetime=epoch", "train.estimator=dense", "train.schedule=step",
    "scob.init_epochs=0", "scob.init_epochs=2", "labels.kind=partial", "scob.tau=1.0", "scob.momentum=0.5",
    "model.norm=pre", "model.freeze=stages", "model.freeze=none", "model.calibrate_bn=false",
)  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES)
def test_no_switch_is_dead(run_small: Any, switch: str) -> None:
    default, changed = trained_weights(run_small()), trained_weights(run_small(switch))
    trained = [k for k in default if not k.startswith("backbone.")]
    if default.keys() == changed.keys():
        assert set(differing(default, changed)) >= set(trained)  # every trained tensor, not a chance bit
    else:
        assert switch.startswith("model.head")


@pytest.mark.parametrize(
    "pair", [("scob.negatives=2", "scob.capacity=2"), ("labels.kind=partial", "labels.fraction=0.5")]
)
def test_a_setting_that_needs_another(run_small: Any, pair: tuple[str, str]) -> None:
    assert differing(trained_weights(run_small(pair[0])), trained_weights(run_small(*pair)))


@pytest.mark.parametrize("switch", ["", *SWITCHES])
def test_every_variant_learns_and_stays_finite(run_small: Any, switch: str) -> None:
    run = run_small(*([switch] if switch else []))
    losses = logged(run, "class")
    assert len(losses) == 20
    assert np.isfinite(losses).all()
    if switch != "scob.contrast=none":
        contrast = [r for r in (run / "metrics.jsonl").read_text().splitlines() if '"contrast"' in r]
        assert contrast
        assert "NaN" not in "".join(contrast)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_a_contrast_without_weight_leaves_role_only_if_it_shares_its_step(run_small: Any) -> None:
    """A separate step applies the momentum of L_class twice, even if the contrast is 0."""
    role = trained_weights(run_small("method=role", "model.dropout=0"))
    shared = trained_weights(run_small("scob.lambda_c=0", "model.dropout=0", "scob.second_step=shared"))
    separate = trained_weights(run_small("scob.lambda_c=0", "model.dropout=0"))
    assert shared.keys() == role.keys()
    assert all(torch.allclose(shared[name], role[name], rtol=1e-4, atol=1e-6) for name in role)
    assert any(not torch.allclose(separate[name], role[name], rtol=1e-2, atol=1e-4) for name in role)


def test_the_same_seed_gives_the_same_bits(run_small: Any) -> None:
    assert same(trained_weights(run_small()), trained_weights(run_small(again=True)))
    assert differing(trained_weights(run_small()), trained_weights(run_small("train.seed=1")))


def test_a_frozen_backbone_is_bit_identical_after_training(run_small: Any, tiny_backbone: Path) -> None:
    given = load_file(tiny_backbone / "model.safetensors")
    for switches, names in (((), ("weight", "bias")), (("model.calibrate_bn=false",), ("",))):
        trained = trained_weights(run_small(*switches))
        kept = {k: v for k, v in given.items() if k.endswith(names)}
        assert len(kept) > 10
        assert all(torch.equal(trained[f"backbone.body.{k}"], v) for k, v in kept.items())
    learnt = trained_weights(run_small("model.freeze=stages"))
    changed = {k for k, v in given.items() if not torch.equal(learnt[f"backbone.body.{k}"], v) and k.endswith("weight")}
    assert changed
    assert all(k.startswith("encoder.stages.2.") for k in changed)


@pytest.mark.parametrize("kind", ["single", "partial"])
def test_nothing_unobserved_is_learnt_from(
    configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The true labels replaced by noise wherever they were not observed: the same weights, bit for bit."""
    words = (f"labels.kind={kind}", "train.holdout=0.2", "data.evaluate=val", "train.epochs=2")
    honest = configure(*words)
    train(honest, tmp_path / "honest")
    observed = Labels.load(tmp_path / "honest" / "labels.safetensors")
    real = scob.training.run_data.open_split
    draw = np.random.default_rng(0)

    def noisy(*arguments: Any, **options: Any) -> Split:
        split = real(*arguments, **options)
        noise = draw.choice(np.array([-1, 1], np.int8), split.labels.values.shape)
        values = noise if split.name != "train" else np.where(observed.values != 0, observed.values, noise)
        labels = Labels(split.labels.classes, split.labels.images, values.astype(np.int8))
        return Split(split.name, labels, split.images, None, expected_positives=split.expected_positives)

    monkeypatch.setattr(scob.training.run_data, "open_split", noisy)
    config = configure(*words, f"labels.file={tmp_path / 'honest' / 'labels.safetensors'}")
    train(config, tmp_path / "noisy")
    assert same(trained_weights(tmp_path / "honest"), trained_weights(tmp_path / "noisy"))
    assert logged(tmp_path / "honest", "class") == logged(tmp_path / "noisy", "class")
    # The noise did reach where it may: the reported figure.
    reported = [(tmp_path / n / "summary.json").read_text() for n in ("honest", "noisy")]
    assert reported[0] != reported[1]


@pytest.mark.parametrize("inserted", [0, 2**24 + 1, 2**28, 2**33])
def test_random_negatives_come_from_a_bank_that_keeps_the_newest(experiment_of: Any, inserted: int) -> None:
    """One node per class: after every step it is from that step, however many insertions there were before."""
    e = experiment_of("scob.contrast=random", "scob.capacity=1", "scob.contrasted=1")
    e.method.begin_epoch(1)
    e.method.tree.inserted.fill_(inserted)
    for batch in batches_of(e, 1):
        e.method.step(batch, e.optimiser)
        held = e.method.tree.ids[batch.chosen, 0]
        assert torch.isin(held, batch.rows).all()


# What a step costs.


@pytest.mark.parametrize(
    ("words", "views"),
    [
        (("scob.positive=self",), 2), ((), 3), (("train.feature_cache=device",), 1),
        (("scob.positive=self", "train.feature_cache=device"), 1), (("scob.contrast=none",), 1),
        (("scob.contrast=none", "train.feature_cache=device"), 0), (("scob.contrast=byol",), 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("share", [1, 0.5])
def test_backbone_forwards_per_step_and_no_backward(
    experiment_of: Any, words: tuple[str, ...], views: int, share: float
) -> None:
    e = experiment_of(*words, f"scob.contrasted={share}")
    seen: list[int] = []

    def watch(module: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
        seen.append(len(inputs[0]))
        assert not any(m.requires_grad for m in output.feature_maps)

    batch = next(batches_of(e, 1))
    e.method.begin_epoch(1)
    before = e.source.forwards
    with (e.source.fast or e.network.backbone).body.register_forward_hook(watch):
        e.method.step(batch, e.optimiser)
    computed = views * len(batch.rows)
    if views and "scob.contrast=none" not in words and "scob.contrast=byol" not in words:
        cached, part = e.source.cache is not None, batch.first(int(share * len(batch.rows)))
        flips = [e.source.views.flips(part.keys, stream) for stream in ("clean", "strong")]
        turned = (flips[0] ^ flips[1]) & (not cached)
        repeated = int((~e.source.views.recoloured(part.keys) & ~turned).sum())  # strong views that are clean views
        clean = 0 if cached else len(batch.rows)
        computed = clean + (views - (not cached)) * len(part.rows) - repeated
    assert sum(seen) == computed
    assert len(seen) <= 2  # views that can go together go together
    assert e.source.forwards - before == views
    assert all(p.grad is None for p in e.network.backbone.parameters())


def test_the_initial_phase_needs_one_forward(experiment_of: Any) -> None:
    e = experiment_of()
    before = e.source.forwards
    e.method.step(next(batches_of(e, 0)), e.optimiser)
    assert e.source.forwards - before == 1


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("scob.negatives=10", "scob.positive=self"),
        ("scob.contrast=random",),
        ("scob.contrast=moco",),
        ("scob.guidance=gt-mask", "scob.optimisation=joint"),
        ("train.estimator=dense", "scob.tree_lifetime=epoch"),
    ],
)
def test_a_step_never_asks_the_device_for_a_value(experiment_of: Any, words: tuple[str, ...]) -> None:
    e = experiment_of(*words)
    batches = batches_of(e, 1)
    e.method.begin_epoch(1)
    e.method.step(next(batches), e.optimiser)
    batch = next(batches)
    assert count_waits(lambda: e.method.step(batch, e.optimiser), e.processes.device) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_step_does_not_wait_for_a_gpu(configure: Any, scenes_of: Any) -> None:
    from scob.parallel import start

    config = configure("train.device=cuda")
    e = scob.training.build.build(config, scenes_of(config), start("cuda"))
    e.method.begin_epoch(1)
    batches = list(batches_of(e, 1))
    for batch in batches[:2]:
        e.method.step(batch, e.optimiser)
    torch.cuda.set_sync_debug_mode("error")
    try:
        e.method.step(batches[2], e.optimiser)
    finally:
        torch.cuda.set_sync_debug_mode("default")


# What a step does.


def test_own_class_and_empty_slots_are_never_negatives(experiment_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    e = experiment_of("scob.negatives=3", "scob.contrasted=1")
    real, seen = scob.algorithm.bootstrap.l_cont, []

    def watch(query: Any, key: Any, negatives: Any, allowed: Any, *rest: Any) -> Any:
        seen.append((negatives, allowed))
        return real(query, key, negatives, allowed, *rest)

    monkeypatch.setattr(scob.algorithm.bootstrap, "l_cont", watch)
    e.method.begin_epoch(1)
    for batch in batches_of(e, 1):
        e.method.step(batch, e.optimiser)
        negatives, allowed = seen[-1]
        by_class = allowed.view(len(batch.rows), -1, 3)
        tree = e.method.tree
        held = (tree.ids[:-1] >= 0).sum(dim=1).clamp(max=3)
        for row, own in enumerate(batch.chosen.tolist()):
            expected = held.clone()
            if own >= 0:
                expected[own] = 0
            assert by_class[row].sum(dim=1).tolist() == expected.tolist()
        used = negatives.view(-1, 3, negatives.shape[1])[by_class.any(dim=0)]
        assert torch.allclose(used.norm(dim=1), torch.ones(len(used)), atol=1e-4)  # no slot of zeros among them


def test_the_target_starts_from_theta_0_and_follows_every_iteration(experiment_of: Any) -> None:
    e = experiment_of()
    m = e.method
    online = [*e.network.head.parameters(), *m.projector.parameters()]
    target = [*m.target.head.parameters(), *m.target.projector.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(online, target, strict=True))
    step_epoch(e, 0)
    assert not all(torch.equal(a, b) for a, b in zip(online, target, strict=True))
    m.begin_epoch(1)
    assert all(torch.equal(a, b) for a, b in zip(online, target, strict=True))
    for batch in batches_of(e, 1):
        e.optimiser.begin(batch.step)
        before = [t.clone() for t in target]
        m.step(batch, e.optimiser)
        for old, new, value in zip(before, target, online, strict=True):
            assert torch.allclose(new, 0.9 * old + 0.1 * value, atol=1e-6)
    held = [t.clone() for t in target]
    m.begin_epoch(1)  # as when a run resumes inside the epoch
    assert all(torch.equal(a, b) for a, b in zip(held, target, strict=True))


@pytest.mark.parametrize("share", [1, 0.5, 0.2])
def test_the_tree_and_the_bank_contain_this_steps_images(experiment_of: Any, share: float) -> None:
    """Those that are contrasted, and no others."""
    e = experiment_of(f"scob.contrasted={share}")
    m = e.method
    m.begin_epoch(1)
    batch = next(batches_of(e, 1))
    m.step(batch, e.optimiser)
    batch = batch.first({1: 8, 0.5: 4, 0.2: 2}[share])
    assert sorted(m.tree.ids[m.tree.ids >= 0].tolist()) == sorted(batch.rows.tolist())
    for row, c in zip(batch.rows.tolist(), batch.chosen.tolist(), strict=True):
        assert row in m.tree.ids[c].tolist()
    stored = m.bank.packed.any(dim=1).nonzero()[:, 0].tolist()
    assert stored
    assert set(stored) <= set(batch.rows.tolist())
    third, fourth = m.bank.load(batch.rows, torch.zeros(len(batch.rows), dtype=torch.bool))
    assert 0 < third.float().mean() < 1
    assert 0 < fourth.float().mean() < 1


def test_an_image_without_a_label_takes_no_part_in_the_contrast(experiment_of: Any) -> None:
    e = experiment_of()
    m = e.method
    m.begin_epoch(1)
    batch = next(batches_of(e, 1))
    batch.chosen[:] = -1
    named = m.step(batch, e.optimiser)
    assert named["contrast"].item() == 0
    assert (m.tree.ids < 0).all()
    assert torch.isfinite(named["class"])
