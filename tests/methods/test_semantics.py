"""Class vectors from a file, and co-occurrence counted from observed labels."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from scob.errors import UserError
from scob.labels import Labels
from scob.methods.semantics import co_occurrence, read_vectors


def labels_of(values: list[list[int]]) -> Labels:
    array = np.array(values, dtype=np.int8)
    return Labels(tuple("abc")[: array.shape[1]], tuple(f"i{n}" for n in range(len(array))), array)


def test_co_occurrence_counts_only_what_was_observed() -> None:
    """a is present in 40 images; b is observed in 30 of them, present in 20."""
    values = [[1, 1, 0]] * 20 + [[1, -1, 0]] * 10 + [[1, 0, 0]] * 10 + [[-1, 1, 1]] * 20
    conditional = co_occurrence(labels_of(values))
    frequency = 40 / 50  # of b: present in 40 of the 50 images that know it
    assert conditional[0, 1] == pytest.approx((20 + 5 * frequency) / (30 + 5))
    assert conditional.diagonal().tolist() == [1, 1, 1]


def test_co_occurrence_of_positives_alone_divides_by_the_count_of_the_class() -> None:
    """200 images with a, 50 of them with b, none with c; b alone in 150. A naive count, shrunk by five images."""
    values = [[1, 1, 0]] * 50 + [[1, 0, 0]] * 150 + [[0, 1, 0]] * 150 + [[0, 0, 1]] * 50
    conditional = co_occurrence(labels_of(values))
    for c in range(3):
        having = [row for row in values if row[c] == 1]
        for d in {0, 1, 2} - {c}:
            frequency = sum(row[d] == 1 for row in values) / len(values)
            expected = (sum(row[d] == 1 for row in having) + 5 * frequency) / (len(having) + 5)
            assert conditional[c, d] == pytest.approx(expected)
    assert conditional[0, 1] == pytest.approx(50 / 200, abs=0.01) and conditional[0, 2] < 0.01


def test_a_class_without_negatives_divides_by_the_count_among_classes_with_them() -> None:
    """Only b is ever observed absent: P(b | a) counts the images that know b, P(c | a) all images with a."""
    conditional = co_occurrence(labels_of([[1, 1, 0]] * 30 + [[1, -1, 1]] * 10 + [[1, 0, 0]] * 60))
    assert conditional[0, 1] == pytest.approx((30 + 5 * 30 / 40) / (40 + 5))
    assert conditional[0, 2] == pytest.approx((10 + 5 * 10 / 100) / (100 + 5))


def test_co_occurrence_of_single_positives_is_frequency() -> None:
    conditional = co_occurrence(labels_of([[1, 0, 0]] * 6 + [[0, 1, 0]] * 3 + [[0, 0, 1]]))
    assert conditional[0].tolist() == pytest.approx([1, 0.3, 0.1])
    assert conditional[2].tolist() == pytest.approx([0.6, 0.3, 1])


@pytest.mark.parametrize("kind", ["json", "txt"])
def test_vectors_are_read_from_a_file(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"vectors.{kind}"
    if kind == "json":
        file.write_text(json.dumps({"dining_table": [3.0, 4.0], "Dog": [0, 2]}))
    else:
        file.write_text("4 2\ndining table 3 4\ndog 0 2\ncat 9 9\n")
    vectors = read_vectors(file, ["dog", "dining table"])
    assert torch.allclose(vectors, torch.tensor([[0, 1], [0.6, 0.8]]))


def test_a_class_of_two_words_is_the_mean_of_its_words(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("dining 1 0\ntable 0 1\n")
    assert torch.allclose(read_vectors(file, ["dining table"]), torch.tensor([[0.5, 0.5]]) * 2**0.5)


@pytest.mark.parametrize(
    ("text", "message"), [("dog 1 2\n", "'cat'"), ("cat 1 2\ndog 1\n", "lengths"), ("cat nan\ndog 1\n", "finite")]
)
def test_unusable_vectors_are_errors(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        read_vectors(file, ["cat", "dog"])
    with pytest.raises(UserError, match="no file"):
        read_vectors(tmp_path / "none.txt", ["cat"])
