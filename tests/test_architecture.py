"""The layers import downwards only, modules stay short, and tests mirror the package."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "scob"
FOUNDATIONS = {
    "__init__", "__main__", "errors", "labels", "config", "presets", "files", "draws", "installation", "launch",
    "parallel", "plugins", "tensor_file",
}  # fmt: skip
LAYERS = {
    "data", "model", "algorithm", "methods", "training", "inference", "recovery", "studies", "bench", "cli",
}  # fmt: skip
LONGEST_MODULE, MOST_PARAMETERS, LONG_SIGNATURES = 300, 7, 8
MODULES = sorted(PACKAGE.rglob("*.py"))


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """import-linter with the contracts of pyproject.toml, on the package in `source`."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--config", ROOT / "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("data/images.py", "import scob.cli"),
        ("algorithm/bootstrap.py", "from scob.training import loop"),
        ("parallel.py", "def lazily():\n    from scob.data import feed"),
        ("training/loop.py", "if False:\n    import scob.studies.demo"),
    ],
)
def test_a_layer_that_imports_a_higher_one_breaks_the_contract(tmp_path: Path, module: str, line: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "scob", ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    with (tmp_path / "scob" / module).open("a") as file:
        file.write(f"\n{line}\n")
    broken = lint_imports(tmp_path)
    assert broken.returncode == 1 and "1 broken" in broken.stdout


def test_the_package_keeps_the_contract() -> None:
    kept = lint_imports(PACKAGE.parent)
    assert kept.returncode == 0 and "1 kept, 0 broken" in kept.stdout, kept.stdout


def test_only_foundations_are_at_the_top() -> None:
    top = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert top == FOUNDATIONS | LAYERS


def test_no_module_is_too_long_to_read() -> None:
    everything = [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")]
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in everything}
    assert {path: length for path, length in lengths.items() if length > LONGEST_MODULE} == {}


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a call may give."""
    a = function.args
    names = [argument.arg for argument in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_few_functions_have_many_parameters() -> None:
    long = [
        f"{path.relative_to(PACKAGE)}: {node.name} ({parameters(node)})"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and parameters(node) > MOST_PARAMETERS
    ]
    assert len(long) <= LONG_SIGNATURES, long


def test_every_module_has_its_test_file() -> None:
    missing = []
    for path in MODULES:
        inside = path.relative_to(PACKAGE)
        has_code = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(path.read_text()).body)
        if path.stem in ("__init__", "__main__") or not has_code:
            continue
        if not (ROOT / "tests" / inside.parent / f"test_{path.stem}.py").is_file():
            missing.append(str(inside))
    assert missing == []
