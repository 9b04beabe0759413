"""`scob bench` as a user runs it."""

import json
from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("data", "--size --split --count --batch --workers --cache --device --json"),
        ("ipt", "--capacities --classes --batch --top --dimension --device --json"),
        ("step", "--batch --size --backbone --repeats --device --json"),
        ("scale", "--most-images --most-classes --batch --steps --folder --json"),
        ("train", "--device --batch --size --backbone --repeats --json"),
        ("predict", "--device --batch --size --backbone --json"),
    ],
)
def test_help_shows_every_option(options_of: Callable[..., list[str]], command: str, options: str) -> None:
    assert options_of("bench", command) == options.split()


def test_trees_as_a_table_and_as_json(scob: Callable[..., tuple[int, str, str]]) -> None:
    words = ("bench", "ipt", "--capacities", "4", "--classes", "2,3", "--dimension", 4, "--device", "cpu")
    code, out, _ = scob(*words)
    assert code == 0
    assert "insert ms" in out and "top ms" in out
    code, out, _ = scob(*words, "--json")
    assert code == 0
    assert [row["classes"] for row in json.loads(out)] == [2, 3]


def test_wrong_uses(refused: Callable[..., str]) -> None:
    assert "'80;800' is not a list of whole numbers" in refused("bench", "ipt", "--capacities", "80;800")
    assert "'0' contains a number below 1" in refused("bench", "train", "--batch", "0")
