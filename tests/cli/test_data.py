"""`scob data` as a user runs it: output, exit codes, one sentence for a mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from scob import cli


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8), (200, 10, 10)).save(tmp_path / name)
    path = tmp_path / "labels.csv"
    path.write_text("image,label\na.png,[cat]\nb.png,собака\n")
    return path


def scob(*words: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["scob", *map(str, words)])
    code = 0
    try:
        cli.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_describe(table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    grid = table.parent / "grid.png"
    code, out, _ = scob("data", "describe", table, "--grid", grid, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert "[cat]" in out
    assert "собака" in out
    assert grid.exists()


def test_describe_json(table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = scob("data", "describe", table, "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    found = json.loads(out)
    assert found["classes"] == ["[cat]", "собака"]
    assert found["splits"][0]["statistics"]["images"] == 2


def test_check_exits_with_1_when_something_is_broken(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scob("data", "check", table, capsys=capsys, monkeypatch=monkeypatch)[0] == 0
    (table.parent / "b.png").write_bytes(b"")
    code, out, err = scob("data", "check", table, capsys=capsys, monkeypatch=monkeypatch)
    assert "scob train --images leaves out what cannot be read" in err
    assert code == 1
    assert "b.png (labels.csv row 3): the file is empty" in out.replace("\n", " ")
    code, out, _ = scob("data", "check", table, "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 1
    assert json.loads(out)["good"] == 1


def test_skip_bad_lists(table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (table.parent / "b.png").write_bytes(b"")
    code, _, err = scob("data", "describe", table, "--skip-bad", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert "skipped: " in err
    assert "labels.csv row 3" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "describe", "nowhere"], "there is no data at nowhere"),
        (["data", "describe", "scenes:4x32", "--difficult", "maybe"], "--difficult is 'maybe'"),
        (["data", "describe", "scenes:4x32", "--format", "lmdb"], "there is no reader 'lmdb'"),
        (["data", "download", "imagenet"], "there is no benchmark 'imagenet'"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = scob(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_download_offline_says_what_to_place_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from scob.data import download
    from scob.data.download import Archive, Benchmark

    away = Benchmark((Archive("http://127.0.0.1:9/birds.tgz", "0" * 32),), "CUB")
    monkeypatch.setitem(download.BENCHMARKS, "cub", away)
    code, _, err = scob("data", "download", "cub", "--to", tmp_path, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2
    assert "birds.tgz" in err.replace("\n", "")
    assert "place it at" in err


def test_importing_the_verb_imports_nothing_heavy() -> None:
    code = "import sys, scob.cli.data, scob.cli.bench; sys.exit(any(m in sys.modules for m in ('torch', 'kornia')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_report(table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = table.parent / "report.html"
    code, out, err = scob("data", "report", table, "--out", page, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0 and "images that cannot be read" in out
    assert err.startswith("taken as: a table, images in the column 'image'") and page.is_file()
