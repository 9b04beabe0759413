"""A report names what is wrong with a data set, and is one page that needs nothing else."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.data.report import data_report
from scob.errors import UserError


def paint(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 255, (60, 80, 3), dtype=np.uint8)).resize((160, 120)).save(path)


def test_everything_that_is_wrong_is_found(tmp_path: Path) -> None:
    rows = ["image,label,split"]
    for n in range(12):
        paint(tmp_path / f"{n}.png", n)
        rows.append(f"{n}.png,{'<cat>' if n % 2 else 'dog'},{'train' if n < 9 else 'val'}")
    rows.append("0.png,sofa,train")
    for name, seed in (("copy.png", 1), ("leak.png", 2)):
        paint(tmp_path / name, seed)
    rows += [
        "copy.png,<cat>,train",
        "leak.png,dog,val",
        "bare.png,,train",
        "broken.png,dog,train",
        "gone.png,dog,train",
    ]
    paint(tmp_path / "bare.png", 99)
    (tmp_path / "broken.png").write_bytes(b"no")
    Image.new("RGB", (160, 120), (3, 3, 3)).save(tmp_path / "11.png")
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    report = data_report(str(tmp_path / "t.csv"), tmp_path / "out" / "report.html")
    counts = {finding.name: len(finding.images) for finding in report.findings}
    assert counts == {"leakage": 2, "duplicates": 2, "broken": 1, "blurred": 0, "dark": 1, "unlabelled": 1}
    page = report.page.read_text()
    for part in ("What to do: remove them from all splits but one", "&lt;cat&gt;", "dog and sofa", "train: bare.png",
                 "Taken as: a table", "fewer than 10 images", ">1 image that is almost black.<",
                 ">No image that is far less sharp than most.<", ">2 images that are in several splits.<"):  # fmt: skip
        assert part in page, part
    assert "<cat>" not in page and not re.search(r'(src|href)="(?!data:)', page)


def test_nothing_to_report_on(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image,label\ngone.png,cat\n")
    with pytest.raises(UserError, match="no row can be used"):
        data_report(str(tmp_path / "t.csv"), tmp_path / "r.html")
