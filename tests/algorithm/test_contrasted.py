"""The share of a batch that is contrasted: which images these are, and that nothing else changes."""

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from scob.algorithm.bootstrap import Bootstrap
from scob.algorithm.sampling import Plan, to_device
from scob.config import ScobSettings
from scob.labels import Labels
from scob.parallel import Processes
from support.runs import batches_of, step_epoch


def one_class(images: int) -> Labels:
    return Labels(("a",), tuple(str(n) for n in range(images)), np.ones((images, 1), np.int8))


def parts_of(share: float, batch: int, images: int, processes: int, pad: bool) -> list[Any]:
    """What each process contrasts of the only batch of an epoch."""
    parts = []
    for rank in range(processes):
        method = Bootstrap.__new__(Bootstrap)
        torch.nn.Module.__init__(method)
        together = Processes()
        together.count, together.rank = processes, rank
        together.total = lambda value: torch.tensor(images)  # type: ignore[method-assign]
        method.settings = ScobSettings(contrasted=share)
        method.problem = SimpleNamespace(processes=together, images=images)  # type: ignore[assignment]
        planned = next(Plan(one_class(images), batch, 0, rank, processes, pad).epoch(0))
        parts.append(method.contrasted(to_device(planned, 0, 0, torch.device("cpu"))))
    return parts


@pytest.mark.parametrize(("processes", "pad"), [(1, False), (1, True), (2, False), (2, True), (3, True)])
@pytest.mark.parametrize("share", [0.001, 0.07, 0.3, 0.5, 0.6, 0.999])
@pytest.mark.parametrize(("batch", "images"), [(8, 8), (7, 7), (8, 5), (8, 1), (1, 1), (82, 82), (128, 82), (100, 100)])
def test_any_processes_contrast_the_first_images_of_a_batch(
    share: float, batch: int, images: int, processes: int, pad: bool
) -> None:
    """All of them the same images, each with the same weight, with and without padding."""
    parts = parts_of(share, batch, images, processes, pad)
    assert len({len(part.rows) for part in parts}) == 1
    dealt = torch.stack([part.rows for part in parts], dim=1).flatten()
    weights = torch.stack([part.weight for part in parts], dim=1).flatten()
    chosen = torch.stack([part.chosen for part in parts], dim=1).flatten()
    wanted = math.ceil(Fraction(str(share)) * images)
    order = next(Plan(one_class(images), batch, 0).epoch(0)).rows[:wanted]
    assert dealt[:wanted].tolist() == order.tolist()
    assert torch.allclose(weights[:wanted], torch.tensor(1 / wanted)) and (chosen[:wanted] == 0).all()
    assert (dealt[wanted:] == images).all() and (weights[wanted:] == 0).all() and (chosen[wanted:] == -1).all()


def test_a_smaller_batch_is_contrasted_in_part_too(experiment_of: Any) -> None:
    """The trial steps after a step that ran out of memory must need what a run with that batch would."""
    e = experiment_of("scob.contrasted=0.5")
    batch = next(batches_of(e, 1))
    assert [len(e.method.contrasted(batch.first(count)).rows) for count in (8, 4, 2, 1)] == [4, 2, 1, 1]


def state_of(experiment: Any) -> dict[str, torch.Tensor]:
    """What a method has learnt, without rows for padding, and of the tree its nodes, by class and image.

    Padding counts in the ages of nodes, and which of several empty slots a node gets depends on the length of a batch.
    """
    images, tree = experiment.plan.count, experiment.method.tree
    state = {k: v.clone() for k, v in experiment.method.state_dict().items() if not k.startswith("tree.")}
    state = {k: v[:images] if v.ndim and len(v) == images + 1 else v for k, v in state.items()}
    classes, slots = (tree.ids >= 0).nonzero().unbind(1)
    ids = tree.ids[classes, slots]
    order = (classes * images + ids).argsort()
    classes, slots = classes[order], slots[order]
    nodes = {"classes": classes, "ids": ids[order]}
    return {**state, **nodes, "scores": tree.scores[classes, slots], "features": tree.features[classes, slots]}


VARIANTS = (
    (), ("train.feature_cache=host",), ("model.freeze=none",), ("scob.positive=self",), ("scob.contrast=random",),
    ("scob.optimisation=two-stage",), ("scob.guidance=none",), ("scob.guidance=gt-mask", "scob.cam_dropout=true"),
    ("scob.mask_classification=true", "scob.cam_source=each"), ("model.head=cnn",),
    ("method=pairs", "pairs.contrast=true"),
)  # fmt: skip


@pytest.mark.parametrize("words", VARIANTS)
def test_a_share_that_keeps_every_image_changes_nothing(experiment_of: Any, words: tuple[str, ...]) -> None:
    whole, all_kept = (experiment_of(*words, f"scob.contrasted={share}") for share in (1, 0.999))
    batch = next(batches_of(whole, 1))
    assert whole.method.contrasted(batch) is batch and all_kept.method.contrasted(batch) is not batch
    for e in (whole, all_kept):
        step_epoch(e, 1)
    ours, papers = state_of(all_kept), state_of(whole)
    for name, value in papers.items():
        torch.testing.assert_close(ours[name], value, atol=1e-5, rtol=0, msg=name)


@pytest.mark.parametrize("words", VARIANTS)
def test_half_of_a_batch_is_contrasted_as_a_batch_of_its_own(experiment_of: Any, words: tuple[str, ...]) -> None:
    """In a joint step, the contrastive loss does not depend on the other half."""
    words = ("model.dropout=0", "scob.optimisation=joint", *(w for w in words if "optimisation" not in w))
    half, whole = experiment_of(*words, "scob.contrasted=0.5"), experiment_of(*words, "scob.contrasted=1")
    batch = next(batches_of(half, 1))
    alone = batch.first(4)
    alone.weight = torch.full((4,), 1 / 4)
    losses, expected = (e.method.step(b, e.optimiser) for e, b in ((half, batch), (whole, alone)))
    assert expected["contrast"] > 0 and losses["class"] != expected["class"]
    assert ("masked" in losses) == ("scob.mask_classification=true" in words)
    for name in {"contrast", "masked"} & losses.keys():
        torch.testing.assert_close(losses[name], expected[name], atol=1e-6, rtol=1e-5)
    ours, theirs = state_of(half), state_of(whole)
    for name in ("classes", "ids", "scores", "features", "bank.packed"):
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=1e-5, msg=name)


def test_half_of_a_batch_against_a_plain_computation_of_eq_8(
    experiment_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    e = experiment_of("scob.contrasted=0.5")
    queries, keys = [], []
    for name, kept in (("query", queries), ("positive_key", keys)):
        own = getattr(e.method, name)
        monkeypatch.setattr(e.method, name, lambda *given, own=own, kept=kept: kept.append(own(*given)) or kept[-1])
    e.method.begin_epoch(1)
    s, tree = e.method.settings, e.method.tree
    for batch in batches_of(e, 1):
        contrast = e.method.step(batch, e.optimiser)["contrast"].item()
        nodes, exist = tree.top(s.negatives)
        terms = []
        for query, key, own in zip(queries[-1], keys[-1], batch.chosen[:4].tolist(), strict=True):
            against = [nodes[c, t] for c, t in exist.nonzero().tolist() if c != own]
            scores = torch.stack([key, *against]) @ query.detach() / s.tau
            terms.append(-scores.log_softmax(0)[0].item() / math.sqrt(tree.classes))
        assert contrast == pytest.approx(s.lambda_c * sum(terms) / 4, rel=1e-4)


@pytest.mark.parametrize("share", [1, 0.5, 0.4])
@pytest.mark.parametrize(
    "words", [(), ("train.feature_cache=host",), ("scob.positive=self", "scob.mask_classification=true")]
)
def test_a_padded_batch_is_the_batch(experiment_of: Any, words: tuple[str, ...], share: float) -> None:
    """The last of four batches has 4 images, padded to 12."""
    words = ("train.batch=12", "model.dropout=0", f"scob.contrasted={share}", *words)
    plain, padded = experiment_of(*words), experiment_of(*words)
    padded.plan.pad = True
    for e in (plain, padded):
        for epoch in (1, 2):
            step_epoch(e, epoch)
    short, filled = list(batches_of(plain, 2))[-1], list(batches_of(padded, 2))[-1]
    assert (len(short.rows), len(filled.rows)) == (4, 12)
    ours, theirs = state_of(padded), state_of(plain)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, atol=1e-4, rtol=0, msg=name)
