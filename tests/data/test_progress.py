"""Parts of a task report under their names."""

from scob.data.progress import NamedProgress, part


def test_a_part_is_announced_and_reports_under_its_name() -> None:
    heard: list[tuple[str, int, int]] = []
    first = NamedProgress(lambda *report: heard.append(report), "reading")
    first(1, 2)
    second = part(first, "scoring")
    assert second is not None
    second(3, 4)
    assert heard == [("reading", 1, 2), ("scoring", 0, 0), ("scoring", 3, 4)]


def test_a_plain_function_has_no_parts() -> None:
    def plain(done: int, total: int) -> None: ...

    assert part(plain, "scoring") is plain and part(None, "scoring") is None
