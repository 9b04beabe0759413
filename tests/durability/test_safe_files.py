"""No file can do harm: no code in it is run, and sizes it claims are checked before memory is allocated."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from scob.config import load_config
from scob.data.download import unpack
from scob.data.images import MAX_PIXELS, decode
from scob.data.readers import voc
from scob.data.readers.coco import read as read_coco
from scob.data.split import ReadOptions
from scob.errors import UserError
from scob.labels import Labels
from scob.model.load_backbone import load_backbone
from scob.training.checkpoint import read_checkpoint
from scob.training.model_folder import load_network
from scob.training.train import train


class Evil:
    """A pickle that would run a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("form", ["zip", "legacy", "plain pickle"])
def test_a_malicious_pickle_is_not_run(tmp_path: Path, faults: Any, form: str) -> None:
    mark, path = tmp_path / "struck", tmp_path / "weights.pth"
    evil = {"conv1.weight": torch.zeros(1), "more": Evil(mark)}
    if form == "plain pickle":
        path.write_bytes(pickle.dumps(evil))
    else:
        torch.save(evil, path, _use_new_zipfile_serialization=form == "zip")
    with faults.inject("malicious pickle", told=True):
        with pytest.raises(UserError, match=r"more than tensors|cannot read the weights"):
            load_backbone(str(path))
        assert not mark.exists()
        pickle.loads(path.read_bytes()) if form == "plain pickle" else None
        assert mark.exists() == (form == "plain pickle")  # loading it would have run the command


def test_compressed_weights_are_not_unpacked(tmp_path: Path, faults: Any) -> None:
    plain, path = tmp_path / "plain.pth", tmp_path / "packed.pth"
    torch.save({"conv1.weight": torch.zeros(1 << 22)}, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert path.stat().st_size < plain.stat().st_size / 100
    with faults.inject("archive bomb", told=True), pytest.raises(UserError, match="packed archive"):
        load_backbone(str(path))


def test_no_pickle_is_loaded_anywhere() -> None:
    """Every `torch.load` says weights_only, and nothing else in the package unpickles a file."""
    for path in (Path(__file__).parents[2] / "src").rglob("*.py"):
        text = path.read_text()
        assert "pickle.load" not in text, path
        assert "allow_pickle=True" not in text, path
        assert "yaml.unsafe" not in text and "FullLoader" not in text, path
        for piece in text.split("torch.load(")[1:]:
            assert "weights_only=True" in piece.split("\n")[0], path


def test_a_pickle_in_a_model_folder_is_not_even_opened(tiny_backbone: Path, tmp_path: Path, faults: Any) -> None:
    folder, mark = tmp_path / "backbone", tmp_path / "struck"
    folder.mkdir()
    (folder / "config.json").write_bytes((tiny_backbone / "config.json").read_bytes())
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(mark)))
    with faults.inject("malicious pickle", told=True):
        with pytest.raises(UserError, match="cannot load the backbone"):
            load_backbone(str(folder))
        assert not mark.exists()


@pytest.mark.parametrize("claim", [2**20, 2**40, 2**63])
def test_a_header_larger_than_its_file_is_refused(tmp_path: Path, faults: Any, claim: int) -> None:
    path = tmp_path / "file.safetensors"
    with faults.inject("size in a header", told=True):
        path.write_bytes(struct.pack("<Q", claim) + b"{}")
        for read in (Labels.load, read_checkpoint):
            with pytest.raises(UserError):
                read(path)  # type: ignore[operator]
        header = json.dumps({"values": {"dtype": "I8", "shape": [2**40, 2], "data_offsets": [0, 2**41]}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
        for read in (Labels.load, read_checkpoint):
            with pytest.raises(UserError):
                read(path)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("model", "width", 1 << 40), ("model", "layers", 1_000_000), ("model", "feedforward", 60_000),
        ("backbone", "hidden_sizes", [50_000, 50_000, 50_000]), ("backbone", "depths", [9, 9, 10**9]),
        ("backbone", "embedding_size", 2**31), ("backbone", "layer_type", 7),
    ],
)  # fmt: skip
def test_a_model_card_cannot_ask_for_more_memory_than_its_weights(
    run_small: Any, tmp_path: Path, faults: Any, part: str, key: str, value: Any
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (run_small() / "model").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    card = json.loads((folder / "config.json").read_text())
    del card["sha256"]  # whoever means harm removes it
    card[part][key] = value
    (folder / "config.json").write_text(json.dumps(card))
    code = (
        "import resource, sys, scob.training.model_folder as p, transformers.models.resnet.modeling_resnet, pathlib\n"
        "from scob.errors import UserError\n"
        "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + (600 << 20),) * 2)\n"
        "try: p.load_network(pathlib.Path(sys.argv[1]))\n"
        "except UserError as error: print('refused:', error)"
    )
    with faults.inject("size in a model card", told=True):
        if value in (1 << 40, 60_000):  # once each way in a process whose memory is limited, else here
            done = subprocess.run(
                [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=200
            )
            assert done.stdout.startswith("refused:"), done.stderr
        else:
            with pytest.raises(UserError):
                load_network(folder)


def test_yaml_runs_nothing_and_does_not_grow(tmp_path: Path, faults: Any) -> None:
    path, mark = tmp_path / "settings.yaml", tmp_path / "struck"
    with faults.inject("malicious YAML", told=True):
        path.write_text(f"data: !!python/object/apply:os.system ['touch {mark}']\n")
        with pytest.raises(UserError, match="not valid YAML"):
            load_config(path)
        assert not mark.exists()
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
        path.write_text("\n".join(lines))
        with pytest.raises(UserError, match="aliases"):
            load_config(path)
        path.write_text("[" * 100_000)
        with pytest.raises(UserError, match="not valid YAML"):
            load_config(path)


def test_xml_entities_do_not_grow(tmp_path: Path, faults: Any) -> None:
    for name in ("JPEGImages", "ImageSets/Main", "Annotations"):
        (tmp_path / name).mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "JPEGImages" / "a.jpg")
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("a\n")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    secret = tmp_path / "secret"
    secret.write_text("cat")
    with faults.inject("XML bomb", told=True):
        for entities, name in ((f'<!ENTITY l0 "ha">{laughs}', "&l11;"), (f'<!ENTITY s SYSTEM "{secret}">', "&s;")):
            (tmp_path / "Annotations" / "a.xml").write_text(
                f"<!DOCTYPE a [{entities}]><a><object><name>{name}</name></object></a>"
            )
            with pytest.raises(UserError, match=r"annotation|label"):
                voc.read(tmp_path, "train", ReadOptions())


def test_a_picture_that_would_fill_memory_is_refused(faults: Any) -> None:
    side = int(MAX_PIXELS**0.5) + 100
    raw = io.BytesIO()
    Image.new("1", (side, side)).save(raw, "png")
    assert len(raw.getvalue()) < 100_000
    with faults.inject("decompression bomb", told=True), pytest.raises(UserError, match="million pixels"):
        decode(raw.getvalue(), 64)


def test_a_coco_mask_of_any_size_is_refused(tmp_path: Path, faults: Any) -> None:
    (tmp_path / "train2014").mkdir()
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "train2014" / "a.png")
    vast = 2**30
    for height, drawn in (
        (vast, [[0, 0, 1, 1, 1, 0]]), (4, {"size": [vast, vast], "counts": "0"}),
        (4, {"size": [4, 4], "counts": [2**31]}), (-4, [[0, 0, 1, 1, 1, 0]]),
    ):  # fmt: skip
        tree = {
            "images": [{"id": 1, "file_name": "a.png", "height": height, "width": height}],
            "categories": [{"id": 1, "name": "cat"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": drawn}],
        }
        (tmp_path / "instances_train2014.json").write_text(json.dumps(tree))
        split = read_coco(tmp_path, "train", ReadOptions())
        with faults.inject("decompression bomb", told=True), pytest.raises(UserError, match="cannot be read"):
            assert split.masks is not None
            split.masks.load(0)


def tar_with(path: Path, member: tarfile.TarInfo, content: bytes = b"") -> None:
    with tarfile.open(path, "w") as archive:
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("kind", ["above", "absolute", "link", "link inside", "hard link", "device"])
def test_an_archive_stays_in_its_folder(tmp_path: Path, faults: Any, kind: str) -> None:
    path, into = tmp_path / "a.tar", tmp_path / "into"
    into.mkdir()
    member = tarfile.TarInfo({"above": "../out", "absolute": str(tmp_path / "out")}.get(kind, "inside"))
    if "link" in kind:
        member.type = tarfile.LNKTYPE if kind == "hard link" else tarfile.SYMTYPE
        member.linkname = "../../out" if kind == "link" else "beside"
    if kind == "device":
        member.type = tarfile.CHRTYPE
    tar_with(path, member, b"x" if kind in ("above", "absolute") else b"")
    with faults.inject("archive that leaves its folder", told=True):
        with pytest.raises(UserError, match=r"cannot be unpacked: .*(outside the folder|a link or a device)"):
            unpack(path, into)
        assert not (tmp_path / "out").exists()
        assert not list(into.iterdir())


def test_a_chain_of_long_links_does_not_leave_the_folder(tmp_path: Path, faults: Any) -> None:
    """Its names add up to more than PATH_MAX, where Python's realpath, and so its filter, stops resolving links."""
    path, into = tmp_path / "a.tar", tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    long, steps = "d" * 247, "abcdefghijklmnop"
    with tarfile.open(path, "w") as archive:

        def add(name: str, kind: bytes, target: str = "", content: bytes = b"") -> None:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, len(content)
            archive.addfile(member, io.BytesIO(content))

        inside = ""
        for step in steps:
            add(f"{inside}{long}", tarfile.DIRTYPE)
            add(f"{inside}{step}", tarfile.SYMTYPE, long)
            inside += f"{long}/"
        chain = "/".join(steps)
        add(f"{chain}/{'l' * 254}", tarfile.SYMTYPE, "../" * len(steps))
        add("escape", tarfile.SYMTYPE, f"{chain}/{'l' * 254}/../..")
        add("escape/out", tarfile.REGTYPE, content=b"x")
    with faults.inject("archive that leaves its folder", told=True):
        with pytest.raises(UserError, match=r"cannot be unpacked: 'a' is a link or a device"):
            unpack(path, into)
        assert not list(tmp_path.rglob("out"))


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_grows_without_end_is_refused(tmp_path: Path, faults: Any, kind: str) -> None:
    path, into = tmp_path / f"a.{kind}", tmp_path / "into"
    into.mkdir()
    zeros = b"\0" * (100 << 20)
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", zeros)
    else:
        with tarfile.open(path, "w:gz") as packed:
            member = tarfile.TarInfo("zeros")
            member.size = len(zeros)
            packed.addfile(member, io.BytesIO(zeros))
    with faults.inject("archive bomb", told=True):
        with pytest.raises(UserError, match="times its own size"):
            unpack(path, into)
        assert not list(into.rglob("zeros"))


def test_a_run_writes_nothing_outside_its_folder(configure: Any, tmp_path: Path) -> None:
    """Names of classes and images that look like paths are only names."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    draw = np.random.default_rng(0)
    rows = ["image,label"]
    for number in range(8):
        Image.fromarray(draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(data / f"{number}.png")
        rows.append(f"{number}.png,{'../../escape' if number % 2 else '/etc/escape'}")
    (data / "table.csv").write_text("\n".join(rows))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    config = configure(f"data.source={data / 'table.csv'}", "labels.kind=given", "train.epochs=2", "labels.k=1")
    train(config, out)
    after = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if out not in (p, *p.parents)}
    assert after == before
