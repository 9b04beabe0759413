"""Files: complete or absent, free names, CSV that reads back, plain digits."""

import csv
import errno
import hashlib
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scob.errors import UserError
from scob.files import (
    PART,
    csv_text,
    fingerprint,
    free_path,
    guarded,
    has_locks,
    locked,
    named,
    portable_name,
    remove_dead_parts,
    remove_parts,
    sync_folder,
    unguarded,
    whole_number,
    write_atomically,
)


def test_a_file_is_written_into_a_new_folder_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_atomically(path, "first é")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    write_atomically(path, [b"third", memoryview(b" time")])
    assert path.read_bytes() == b"third time"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")

    for error, expected in (
        (OSError(28, "No space left on device"), r"cannot write .*file\.txt: No space left on device"),
        (MemoryError("no memory"), "no memory"),
    ):

        def fail(handle: int, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises((UserError, MemoryError), match=expected):
            write_atomically(path, "new")
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


def test_unfinished_files_are_removed_and_others_stay(tmp_path: Path) -> None:
    for name in (f".labels.12{PART}", "labels", f"visible{PART}", ".lock"):
        (tmp_path / name).write_text("")
    remove_parts(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "labels", f"visible{PART}"]


def test_a_taken_name_is_numbered_before_the_suffix_of_a_file(tmp_path: Path) -> None:
    assert free_path(tmp_path / "run.v1") == tmp_path / "run.v1"
    (tmp_path / "run.v1").mkdir()
    (tmp_path / "table.csv").write_text("")
    (tmp_path / "table-2.csv").symlink_to("nowhere")
    assert free_path(tmp_path / "run.v1") == tmp_path / "run.v1-2"
    assert free_path(tmp_path / "table.csv") == tmp_path / "table-3.csv"


def test_a_path_gets_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run" / "model")
    assert named(Path()).name == "model"
    assert named(Path("..")).name == "run"
    assert named(Path("other")) == Path("other")


def test_the_fingerprint_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"scob")
    assert fingerprint(tmp_path / "file") == hashlib.sha256(b"scob").hexdigest()


cell = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@given(st.lists(st.lists(cell, min_size=2, max_size=3), max_size=4))
def test_csv_reads_back_whatever_the_cells_contain(rows: list[list[str]]) -> None:
    read = csv.reader(io.StringIO(csv_text(rows), newline=""))
    assert [[unguarded(cell) for cell in row] for row in read] == rows


def test_csv_quotes_only_what_needs_it() -> None:
    assert csv_text([("image", 1), ("a,b", 0.5), ("a\rb", None)]) == 'image,1\n"a,b",0.5\n"a\rb",""\n'


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("", None), ("-1", None), ("²", None), ("٣", None),
     ("1.0", None), (" 1", None), ("1_0", None)],
)  # fmt: skip
def test_only_plain_digits_are_a_whole_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number
    assert whole_number("100", digits=2) is None


@pytest.mark.parametrize("cell", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "'=x", "''-x", "-a.png"])
def test_a_formula_is_guarded_and_comes_back(cell: str) -> None:
    written = next(csv.reader(io.StringIO(csv_text([[cell, "b"]]), newline="")))[0]
    assert written == "'" + cell
    assert unguarded(written) == cell


@pytest.mark.parametrize("cell", ["+1", "-1", "-0.25", "1e-5", "-1e-05", "+3.5 %", "-", "cat", "'tis", "a=b", ""])
def test_numbers_and_plain_text_are_written_as_they_are(cell: str) -> None:
    written = next(csv.reader(io.StringIO(csv_text([[cell, "b"]]), newline="")))[0]
    assert written == cell and unguarded(written) == cell


@given(st.text())
def test_every_cell_comes_back(cell: str) -> None:
    assert unguarded(str(guarded(cell))) == cell


def test_unfinished_files_of_dead_processes_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, own = tmp_path / f".out.csv.{ended.pid}.part", tmp_path / f".out.csv.{os.getpid()}.part"
    living, other = tmp_path / f".out.csv.{os.getppid()}.part", tmp_path / ".notes.part"
    for path in (dead, own, living, other):
        path.touch()
    remove_dead_parts(tmp_path)
    assert set(tmp_path.iterdir()) == {own, living, other}


def test_a_lock_is_refused_while_another_process_holds_it_and_ends_with_that_process(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    code = "import sys; from pathlib import Path; from scob.files import locked\nwith locked(Path(sys.argv[1])): print(flush=True); input()"  # noqa: E501
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.readline()
    with pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    other.kill()
    other.communicate()
    with locked(path, wait=False):
        pass


def test_a_lock_waits_for_the_one_before(tmp_path: Path) -> None:
    order: list[str] = []
    with locked(tmp_path / ".lock"):
        later = threading.Thread(target=lambda: [order.append("second") for _ in [0] if take(tmp_path / ".lock")])
        later.start()
        later.join(0.1)
        order.append("first")
    later.join()
    assert order == ["first", "second"]


def take(path: Path) -> bool:
    with locked(path):
        return True


def test_where_the_file_system_has_no_locks_everybody_goes_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / ".lock", wait=False), locked(tmp_path / ".lock", wait=False):
        pass
    assert not has_locks(tmp_path / ".lock")


def test_a_file_system_with_locks_is_known_by_them_even_while_one_is_held(tmp_path: Path) -> None:
    assert has_locks(tmp_path / ".lock")
    with locked(tmp_path / ".lock"):
        assert has_locks(tmp_path / ".lock")
    with locked(tmp_path / ".lock", wait=False):  # it was given back
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        has_locks(tmp_path / "file" / ".lock")


def test_a_lock_that_cannot_be_written_is_an_error_of_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError), locked(tmp_path / "file" / ".lock"):
        pass


def test_a_folder_is_flushed_only_where_the_system_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    sync_folder(tmp_path)
    assert len(flushed) == 1
    monkeypatch.setattr("scob.files.os.name", "nt")
    sync_folder(tmp_path)
    assert len(flushed) == 1


@pytest.mark.parametrize(
    ("name", "portable"),
    [("dog", "dog"), ("a/b: c?", "a_b_c_"), ("con", "_con"), ("Nul.txt", "_Nul.txt"), ("...", "_"), ("x.", "x"),
     ("console", "console"), ("é", "é"), ("a" * 79 + ".b", "a" * 79)],
)  # fmt: skip
def test_every_system_accepts_a_portable_name(name: str, portable: str) -> None:
    assert portable_name(name) == portable
