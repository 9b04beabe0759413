"""A run folder with suggestions about drawn images, a server for it, and a browser; suggestions of a trained model."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image, ImageDraw, ImageFilter
from playwright.sync_api import BrowserContext, Page
from pycocotools import mask as coco

from scob.inference.model import InferenceOptions
from scob.recovery.exchange import FORMATS
from scob.recovery.suggest import SuggestionLimits, recover
from scob.recovery.web.app import create_app
from support.review_page import open_page
from support.review_process import KITE, ReviewProcess, chromium, chromium_path
from support.small_model import Small

COLOURS = {"ball": (214, 93, 60), "box": (64, 112, 168), KITE: (226, 178, 58)}
SIZE = (480, 320)


def draw(path: Path, seed: int, shapes: list[tuple[str, tuple[float, float, float, float]]]) -> None:
    """Draw shapes on a meadow."""
    rng = np.random.default_rng(seed)
    sky = np.linspace((176, 206, 226), (222, 231, 222), SIZE[1])[:, None, :].repeat(SIZE[0], axis=1)
    sky[SIZE[1] * 5 // 8 :] = (132, 158, 104)
    image = Image.fromarray((sky + rng.normal(0, 5, sky.shape)).clip(0, 255).astype(np.uint8))
    image = image.filter(ImageFilter.GaussianBlur(0.7))
    pen = ImageDraw.Draw(image)
    for name, (x0, y0, x1, y1) in shapes:
        corners = (x0 * SIZE[0], y0 * SIZE[1], x1 * SIZE[0], y1 * SIZE[1])
        if name == "ball":
            pen.ellipse(corners, fill=COLOURS[name], outline=(120, 44, 24), width=3)
        elif name == "box":
            pen.rounded_rectangle(corners, 8, fill=COLOURS[name], outline=(30, 60, 98), width=3)
        else:
            x, y = (corners[0] + corners[2]) / 2, (corners[1] + corners[3]) / 2
            points = [(x, corners[1]), (corners[2], y), (x, corners[3]), (corners[0], y)]
            pen.polygon(points, fill=COLOURS[name], outline=(140, 100, 20), width=3)
    image.save(path)


def grid_mask(box: tuple[float, float, float, float], round_: bool, cells: int = 28) -> dict[str, object]:
    """The cells of a 28 x 28 grid that a shape covers, as COCO RLE."""
    y, x = (np.mgrid[:cells, :cells] + 0.5) / cells
    x0, y0, x1, y1 = box
    u, v = (x - (x0 + x1) / 2) / ((x1 - x0) / 2), (y - (y0 + y1) / 2) / ((y1 - y0) / 2)
    inside = (u**2 + v**2 <= 1) if round_ else (np.maximum(abs(u), abs(v)) <= 1)
    held = coco.encode(np.asfortranarray(inside.astype(np.uint8)))
    return {"size": list(held["size"]), "counts": held["counts"].decode()}


def make_run(run: Path, count: int = 8) -> Path:
    """Image i shows a known box and, perhaps, a ball or a kite that nobody named; confidence falls with i."""
    folder = run / "recovered"
    (folder / "images").mkdir(parents=True)
    names = list(COLOURS)
    lines, files = [], {}
    for i in range(count):
        missing = names[0] if i % 2 == 0 else names[2]
        at = (0.12 + 0.06 * (i % 5), 0.18 + 0.05 * (i % 3), 0.36 + 0.06 * (i % 5), 0.54 + 0.05 * (i % 3))
        image = f"meadow-{i:02}.png"
        draw(folder / "images" / image, i, [("box", (0.62, 0.5, 0.86, 0.88)), (missing, at)])
        files[image] = f"images/{image}"
        nearest = [
            {"image": f"meadow-{j:02}.png", "score": 0.93 - 0.04 * abs(i - j)} for j in range(i % 2, count, 2) if j != i
        ]
        suggestion = {
            "image": image,
            "class": missing,
            "score": round(0.97 - 0.08 * i, 3),
            "estimate": round(0.9 - 0.06 * i, 3),
            "mask": grid_mask(at, missing == "ball"),
            "box": list(at),
            "nearest": nearest[:4],
            "observed": ["box"],
        }
        lines.append(json.dumps(suggestion))
    (folder / "suggestions.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "images.json").write_text(json.dumps({"root": None, "files": files}))
    return run


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that every test copies."""
    return make_run(tmp_path_factory.mktemp("drawn") / "run")


@pytest.fixture
def run_folder(tmp_path: Path, drawn: Path) -> Path:
    """A run with eight suggestions: four balls, four kites whose name looks like HTML."""
    return Path(shutil.copytree(drawn, tmp_path / "run"))


@pytest.fixture(scope="module")
def shared(drawn: Path, tmp_path_factory: pytest.TempPathFactory):
    """One server for all tests that do not stop it."""
    with ReviewProcess(Path(shutil.copytree(drawn, tmp_path_factory.mktemp("shared") / "run"))) as process:
        yield process


@pytest.fixture
def review(shared: ReviewProcess) -> ReviewProcess:
    """`scob review` as a process, without any decisions yet."""
    (shared.run / "recovered/decisions.jsonl").unlink(missing_ok=True)
    return shared


@pytest.fixture
def client(run_folder: Path):
    """The server without a network."""
    with TestClient(create_app(run_folder), base_url="http://127.0.0.1:8642") as opened:
        yield opened


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    if chromium_path() is None:
        pytest.skip("no Chromium on this machine: the review page is not tested in a browser")
    with chromium() as opened:
        yield opened


@pytest.fixture
def context(browser):
    """A fresh browser context that fails the test on any error in the page."""
    opened = browser.new_context(viewport={"width": 1366, "height": 860})
    problems: list[str] = []
    opened.on("weberror", lambda error: problems.append(str(error.error)))
    yield opened
    opened.close()
    assert not problems, problems


@pytest.fixture
def page(context: BrowserContext, review: ReviewProcess) -> Page:
    return open_page(context, review)


@pytest.fixture(scope="session")
def recovered(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 suggestions for the small run's own images, in every format. Not to be written to."""
    folder = tmp_path_factory.mktemp("recovered")
    recover(
        small.run,
        out=folder,
        formats=FORMATS,
        selection=SuggestionLimits(0.0, 25),
        running=InferenceOptions(device="cpu"),
    )
    return folder
