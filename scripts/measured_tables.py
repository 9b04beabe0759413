"""Tables in the documentation that a script measures: each is between two marks, and only the script writes there."""

from pathlib import Path


def put_table(page: Path, name: str, table: str) -> None:
    """Replace what is between `<!-- measured: NAME -->` and `<!-- end -->`."""
    before, mark, rest = page.read_text(encoding="utf-8").partition(f"<!-- measured: {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise SystemExit(f"{page} has no place for the table {name!r}")
    page.write_text(f"{before}{mark}{table.strip()}\n{end}{after}", encoding="utf-8")
