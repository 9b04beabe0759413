"""docs/methods.md is what the methods say about themselves."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from scob import methods

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("methods_page", ROOT / "scripts" / "methods_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == script.page()


def test_every_method_has_a_section(script: ModuleType) -> None:
    page = script.page()
    ours = [name for name in methods.names() if methods.find(name).__module__.startswith("scob.")]
    assert len(ours) > 20 and all(f"(`{name}`)\n" in page for name in ours)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("q^gamma- * -log(1 - q)", "q<sup>γ-</sup> · -log(1 - q)"),
        ("lambda * ((k-hat - k) / L)^2", "λ · ((k-hat - k) / L)<sup>2</sup>"),
        ("the betalain of `labels.k`", "the betalain of `labels.k`"),
        ("l_q1(p), `a_b^2 * alpha`, see gr_li.py", "l<sub>q1</sub>(p), `a_b^2 * alpha`, see gr_li.py"),
    ],
)
def test_letters_and_products_are_shown_as_such(script: ModuleType, text: str, shown: str) -> None:
    assert script.with_signs(text) == shown


def test_a_paragraph_is_wrapped_anew(script: ModuleType) -> None:
    assert script.rewrapped("Pseudo-\nLabeling") == "Pseudo-Labeling"
    wrapped = script.rewrapped("x" * 117 + " - p")
    assert wrapped == "x" * 117 + "\n\\- p"
