"""What is installed, what is missing, and the line that adds it."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import scob
from scob.installation import CPU_BUILD, EXTRAS, explain_missing, install_line, is_installed, report, version_of

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


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An activated virtual environment: `pip` in the shell is the one beside this Python."""
    for name in ("python", "pip"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_hint_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch, active: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert install_line("onnx") == "pip install onnx onnxscript"
    assert explain_missing("onnx.helper") == "this needs onnx, which is not installed: pip install onnx onnxscript"
    assert not is_installed("onnx") and is_installed("onnxruntime")


def test_a_hint_installs_where_this_scob_is(monkeypatch: pytest.MonkeyPatch, active: Path) -> None:
    assert install_line("predict") == "pip install onnxruntime"
    monkeypatch.setenv("PATH", str(active.parent))  # not activated, or the pip of another Python comes first
    assert install_line("predict") == f"{active / 'python'} -m pip install onnxruntime"
    monkeypatch.setattr(sys, "executable", "/my tools/python")
    assert install_line("predict") == "'/my tools/python' -m pip install onnxruntime"
    monkeypatch.setitem(sys.modules, "pip", None)  # uv makes environments without pip
    assert install_line("predict") == "uv pip install --python '/my tools/python' onnxruntime"
    (active / "pipx_metadata.json").touch()
    assert install_line("predict") == f"pipx inject {active.name} onnxruntime"


def test_a_hint_that_brings_torch_says_how_to_do_without_cuda(monkeypatch: pytest.MonkeyPatch, active: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "platform", "linux")
    gpu = Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()
    line = "this needs torch, which is not installed: pip install torch"
    assert explain_missing("torch.nn") == (line if gpu else f"{line} ({CPU_BUILD})")
    monkeypatch.setattr(sys, "platform", "darwin")  # there, PyTorch comes without CUDA
    assert explain_missing("torch.nn") == line


def test_nothing_suggests_to_install_a_scob_that_is_not_ours() -> None:
    ours = re.compile(r"\b(pip|pipx|uv)\b[^\n`]*\b(install|inject|add)\b[^\n`]*[\s'\"]scob(?![\w.-])")
    assert ours.search("run pip install 'scob[heic]'") and not ours.search("pip install scob-0.1.0-py3-none-any.whl")
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    wrong = [str(page) for page in pages if ours.search(page.read_text(encoding="utf-8"))]
    assert len(pages) > 100 and wrong == []


@pytest.mark.parametrize("module", [None, "", "scob.nonsense", "a_package_of_others"])
def test_the_absence_of_anything_else_is_not_explained(module: str | None) -> None:
    assert explain_missing(module) is None


def test_the_report_without_torch_says_what_is_left(monkeypatch: pytest.MonkeyPatch, active: Path) -> None:
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
