"""The structured methods: each one's own mechanism changes what comes out when it is switched off."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scob.errors import UserError
from scob.labels import Labels
from scob.methods.ml_gcn import reweighted
from scob.methods.sarb import Prototypes, blend
from scob.methods.semantics import company, read_vectors
from scob.methods.sst import from_image, from_others, occurrence_loss, similarities, similarity_loss
from scob.methods.structure import GatedGraph
from support.runs import batches_of

PARTIAL = ("labels.kind=partial", "labels.fraction=0.3")


def first_batch(experiment: Any, epoch: int = 0) -> Any:
    return next(iter(batches_of(experiment, epoch)))


def answers(experiment: Any) -> torch.Tensor:
    """Logits of the first batch before any step."""
    e = experiment
    e.method.eval()
    with torch.no_grad():
        return e.method.logits(e.method.clean_features(first_batch(e)))


# What is known of the classes.


def labels_of(values: list[list[int]]) -> Labels:
    array = np.array(values, dtype=np.int8)
    return Labels(tuple("abc")[: array.shape[1]], tuple(f"i{n}" for n in range(len(array))), array)


def test_company_counts_only_what_was_observed() -> None:
    """a is present in 40 images; b is observed in 30 of them, present in 20."""
    values = [[1, 1, 0]] * 20 + [[1, -1, 0]] * 10 + [[1, 0, 0]] * 10 + [[-1, 1, 1]] * 20
    found = company(labels_of(values))
    frequency = 40 / 50  # of b: present in 40 of the 50 images that know it
    assert found[0, 1] == pytest.approx((20 + 5 * frequency) / (30 + 5))
    assert found.diagonal().tolist() == [1, 1, 1]


def test_company_of_single_positives_is_frequency() -> None:
    found = company(labels_of([[1, 0, 0]] * 6 + [[0, 1, 0]] * 3 + [[0, 0, 1]]))
    assert found[0].tolist() == pytest.approx([1, 0.3, 0.1])
    assert found[2].tolist() == pytest.approx([0.6, 0.3, 1])


@pytest.mark.parametrize("kind", ["json", "txt"])
def test_vectors_of_a_file(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"vectors.{kind}"
    if kind == "json":
        file.write_text(json.dumps({"dining_table": [3.0, 4.0], "Dog": [0, 2]}))
    else:
        file.write_text("4 2\ndining table 3 4\ndog 0 2\ncat 9 9\n")
    found = read_vectors(file, ["dog", "dining table"])
    assert torch.allclose(found, torch.tensor([[0, 1], [0.6, 0.8]]))


def test_a_class_of_two_words_is_their_mean(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("dining 1 0\ntable 0 1\n")
    assert torch.allclose(read_vectors(file, ["dining table"]), torch.tensor([[0.5, 0.5]]) * 2**0.5)


@pytest.mark.parametrize(
    ("text", "says"), [("dog 1 2\n", "'cat'"), ("cat 1 2\ndog 1\n", "lengths"), ("cat nan\ndog 1\n", "finite")]
)
def test_vectors_that_will_not_do(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=says):
        read_vectors(file, ["cat", "dog"])
    with pytest.raises(UserError, match="no file"):
        read_vectors(tmp_path / "none.txt", ["cat"])


def test_a_method_says_what_it_knows_of_the_classes(experiment_of: Callable[..., Any], tmp_path: Path) -> None:
    """With a file the vectors are its own and stay; without, they are learned, and the remark says so."""
    learned = experiment_of("method=ssgrl", *PARTIAL)
    file = tmp_path / "vectors.json"
    classes = learned.data.observed.classes
    file.write_text(json.dumps({name: [float(name == other) for other in classes] for name in classes}))
    given = experiment_of("method=ssgrl", *PARTIAL, f"ssgrl.vectors={file}")
    assert "learned" in learned.method.remarks()[0] and "learned" not in given.method.remarks()[0]
    assert learned.network.head.vectors.requires_grad
    assert torch.equal(given.network.head.vectors, torch.eye(16)) and not given.network.head.vectors.requires_grad
    assert "frequencies" in experiment_of("method=ssgrl").method.remarks()[0]


# Graphs.


def test_a_graph_carries_a_node_to_its_neighbours_only() -> None:
    """c has no edge: it does not hear of a change of a; b does."""
    adjacency = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    graph = GatedGraph(adjacency, 4, 1)
    nodes = torch.randn(2, 3, 4)
    changed = nodes.clone()
    changed[:, 0] += 1
    moved = (graph(changed) - graph(nodes)).abs().amax(dim=(0, 2))
    assert moved[1] > 1e-4 and moved[2] == 0


def test_reweighting_by_hand() -> None:
    """a and b are neighbours, c is alone: rows (0.8, 0.2, 0), (0.2, 0.8, 0), (0, 0, 0.8), then degrees 1, 1, 0.8."""
    found = reweighted(torch.tensor([[1, 0.5, 0.1], [0.9, 1, 0.2], [0.3, 0.1, 1]]), 0.4, 0.2)
    assert torch.allclose(found, torch.tensor([[0.8, 0.2, 0], [0.2, 0.8, 0], [0, 0, 1]]), atol=1e-6)


@pytest.mark.parametrize(
    ("method", "off"),
    [
        ("ssgrl", "ssgrl.steps=0"),
        ("kggr", "kggr.steps=0"),
        ("kggr", "kggr.classifier_steps=0"),
        ("ml-gcn", "ml-gcn.propagate=false"),
        ("sst", "sst.steps=0"),
        ("sarb", "sarb.steps=0"),
    ],
)
def test_propagation_changes_the_answer(experiment_of: Callable[..., Any], method: str, off: str) -> None:
    """The same weights, with and without the graph."""
    words = (f"method={method}", *PARTIAL, "ml-gcn.tau=0.05")
    with_graph, without = experiment_of(*words), experiment_of(*words, off)
    state = with_graph.network.state_dict()
    graph = "classifier.adjacency"
    without.network.load_state_dict({**state, graph: without.network.state_dict()[graph]} if graph in state else state)
    assert (answers(with_graph) - answers(without)).abs().max() > 1e-4


def test_every_class_looks_for_itself(experiment_of: Callable[..., Any]) -> None:
    """Attention differs between classes, and hidden cells do not matter."""
    e = experiment_of("method=ssgrl", *PARTIAL)
    features = e.method.clean_features(first_batch(e))
    nodes = e.network.head.represent(features)
    assert (nodes[:, 0] - nodes[:, 1]).abs().max() > 1e-5
    keep = [torch.zeros(len(f), *f.shape[2:], dtype=torch.bool) for f in features]
    for mask in keep:
        mask[:, 0, 0] = True
    hidden = tuple(torch.where(m[:, None], f, f + 7) for f, m in zip(features, keep, strict=True))
    assert torch.equal(e.network.classify(features, tuple(keep)), e.network.classify(hidden, tuple(keep)))


# SST.


def test_occurrence_by_hand() -> None:
    """Pairs with the first label present: (a, b) of image 1, where b is absent. Its logit 0 costs log 2, one of 12."""
    observed = torch.tensor([[1, -1, 0], [-1, -1, 0]])
    logits = torch.zeros(2, 3, 3)
    assert float(occurrence_loss(logits, observed)) == pytest.approx(0.6931 / 12, abs=1e-4)
    logits[0, 0, 1] = -20
    assert float(occurrence_loss(logits, observed)) == pytest.approx(0, abs=1e-6)


def test_labels_from_the_same_image() -> None:
    """c goes with a (0.99) but not with b (0.5): the mean over the known positives decides."""
    pairs = torch.full((1, 3, 3), -9.0)
    pairs[0, 0, 2], pairs[0, 1, 2] = torch.logit(torch.tensor(0.99)), 0.0
    assert from_image(pairs, torch.tensor([[1, 0, 0]]), 0.95).tolist() == [[False, False, True]]
    assert not from_image(pairs, torch.tensor([[1, 1, 0]]), 0.95).any()
    assert not from_image(pairs, torch.tensor([[0, 0, 0]]), 0.95).any()


def test_labels_from_other_images() -> None:
    """Image 1 does not know a but looks just like image 0, which has it; image 2 looks otherwise."""
    nodes = torch.tensor([[[1.0, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]])
    observed = torch.tensor([[1], [0], [0]])
    found = from_others(similarities(nodes), observed, 0.95)
    assert found.tolist() == [[False], [True], [False]]


def test_similarity_loss_by_hand() -> None:
    """Two with the class at cosine 0 (cost 1, both ways), one without, at cosines 1 and 0 to them (cost 2 and 1)."""
    nodes = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])
    found = similarity_loss(similarities(nodes), torch.tensor([[1], [1], [-1]]))
    assert float(found) == pytest.approx((1 + 1 + 2 + 1) / 4)


def test_thresholds_fall_after_the_warm_up(experiment_of: Callable[..., Any]) -> None:
    """From 0.95 by 0.025 an epoch to 0.75; one that begins lower stays."""
    e = experiment_of("method=sst", *PARTIAL, "train.epochs=20", "sst.theta_cross=0.5")
    method = e.method
    assert method.fallen(4) is None and method.fallen(5) == 0
    found = [method.threshold(0.95, method.fallen(epoch)) for epoch in (5, 6, 13, 19)]
    assert found == pytest.approx([0.95, 0.925, 0.75, 0.75])
    assert method.threshold(0.5, method.fallen(19)) == 0.5
    assert method.phase(5) != method.phase(6) and method.phase(14) == method.phase(19)


def test_completed_labels_are_learned_beside_the_known(experiment_of: Callable[..., Any]) -> None:
    """Nothing is alike enough: the term of completed labels is the BCE of the known ones once more."""
    e = experiment_of("method=sst", *PARTIAL, "sst.warm_up=0", "sst.theta_intra=1", "sst.theta_least=1")
    losses = e.method.step(first_batch(e), e.optimiser)
    assert float(losses["intra"]) == pytest.approx(float(losses["bce"]), rel=1e-6)


@pytest.mark.parametrize("off", ["intra", "cross"])
def test_transfer_changes_what_is_learned(experiment_of: Callable[..., Any], off: str) -> None:
    words = ("method=sst", *PARTIAL, "sst.warm_up=0", "sst.theta_intra=0.1", "sst.theta_cross=-1")
    weights = []
    for e in (experiment_of(*words), experiment_of(*words, f"sst.{off}=false")):
        torch.manual_seed(0)
        losses = e.method.step(first_batch(e), e.optimiser)
        assert all(bool(torch.isfinite(v)) for v in losses.values())
        assert (off in losses) == (e.config.method_section("sst").get(off) is not False)
        weights.append(e.network.head.reduce.weight.detach().clone())
    assert not torch.equal(*weights)


# SARB.


def test_blending_by_hand() -> None:
    own, other = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[5.0], [6.0]]])
    found = blend(own, other, torch.tensor([[True, False]]), torch.tensor(0.75))
    assert found.flatten().tolist() == [2.0, 2.0]


def test_a_blend_changes_only_unknown_labels_the_neighbour_has(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=sarb", *PARTIAL)
    nodes = torch.randn(3, 2, e.network.head.dimension)
    observed = torch.tensor([[0, 1], [0, -1], [1, 0]])
    made, where = e.method.with_neighbour(nodes, observed, torch.tensor([True, True, True]))
    assert where.tolist() == [[True, False], [False, False], [False, False]]
    assert torch.allclose(made[0, 0], (nodes[0, 0] + nodes[2, 0]) / 2)
    assert torch.equal(made[1:], nodes[1:])


def test_prototypes_find_two_heaps() -> None:
    """Features around 0 and around 10, two centres: each heap gets its own; a class without positives gets none."""
    torch.manual_seed(1)
    prototypes = Prototypes(2, 2, 3)
    for _ in range(20):
        heaps = torch.where(torch.rand(16, 1) < 0.5, 0.0, 10.0) + torch.randn(16, 3) * 0.1
        nodes = torch.stack((heaps, heaps), dim=1)
        prototypes.learn(nodes, torch.tensor([[True, False]]).expand(16, 2), torch.rand(16, 2))
    centres = prototypes.centres[0].mean(dim=1).sort().values
    assert centres.tolist() == pytest.approx([0, 10], abs=1.0)
    assert prototypes.weight[0].sum() == 320 and not prototypes.weight[1].any()
    assert prototypes.pick(torch.rand(4, 2, 2))[1].tolist() == [[True, False]] * 4


def test_nothing_is_blended_in_the_warm_up(experiment_of: Callable[..., Any]) -> None:
    e = experiment_of("method=sarb", *PARTIAL, "train.epochs=4", "sarb.warm_up=0.5")
    assert not {"instance", "prototype"} & set(e.method.step(first_batch(e, 1), e.optimiser))
    assert {"instance", "prototype"} <= set(e.method.step(first_batch(e, 2), e.optimiser))


@pytest.mark.parametrize("off", ["instance", "prototype"])
def test_blending_changes_what_is_learned(experiment_of: Callable[..., Any], off: str) -> None:
    words = ("method=sarb", *PARTIAL, "sarb.warm_up=0")
    weights = []
    for e in (experiment_of(*words), experiment_of(*words, f"sarb.{off}=false")):
        for batch in list(batches_of(e, 0))[:2]:  # prototypes exist from the second step on
            torch.manual_seed(batch.step)
            losses = e.method.step(batch, e.optimiser)
        assert (off in losses) == (e.config.method_section("sarb").get(off) is not False)
        weights.append(e.network.head.reduce.weight.detach().clone())
    assert not torch.equal(*weights)
