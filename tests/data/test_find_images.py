"""Which images a user names: files, folders, patterns and a list on stdin."""

import os
from pathlib import Path

import pytest

from scob.data.find_images import find_images, images_below
from scob.errors import UserError


def test_folders_files_patterns_and_stdin_give_each_image_once(tmp_path: Path) -> None:
    for name in ("a.png", "deep/b.JPG", "deep/c.txt", ".hidden.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    a, b = str(tmp_path / "a.png"), str(tmp_path / "deep" / "b.JPG")
    images = find_images([tmp_path])
    assert images.paths == (a, b) and images.skipped == 1
    assert find_images([str(tmp_path / "**" / "*.JPG"), a]).paths == (b, a)
    assert find_images(["-", a], [f"{b}\n", "lost.png\n", "\n"]).paths == (b, "lost.png", a)


@pytest.mark.parametrize("word", ["nowhere", "nothing/*.png"])
def test_a_word_that_names_nothing_is_an_error(word: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=word[:7]):
        find_images([str(tmp_path / word)])


def test_an_empty_folder_is_an_error_that_counts_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UserError, match=r"there are no images in the folder .* \(1 files of other kinds\)"):
        find_images([tmp_path])


def test_an_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "a.png").write_bytes(b"x")
    locked.chmod(0)
    tmp_path.parent.parent.chmod(0o755)
    try:
        child = os.fork()  # root reads everything: the child gives that up
        if not child:
            code = 1
            try:
                if os.geteuid() == 0:
                    os.seteuid(65534)
                images_below(locked)
            except UserError as error:
                code = 0 if "cannot read the folder" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        locked.chmod(0o755)
