"""Parsers of data sets: each target writes one, with one or more of its files taken from the input, and reads it."""

import contextlib
import os
import shutil
from functools import cache
from pathlib import Path

from fuzz.scratch import scratch
from fuzz.targets import Target, picture

PARTED = b"\n---\n"  # between the files of an input; NUL may be part of one


def first_byte(data: bytes) -> int:
    return data[0] if data else 0


def read_source(source: Path, format: str, kind: int) -> None:
    """What `scob data`, `scob train` and label bias ask of a source.

    Of `kind`, the bit 4 lets it skip bad rows, the bit 8 asks for all splits, and the two highest choose one.
    """
    from scob.data.label_bias import label_odds
    from scob.data.readers import infer_format, read_split, splits_of, taken_as
    from scob.data.split import ReadOptions
    from scob.errors import UserError

    options = ReadOptions(skip_bad=bool(kind & 4))
    with contextlib.suppress(UserError):
        infer_format(str(source))
    taken_as(str(source), options, format)
    names = splits_of(str(source), format)
    chosen = names[(kind >> 6) % len(names)] if names else "train"
    split = read_split(str(source), None if kind & 8 else chosen, options, format)
    for row in range(min(3, len(split))):
        with contextlib.suppress(UserError):  # a bad image is reported, and the others are read
            split.images.load(row, 8)
        for truth in (split.boxes, split.masks):
            if truth is not None:
                truth.load(row)
    if split.boxes is not None:
        label_odds(split, "size")
        label_odds(split, "location")


@cache
def yolo_folder() -> Path:
    folder = scratch("yolo")
    for part in ("train", "val"):
        (folder / "images" / part).mkdir(parents=True)
        (folder / "labels" / part).mkdir(parents=True)
        (folder / "images" / part / f"{part}.jpg").write_bytes(picture())
        (folder / "labels" / part / f"{part}.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    return folder


def yolo_labels(data: bytes) -> None:
    """A text file of YOLO labels; the first byte chooses whether data.yaml names the classes."""
    folder, kind = yolo_folder(), first_byte(data)
    (folder / "data.yaml").write_text("names: [cat, dog, cup]\n")
    if kind & 1:
        (folder / "data.yaml").unlink()
    (folder / "labels" / "train" / "train.txt").write_bytes(data[1:])
    read_source(folder, "yolo", kind)


def yolo_settings(data: bytes) -> None:
    """The data.yaml of a YOLO data set."""
    folder = yolo_folder()
    (folder / "labels" / "train" / "train.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (folder / "data.yaml").write_bytes(data)
    read_source(folder, "yolo", 0)


@cache
def image_folder(name: str) -> Path:
    """A folder with four images."""
    folder = scratch(name)
    for image in ("a.jpg", "b.jpg", "c.jpg", "d.jpg"):
        (folder / image).write_bytes(picture())
    return folder


def label_studio_export(data: bytes) -> None:
    """An export of Label Studio as a data set; the first byte chooses JSON or CSV."""
    kind = first_byte(data)
    path = image_folder("label-studio") / ("export.csv" if kind & 1 else "export.json")
    path.write_bytes(data[1:])
    read_source(path, "labelstudio", kind)


def coco_elsewhere(data: bytes) -> None:
    """A COCO file as other programs place it; the first byte chooses where it lies."""
    folder, kind = image_folder("coco-elsewhere"), first_byte(data)
    shutil.rmtree(folder / "train", ignore_errors=True)
    (folder / "labels.json").unlink(missing_ok=True)
    path = folder / "labels.json" if kind & 3 else folder / "train" / "_annotations.coco.json"
    path.parent.mkdir(exist_ok=True)
    (path.parent / "a.jpg").write_bytes(picture())
    path.write_bytes(data[1:])
    read_source(path if kind & 3 == 2 else folder, "coco", kind)


def json_table(data: bytes) -> None:
    """A table that is a JSON list."""
    path = image_folder("json-table") / "table.json"
    path.write_bytes(data[1:])
    read_source(path, "table", first_byte(data))


def image_folder_metadata(data: bytes) -> None:
    """The metadata file of a Hugging Face ImageFolder with a folder per split; the first byte chooses CSV or JSON."""
    folder, kind = image_folder("image-folder"), first_byte(data)
    (folder / "train").mkdir(exist_ok=True)
    (folder / "train" / "a.jpg").write_bytes(picture())
    for name in ("metadata.csv", "metadata.jsonl"):
        (folder / "train" / name).unlink(missing_ok=True)
    (folder / "train" / ("metadata.csv" if kind & 1 else "metadata.jsonl")).write_bytes(data[1:])
    read_source(folder, "table", kind)


def suggestions_table(data: bytes) -> None:
    """Our own suggestions as a data set: suggestions.jsonl and images.json."""
    folder = image_folder("suggestions-table")
    first, _, second = data[1:].partition(PARTED)
    (folder / "suggestions.jsonl").write_bytes(first)
    (folder / "images.json").write_bytes(second)
    read_source(folder, "table", first_byte(data))


def parquet_table(data: bytes) -> None:
    """A label table in Parquet."""
    path = image_folder("parquet-table") / "table.parquet"
    path.write_bytes(data[1:])
    read_source(path, "table", first_byte(data))


def parquet_images(data: bytes) -> None:
    """Parquet with the images in it."""
    path = scratch("parquet-images") / "train-00000-of-00001.parquet"
    path.write_bytes(data[1:])
    read_source(path.parent, "huggingface", first_byte(data))


def arrow_file(data: bytes) -> None:
    """The Arrow file of a Hugging Face data set on disk."""
    folder = scratch("arrow-file")
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    (folder / "data.arrow").write_bytes(data[1:])
    read_source(folder, "huggingface", first_byte(data))


def hugging_face_notes(data: bytes) -> None:
    """state.json, dataset_info.json and dataset_dict.json of a Hugging Face data set on disk."""
    from fuzz.reader_seeds import arrow_bytes

    folder = scratch("hugging-face") / "set"
    shutil.rmtree(folder, ignore_errors=True)
    state, info, splits = [*data[1:].split(PARTED), b"", b""][:3]
    home = folder / "train" if splits else folder
    home.mkdir(parents=True)
    if splits:
        (folder / "dataset_dict.json").write_bytes(splits)
    (home / "data.arrow").write_bytes(arrow_bytes())
    (home / "state.json").write_bytes(state)
    (home / "dataset_info.json").write_bytes(info)
    read_source(folder, "huggingface", first_byte(data))


def nus_wide_lists(data: bytes) -> None:
    """The lists of NUS-WIDE: concepts, training images, and the labels of two concepts."""
    folder, kind = image_folder("nus-wide"), first_byte(data)
    (folder / "ImageList").mkdir(exist_ok=True)
    (folder / "TrainTestLabels").mkdir(exist_ok=True)
    names = ("Concepts81.txt", "ImageList/TrainImagelist.txt", *(f"TrainTestLabels/Labels_{n}_Train.txt" for n in "xy"))
    for name, part in zip(names, [*data[1:].split(PARTED), b"", b"", b""], strict=False):
        (folder / name).write_bytes(part)
    if kind & 1:
        (folder / "Concepts81.txt").unlink()
    read_source(folder, "nuswide", kind & ~8)


def label_matrices(data: bytes) -> None:
    """An array of Cole et al.; the first byte chooses which. Nothing in it may be unpickled."""
    from fuzz.reader_seeds import MATRICES, array_bytes

    folder, kind = image_folder("matrices"), first_byte(data)
    for name, array in MATRICES.items():
        (folder / f"formatted_{name}.npy").write_bytes(array_bytes(array))
    (folder / f"formatted_{list(MATRICES)[kind & 3]}.npy").write_bytes(data[1:])
    read_source(folder, "matrices", kind)


def prior_file(data: bytes) -> None:
    """The scores of another model; the first byte chooses CSV, Parquet or safetensors."""
    from scob.data.prior_file import SUFFIXES, read_prior

    path = scratch("prior") / f"prior{SUFFIXES[first_byte(data) % 3]}"
    path.write_bytes(data[1:])
    read_prior(path, ("a.jpg", "b.jpg"), ("cat", "dog"))


def names_in_a_folder(data: bytes) -> None:
    """A folder whose files have the names in the input, one per line: whatever they look like, and whoever reads it."""
    from scob.data.readers import infer_format

    folder = scratch("names") / "set"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for line in data[1:].split(b"\n")[:6]:
        path = folder / os.fsdecode(line.replace(b"\0", b"").replace(b"..", b"").strip(b"/") or b"a.jpg")
        with contextlib.suppress(OSError):  # too long, or a file where a folder should be
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture())
    read_source(folder, infer_format(str(folder)), first_byte(data))


READER_TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        yolo_labels, yolo_settings, label_studio_export, coco_elsewhere, json_table, image_folder_metadata,
        suggestions_table, parquet_table, parquet_images, arrow_file, hugging_face_notes, nus_wide_lists,
        label_matrices, prior_file, names_in_a_folder,
    )
}  # fmt: skip
