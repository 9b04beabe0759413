"""The public interface is typed for real: a type checker refuses a wrong call and accepts the README's."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import scob

ROOT = Path(__file__).parents[1]


def mypy(code: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """What mypy, as strict as for the package itself, says about a user's script."""
    script = folder / "script.py"
    script.write_text(code)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_wrong_call_is_refused(tmp_path: Path) -> None:
    refused = mypy('import scob\n\nscob.train("nonsense", 3, bogus=True)\n', tmp_path)
    assert refused.returncode == 1
    for complaint in (
        'Unexpected keyword argument "bogus" for "train"',
        'Argument 1 to "train" has incompatible type "str"; expected "Config"',
        'Argument 2 to "train" has incompatible type "int"; expected "Path"',
    ):
        assert complaint in refused.stdout


def test_a_name_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    refused = mypy("import scob\n\nscob.trian\n", tmp_path)
    assert refused.returncode == 1 and "has no attribute" in refused.stdout


def test_the_python_of_the_readme_is_accepted(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert blocks
    accepted = mypy("\n".join(blocks), tmp_path)
    assert accepted.returncode == 0, accepted.stdout


def test_each_public_name_is_imported_for_type_checkers_from_the_module_that_defines_it() -> None:
    source = Path(scob.__file__).read_text(encoding="utf-8")
    typed = {
        name: module
        for module, name, again in re.findall(r"from ([\w.]+) import (\w+) as (\w+)", source)
        if name == again
    }
    assert typed == scob._HOME
    for name, module in typed.items():
        assert getattr(importlib.import_module(module), name) is getattr(scob, name)
        assert getattr(scob, name).__module__.startswith("scob.")


def test_the_readme_names_only_what_exists() -> None:
    named = set(re.findall(r"`scob\.([a-zA-Z_]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named and named <= set(dir(scob))


def test_the_reference_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: ([\w.]+)\.(\w+)$", page, re.M)
    assert sorted((name, module) for module, name in listed) == sorted(scob._HOME.items())
