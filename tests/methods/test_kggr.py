"""The second graph of KGGR: classifiers that learn from the classes they occur with."""

import torch

from scob.methods.kggr import GuidedClassifier


def test_each_class_is_scored_by_its_own_propagated_weights() -> None:
    torch.manual_seed(0)
    classifier = GuidedClassifier(torch.rand(3, 3), 4, steps=2)
    torch.nn.init.normal_(classifier.bias)
    features = torch.randn(2, 3, 4)
    weights, scores = classifier.graph(classifier.weight), classifier(features)
    assert scores.shape == (2, 3)
    for image in range(2):
        for c in range(3):
            by_hand = features[image, c] @ weights[c] + classifier.bias[c]
            assert torch.allclose(scores[image, c], by_hand, atol=1e-6)


def test_a_classifier_learns_from_its_neighbour() -> None:
    """a is connected to b, c is alone: the score of a has a gradient at the weights of b, not at those of c."""
    adjacency = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    classifier = GuidedClassifier(adjacency, 4, steps=1)
    classifier(torch.randn(1, 3, 4))[0, 0].backward()
    assert classifier.weight.grad is not None
    assert classifier.weight.grad[1].any() and not classifier.weight.grad[2].any()
