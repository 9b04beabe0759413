"""What is installed, what is missing, and the line that adds it."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import scob
from scob.installation import EXTRAS, explain_missing, install_line, is_installed, report, version_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages(extra: str) -> set[str]:
    """The packages of an extra in pyproject.toml, with those of the extras that it includes."""
    names: set[str] = set()
    for requirement in PROJECT["project"]["optional-dependencies"][extra]:
        included = re.fullmatch(r"scob\[([\w,]+)\]", requirement)
        names |= (
            {name for each in included.group(1).split(",") for name in packages(each)}
            if included
            else {re.split(r"[><=\[]", requirement)[0]}
        )
    return names


def test_the_extras_are_those_of_the_metadata() -> None:
    assert {extra: set(names) for extra, names in EXTRAS.items()} == {extra: packages(extra) for extra in EXTRAS}
    assert packages("all") == {name for names in EXTRAS.values() for name in names}


def test_a_hint_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert install_line("onnx") == "pip install onnx onnxscript"
    assert explain_missing("onnx.helper") == "this needs onnx, which is not installed: pip install onnx onnxscript"
    assert not is_installed("onnx") and is_installed("onnxruntime")


@pytest.mark.parametrize("module", [None, "", "scob.nonsense", "a_package_of_others"])
def test_the_absence_of_anything_else_is_not_explained(module: str | None) -> None:
    assert explain_missing(module) is None


def test_the_report_without_torch_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    lines = list(report())
    assert "torch is not installed: only .onnx models can be used" in lines
    assert "train: no torch (pip install torch)" in lines


def test_a_package_without_metadata_has_no_version(tmp_path: Path) -> None:
    assert version_of("a_package_of_others") == "of unknown version"
    assert re.match(r"\d+\.", version_of("typer"))


def test_the_version_has_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "scob.__version__"}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == scob.__version__
