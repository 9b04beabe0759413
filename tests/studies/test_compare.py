"""Comparing methods: one label file, a ranked table with every cell, runs that are not repeated."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scob import methods
from scob.cli import build
from scob.config import Config
from scob.errors import UserError
from scob.labels import Labels
from scob.studies.compare import compare
from scob.training.events import Event, RunBegins, Started
from scob.training.loop import Training
from scob.training.stopping import Interrupted

WORDS = ("data.evaluate=val", "train.epochs=2", "train.batch=16")


@pytest.fixture(scope="module")
def settings(configure: Callable[..., Config]) -> Config:
    return configure(*WORDS)


@pytest.fixture(scope="module")
def compared(settings: Config, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("comparison")
    return out, compare(["an", "role", "full"], settings, out)


def test_every_cell_is_filled_and_the_best_is_first(compared: tuple[Path, list[dict[str, Any]]]) -> None:
    _, rows = compared
    assert {row["name"] for row in rows} == {"an", "role", "full"}
    scores = [row["mAP"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(row["images per second"] > 0 and row["seconds per epoch"] > 0 for row in rows)
    by_name = {row["name"]: row for row in rows}
    if by_name["full"]["mAP"] > by_name["role"]["mAP"]:
        assert by_name["role"]["share"] == 0 and by_name["full"]["share"] == pytest.approx(100)


def test_all_saw_the_same_observed_labels(compared: tuple[Path, list[dict[str, Any]]]) -> None:
    _, rows = compared
    prints = {Labels.load(Path(row["run"]) / "labels.safetensors").fingerprint for row in rows}
    assert len(prints) == 1


def test_files_say_what_the_rows_say(compared: tuple[Path, list[dict[str, Any]]]) -> None:
    out, rows = compared
    stored = json.loads((out / "compare.json").read_text())
    assert [row["name"] for row in stored["rows"]] == [row["name"] for row in rows]
    listed = list(csv.DictReader((out / "compare.csv").open()))
    assert [float(line["mAP"]) for line in listed] == pytest.approx([row["mAP"] for row in rows], abs=1e-3)
    text = (out / "compare.md").read_text()
    assert all(f"| {row['title']} | {row['name']} |" in text for row in rows)
    assert (out / "compare.png").read_bytes()[:4] == b"\x89PNG" and (out / "compare.svg").stat().st_size > 1000


def test_finished_runs_are_reused_and_others_added(
    compared: tuple[Path, list[dict[str, Any]]], settings: Config
) -> None:
    out, before = compared
    told: list[Event] = []
    rows = compare(["an", "hill", "role", "full"], settings, out, listen=told.append)
    begun = [(event.reused, event.name.split("-")[1]) for event in told if isinstance(event, RunBegins)]
    assert begun == [(True, "an"), (False, "hill"), (True, "role"), (True, "full")]
    again = {row["name"]: row["mAP"] for row in rows}
    assert {row["name"]: row["mAP"] for row in before}.items() <= again.items()


def test_changed_settings_are_other_runs(
    compared: tuple[Path, list[dict[str, Any]]], configure: Callable[..., Config]
) -> None:
    out, before = compared
    rows = compare(["an"], configure(*WORDS, "train.lr_other=0.01"), out)
    assert rows[0]["run"] not in {row["run"] for row in before}
    assert rows[0]["share"] is None  # there is no ROLE to measure it by


def test_a_stopped_comparison_goes_on(settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Training.iterate

    def iterate(self: Training, batch: Any) -> None:
        plain(self, batch)
        if self.experiment.config.method == "role" and self.progress.step == 4:
            self.stop.number = 15

    with monkeypatch.context() as patched:
        patched.setattr(Training, "iterate", iterate)
        with pytest.raises(Interrupted):
            compare(["an", "role"], settings, tmp_path)
    starts: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, Started):
            starts.append(event.step)

    rows = compare(["an", "role"], settings, tmp_path, listen=listen)
    assert starts == [4]  # the first is reused, the second continued
    assert len(rows) == 2


def test_seeds_draw_their_own_labels_and_only_the_best_go_on(settings: Config, tmp_path: Path) -> None:
    rows = compare(["an", "wan", "hill"], settings, tmp_path, seeds=2, top=1)
    assert [len(row["seeds"]) for row in rows].count(2) == 1
    assert len(list((tmp_path / "labels").glob("*.safetensors"))) == 2
    best = next(row for row in rows if len(row["seeds"]) == 2)
    assert best["deviation"] is not None


def test_what_cannot_be_compared(settings: Config, configure: Callable[..., Config], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'hil'.*hill"):
        compare(["hil"], settings, tmp_path)
    with pytest.raises(UserError, match="name the methods"):
        compare([], settings, tmp_path)
    with pytest.raises(UserError, match=r"no split 'vall'.*did you mean 'val'"):
        compare(["an"], configure("data.evaluate=vall"), tmp_path)
    with pytest.raises(UserError, match="split to report"):
        compare(["an"], configure("data.evaluate="), tmp_path)


def test_the_verb(
    small_words: tuple[str, ...], tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method of one's own from a folder, partial labels, settings on the line."""
    monkeypatch.setattr(methods, "_registered", dict(methods._registered))
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.py").write_text(
        '"""Mine: as AN."""\nfrom scob.methods.an import AssumeNegative\n\n\n'
        'class Mine(AssumeNegative):\n    name = "mine"\n    title = "My method"\n'
    )
    words = [w for w in (*small_words, *WORDS) if not w.startswith(("data.source", "model.backbone"))]
    given = ["compare", "mine", "an", *words, "--data", "scenes:40x64", "--labels", "partial:0.3"]
    given += ["--backbone", str(tiny_backbone)]
    done = CliRunner().invoke(
        build(), [*given, "--methods-folder", str(own), "--out", str(tmp_path / "out")], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert "My method" in done.output
    stored = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert "partial 0.3" in stored["used"]["Observed labels"]
    assert stored["used"]["Weights"].startswith(tiny_backbone.name)
    assert len({row["mAP"]["mean"] for row in stored["rows"]}) == 1  # the same loss, the same labels, the same result


def test_the_verb_lists_methods() -> None:
    done = CliRunner().invoke(build(), ["compare", "--list"], catch_exceptions=False)
    assert done.exit_code == 0
    assert all(name in done.output for name in ("ll-ct", "sarb", "role-li", "observed-only"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--data", "scenes"], "name the methods"),
        (["an"], "--data"),
        (["an", "--data", "scenes", "--labels", "half"], "--labels half"),
        (["nothing", "--data", "scenes"], "no method 'nothing'"),
        (["an", "--data", "nowhere"], "no data at nowhere"),
    ],
)
def test_the_verb_complains(words: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        CliRunner().invoke(build(), ["compare", *words], catch_exceptions=False)
