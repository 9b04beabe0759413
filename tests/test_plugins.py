"""Methods, readers and backbones of another package: the example package, really installed, and what can go wrong."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from scob import plugins as module
from scob.errors import UserError
from scob.plugins import check_names, load_plugin, owner, plugins

EXAMPLE = Path(__file__).parent / "example_package"
Environment = dict[str, str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of a process that has the example package, installed by pip into a folder."""
    root = tmp_path_factory.mktemp("plugins")
    source, target = root / "source", root / "packages"
    subprocess.run([sys.executable, "-c", "import shutil, sys; shutil.copytree(*sys.argv[1:])", EXAMPLE, source])
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", target, source], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join([str(target), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "TMPDIR": str(root), "COLUMNS": "200"}


def scob(environment: Environment, *words: object) -> subprocess.CompletedProcess[str]:
    """`scob WORDS` with that environment."""
    command = [sys.executable, "-m", "scob", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def write_lines(folder: Path) -> Path:
    """A data set that only the example's reader reads: 24 drawn scenes."""
    from PIL import Image

    from scob.data.readers import open_split

    scenes = open_split("scenes:24x64", "train")
    (folder / "images").mkdir(parents=True)
    lines = []
    for row, values in enumerate(scenes.labels.values):
        Image.fromarray(scenes.images.load(row)).save(folder / "images" / f"{row}.png")
        present = [name for name, value in zip(scenes.labels.classes, values, strict=True) if value == 1]
        lines.append(",".join([f"{row}.png", *present]))
    (folder / "labels.txt").write_text("\n".join(lines))
    return folder


def test_an_installed_package_adds_a_method_a_reader_and_a_backbone(installed: Environment, tmp_path: Path) -> None:
    source, run = write_lines(tmp_path / "data"), tmp_path / "run"
    listed = scob(installed, "compare", "--list")
    assert "Confident negatives" in listed.stdout and "BCE that leaves out doubtful unknown labels." in listed.stdout
    words = (
        f"data.source={source}", "data.size=64", "data.workers=0", "data.evaluate=none", "method=confident",
        "confident.limit=0.4", "model.backbone=two-convolutions", "model.width=16", "model.heads=2", "model.layers=1",
        "model.feedforward=16", "train.epochs=1", "train.batch=8", "train.device=cpu",
    )  # fmt: skip
    trained = scob(installed, "train", *words, "--out", run)
    assert trained.returncode == 0, trained.stderr
    predicted = scob(installed, "predict", run, source / "images" / "0.png", "--topk", 1, "--device", "cpu")
    assert predicted.returncode == 0 and len(predicted.stdout.splitlines()) == 2, predicted.stderr


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    refused = scob(environment, "train", "method=confident", "--out", tmp_path / "run")
    assert refused.returncode == 2 and "there is no method 'confident'" in refused.stderr


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points as if packages offered them, read anew."""
    offered: list[EntryPoint] = []
    monkeypatch.setattr(module, "entry_points", lambda group: [e for e in offered if e.group == group])
    plugins.cache_clear()
    yield offered
    plugins.cache_clear()


def test_names_that_clash_are_refused(offer: list[EntryPoint]) -> None:
    offer.append(EntryPoint("role", "theirs.module:Role", "scob.methods"))
    with pytest.raises(UserError, match=r"offers 'role' under scob.methods, but Scob has one of that name"):
        check_names("methods", ["role"])
    check_names("methods", ["scob"])
    offer.append(EntryPoint("role", "others:Role", "scob.methods"))
    plugins.cache_clear()
    with pytest.raises(UserError, match=r"two packages offer 'role' under scob.methods, theirs.*uninstall one"):
        plugins("methods")


def test_a_package_that_cannot_be_imported_is_named(offer: list[EntryPoint]) -> None:
    broken = EntryPoint("mine", "no_such_package.module", "scob.readers")
    assert owner(broken) == "no_such_package.module"
    with pytest.raises(UserError, match=r"'mine' of the package .* cannot be loaded \(ModuleNotFoundError: No module"):
        load_plugin(broken)


def test_what_does_not_fit_is_refused_in_words(offer: list[EntryPoint]) -> None:
    from scob import methods
    from scob.data.readers import reader, reader_names
    from scob.model.embedded import backbone_path

    offer += [
        EntryPoint("path", "pathlib:Path", "scob.methods"),
        EntryPoint("path", "pathlib", "scob.readers"),
        EntryPoint("path", "pathlib:Path", "scob.backbones"),
        EntryPoint("name", "os:getpid", "scob.backbones"),
    ]
    assert reader_names()[-3:] == ["path", "table", "folder"]
    with pytest.raises(UserError, match="must be a subclass of Method whose name is 'path'"):
        methods.find("path")
    with pytest.raises(UserError, match="lacks one of recognises, splits and read"):
        reader("path")
    with pytest.raises(UserError, match=r"'name' under scob.backbones must be a function that returns a folder"):
        backbone_path("name")
