"""Suggestions as Label Studio tasks."""

from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

from scob.recovery.label_studio_tasks import as_label_studio, document_root, label_studio_config
from scob.recovery.suggestion import Suggestion


def test_a_task_has_what_is_known_and_what_is_suggested() -> None:
    files = {"cat/a b.png": "/home/me/photos/cat/a b.png", "dog/c.png": "/home/me/photos/dog/c.png"}
    sizes = dict.fromkeys(files, (10, 20))
    first = Suggestion("cat/a b.png", "cup", 0.9, 0.8, observed=("cat",))
    task, other = as_label_studio([first, Suggestion("dog/c.png", "cup", 0.9, 0.8)], files, sizes)
    assert task["predictions"][0]["result"][0]["value"]["choices"] == ["cat", "cup"]
    assert task["data"]["known"] == "cat" and other["data"]["known"] == "nothing"
    assert document_root(files) == ("/home/me", "/home/me/photos")
    assert parse_qs(urlsplit(task["data"]["image"]).query) == {"d": ["photos/cat/a b.png"]}


def test_names_that_xml_does_not_allow_still_make_xml() -> None:
    tree = ElementTree.fromstring(label_studio_config(["cat\x1b[31m", "a\x00b", "fine"]))
    assert [label.get("value") for label in tree.iter("Choice")] == ["cat\ufffd[31m", "a\ufffdb", "fine"]
