"""The trees that are measured are full, and every size is measured."""

import torch

from scob.bench.tree import TreeBench, bench_ipt, full_tree, newcomers


def test_the_tree_is_measured_at_every_size() -> None:
    bench = TreeBench((4, 9), (2, 3), batch=3, count=2, dimension=5, repeats=2, memory=4 * 9 * 4 * 4)
    rows = bench_ipt("cpu", bench)
    assert [(r["capacity"], r["classes"]) for r in rows] == [(4, 2), (4, 3), (9, 2), (9, 3)]
    assert all(r["insert_ms"] > 0 and r["top_ms"] > 0 for r in rows)
    assert [r["dimension"] for r in rows] == [5, 5, 5, 4]  # what fits into the memory


def test_a_full_tree_is_full_and_a_tree() -> None:
    tree = full_tree(3, 4, 2, torch.device("cpu"))
    assert (tree.ids[:-1] >= 0).all()
    tree.insert(torch.tensor([1]), torch.tensor([2.0]), torch.tensor([5]), torch.ones(1, 2))  # a revisit
    assert (tree.ids == 5).sum() == 1
    features, exist = tree.top(1)
    assert exist.all()
    assert features[1, 0].tolist() == [1, 1]


def test_no_image_arrives_twice_in_a_batch_and_half_are_revisits() -> None:
    tree = full_tree(3, 8, 2, torch.device("cpu"))
    batches = newcomers(tree, 6, 20)
    assert len(batches) == 20
    for classes, scores, ids, features in batches:
        assert len(set(ids.tolist())) == len(classes) == len(scores) == len(features) == 6
        assert int((ids < 24).sum()) == 3
