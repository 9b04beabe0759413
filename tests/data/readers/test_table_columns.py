"""Which column is which, and what separates labels: found from all cells, and said in words."""

import pytest

from scob.data.readers.table_columns import Separator, asked_separator, described, find_columns, find_separator
from scob.errors import UserError


def nothing(column: int) -> bool:
    return False


@pytest.mark.parametrize("image", ["image", "filename", "file_name", "image_name", "path", "img_path", "Image"])
@pytest.mark.parametrize("label", ["label", "labels", "tags", "class", "Tags"])
def test_the_usual_names(image: str, label: str) -> None:
    columns = find_columns([label, image], "t.csv", None, nothing)
    assert columns.names == ("label", "image")
    assert (columns.image, columns.label) == (image, label)


def test_a_column_of_states_is_a_class_whatever_its_name() -> None:
    columns = find_columns(["file_name", "tags", "cat"], "t.csv", None, lambda column: column > 0)
    assert columns.names == ("image", "tags", "cat") and not columns.label


def test_other_columns_are_ignored_aloud_but_not_those_that_look_like_labels() -> None:
    columns = find_columns(["image", "label", "width"], "t.csv", None, nothing)
    assert columns.names == ("image", "label", "") and columns.ignored == ("width",)
    assert "ignoring the columns width" in described(columns, Separator(""))
    with pytest.raises(UserError, match="unknown column 'dog'"):
        find_columns(["image", "label", "dog"], "t.csv", None, lambda column: column == 2)


@pytest.mark.parametrize(
    ("cells", "column", "mark"),
    [
        (["car|cup", "cup"], "label", "|"),
        (["car;cup", "cup"], "label", ";"),
        (["car,cup", "dog"], "labels", ","),
        (["haze primary", "agriculture clear primary", "clear haze", "primary"], "tags", " "),
        (["car cup", "car", "cup"], "label", " "),
        (["traffic light", "dining table", "cup", "car"], "label", ""),
        (["traffic light", "dining table", "cup", "car"], "tags", ""),
        (["coat, long", "hat"], "label", ""),
        (["a", "b"], "labels", ""),
    ],
)
def test_separators_are_found_over_the_whole_column(cells: list[str], column: str, mark: str) -> None:
    assert find_separator(cells, column, one_per_row=False).mark == mark
    assert find_separator(cells, column, one_per_row=True).mark == ""


def test_two_words_are_never_one_class_silently() -> None:
    found = find_separator(["car cup", "dog"], "label", one_per_row=False)
    assert found == Separator("", "a cell is one label, as in 'car cup'; if it is several, add --separator 'space'")


def test_the_user_decides() -> None:
    assert asked_separator("auto") is None
    assert asked_separator("none") == Separator("")
    assert asked_separator("space") == Separator(" ")
    assert asked_separator("/") == Separator("/")
    with pytest.raises(UserError, match="--separator 'and' must be one sign"):
        asked_separator("and")


def test_our_own_cells_come_back() -> None:
    assert Separator(";").split(r"a\;b;c; c ;") == ["a;b", "c"]
    assert Separator("").split("a b") == ["a b"]
