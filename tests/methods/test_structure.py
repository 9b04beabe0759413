"""The structured head: a feature for every class, and a graph between the classes."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.methods.structure import GatedCell, GatedGraph
from support.runs import first_batch


def answers(experiment: Any) -> torch.Tensor:
    """Logits of the first batch before any step."""
    e = experiment
    e.method.eval()
    with torch.no_grad():
        return e.method.logits(e.method.clean_features(first_batch(e)))


def test_a_remark_says_where_the_class_vectors_come_from(
    partial_experiment: Callable[..., Any], tmp_path: Path
) -> None:
    """With a file, its vectors are used and fixed; without one, they are learned, and the remark says so."""
    learned = partial_experiment("method=ssgrl")
    file = tmp_path / "vectors.json"
    classes = learned.data.observed.classes
    file.write_text(json.dumps({name: [float(name == other) for other in classes] for name in classes}))
    given = partial_experiment("method=ssgrl", f"ssgrl.vectors={file}")
    assert "learned" in learned.method.remarks()[0] and "learned" not in given.method.remarks()[0]
    assert learned.network.head.vectors.requires_grad
    assert torch.equal(given.network.head.vectors, torch.eye(16)) and not given.network.head.vectors.requires_grad


def test_a_remark_says_what_co_occurrence_was_counted_from(
    experiment_of: Callable[..., Any], partial_experiment: Callable[..., Any]
) -> None:
    """Positives and negatives; several positives per image; one positive per image, which cannot be counted."""
    both, single = partial_experiment("method=ssgrl"), experiment_of("method=ssgrl")
    assert "absent" not in both.method.remarks()[0]
    assert "no image has two observed labels" in single.method.remarks()[0]
    positives = both.method.problem.observed.clamp(min=0)
    both.method.problem = replace(both.method.problem, observed=positives)
    assert "an unknown label is absent" in both.method.remarks()[0]


def test_a_change_of_a_node_reaches_its_neighbours_only() -> None:
    """c has no edge, so a change of a does not reach it; it does reach b."""
    adjacency = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    graph = GatedGraph(adjacency, 4, 1)
    nodes = torch.randn(2, 3, 4)
    changed = nodes.clone()
    changed[:, 0] += 1
    moved = (graph(changed) - graph(nodes)).abs().amax(dim=(0, 2))
    assert moved[1] > 1e-4 and moved[2] == 0


def test_the_gated_cell_is_the_published_one_entry_by_entry() -> None:
    """A naive reference, one number at a time; torch's own cell, which resets after the map, gives another answer."""
    torch.manual_seed(0)
    cell = GatedCell(6, 3, True)
    messages, states = torch.randn(4, 6), torch.randn(4, 3)
    w, u, b = cell.weight_ih.tolist(), cell.weight_hh.tolist(), (cell.bias_ih + cell.bias_hh).tolist()

    def mapped(row: int, a: list[float], h: list[float]) -> float:
        products = [x * y for x, y in zip(w[row], a, strict=True)] + [x * y for x, y in zip(u[row], h, strict=True)]
        return sum(products) + b[row]

    expected = []
    for a, h in zip(messages.tolist(), states.tolist(), strict=True):
        reset = [1 / (1 + math.exp(-mapped(i, a, h))) for i in range(3)]
        update = [1 / (1 + math.exp(-mapped(3 + i, a, h))) for i in range(3)]
        candidate = [math.tanh(mapped(6 + i, a, [r * x for r, x in zip(reset, h, strict=True)])) for i in range(3)]
        expected.append([(1 - z) * x + z * n for z, x, n in zip(update, h, candidate, strict=True)])
    assert torch.allclose(cell(messages, states), torch.tensor(expected), atol=1e-6)
    assert not torch.allclose(torch.nn.GRUCell.forward(cell, messages, states), torch.tensor(expected), atol=1e-3)


@pytest.mark.parametrize("method", ["ssgrl", "kggr", "sst", "sarb"])
def test_a_model_of_an_earlier_version_computes_what_it_was_trained_to(
    partial_experiment: Callable[..., Any], method: str
) -> None:
    """Its recipe does not say `published`: torch's cell, and a tanh on the features before the graph."""
    e = partial_experiment(f"method={method}")
    channels, grids = e.network.backbone.channels, e.method.problem.grids
    recipe = dict(e.network.head.recipe)
    same = type(e.method).rebuild_head(channels, grids, recipe)
    assert recipe.pop("published")
    old = type(e.method).rebuild_head(channels, grids, recipe)
    features = e.method.clean_features(first_batch(e))
    for head in (same, old):
        head.load_state_dict(e.network.head.state_dict())
    nodes = e.network.head.represent(features)
    assert torch.equal(same(features), e.network.head(features))
    assert torch.equal(old.represent(features), nodes.tanh())
    assert type(old.graph.cell).forward is GatedCell.forward and not old.graph.cell.published
    messages, states = torch.randn(5, 2 * old.dimension), torch.randn(5, old.dimension)
    assert torch.equal(old.graph.cell(messages, states), torch.nn.GRUCell.forward(old.graph.cell, messages, states))


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
def test_propagation_changes_the_answer(partial_experiment: Callable[..., Any], method: str, off: str) -> None:
    """The same weights, with and without the graph."""
    words = (f"method={method}", "ml-gcn.tau=0.05")
    with_graph, without = partial_experiment(*words), partial_experiment(*words, off)
    state = with_graph.network.state_dict()
    graph = "classifier.adjacency"
    without.network.load_state_dict({**state, graph: without.network.state_dict()[graph]} if graph in state else state)
    assert (answers(with_graph) - answers(without)).abs().max() > 1e-4


def test_each_class_has_its_own_attention(partial_experiment: Callable[..., Any]) -> None:
    """Attention differs between classes, and hidden cells have no effect."""
    e = partial_experiment("method=ssgrl")
    features = e.method.clean_features(first_batch(e))
    nodes = e.network.head.represent(features)
    assert (nodes[:, 0] - nodes[:, 1]).abs().max() > 1e-5
    keep = [torch.zeros(len(f), *f.shape[2:], dtype=torch.bool) for f in features]
    for mask in keep:
        mask[:, 0, 0] = True
    hidden = tuple(torch.where(m[:, None], f, f + 7) for f, m in zip(features, keep, strict=True))
    assert torch.equal(e.network.classify(features, tuple(keep)), e.network.classify(hidden, tuple(keep)))
