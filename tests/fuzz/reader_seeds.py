"""What a fuzzer starts from: data sets of the kinds that users and other programs write."""

import io
import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from fuzz.reader_targets import PARTED
from fuzz.targets import picture

FEATURES = {"image": {"_type": "Image"}, "labels": {"feature": {"names": ["cat", "dog"]}, "_type": "List"}}
MATRICES: dict[str, NDArray[Any]] = {
    "train_images": np.array(["a.jpg", "b.jpg", "c.jpg"]),
    "train_labels": np.array([[1, 0], [1, 1], [0, 1]], np.float64),
    "train_labels_obs": np.array([[1, 0], [0, 1], [0, 1]], np.float64),
    "val_images": np.array(["d.jpg"]),
    "val_labels": np.array([[1, 0]], np.float64),
}


def reader_seeds(name: str) -> list[bytes]:
    """Valid inputs of the targets of data sets."""
    if name in ("label_studio_export", "coco_elsewhere", "suggestions_table", "json_table"):
        return json_seeds(name)
    if name in ("parquet_table", "parquet_images", "arrow_file", "hugging_face_notes"):
        return arrow_seeds(name)
    if name == "label_matrices":
        return [
            bytes([kind + number]) + array_bytes(array)
            for number, array in enumerate(list(MATRICES.values())[:4])
            for kind in (0, 8, 64, 128, 192)
        ]
    if name == "prior_file":
        return prior_seeds()
    found: dict[str, list[bytes]] = {
        "yolo_labels": [
            b"\x000 0.5 0.5 0.25 0.25\n1 0.1 0.1 0.2 0.2 0.9\n", b"\x012 0.1 0.1 0.2 0.1 0.2 0.2\n",
            b"\x0c0 0.5 0.5 1 1\n\n", b"\x01",
        ],
        "yolo_settings": [
            b"path: .\ntrain: images/train\nnames: [cat, dog]\n", b"nc: 2\nnames:\n  0: cat\n  1: traffic light\n",
            b"names: ['a', \"b\"]\n", b"names: []\n",
        ],
        "image_folder_metadata": [
            b"\1file_name,labels\na.jpg,cat|dog\n", b'\0{"file_name": "a.jpg", "label": "cat"}\n',
            b'\4{"file_name": "a.jpg", "labels": ["cat", "dog"]}\n', b"\1file_name,label\na.jpg,cat\n",
        ],
        "names_in_a_folder": [
            b"\0cat/a.jpg\ndog/b.png\ndog/c/d.webp\n.hidden", b"\0train/cat/a.jpg\nval/cat/b.jpg\nclasses.jpg",
            b"\4images/a.jpg\ncat/a.jpg\ncat/a.JPEG", b"\x08k\xc3\xa4se/\xff.jpg\nBrot und so/(1).jpeg",
        ],
        "nus_wide_lists": [
            kind + PARTED.join((b"x\ny\n", b"a.jpg\nb.jpg \n", b"0\n1\n", b"1\n0\n")) for kind in (b"\0", b"\1", b"\4")
        ],
    }  # fmt: skip
    return found[name]


def json_seeds(name: str) -> list[bytes]:
    """Valid inputs in JSON, and in CSV with JSON in its cells."""
    box = {"x": 1, "y": 2, "width": 3, "height": 4, "rectanglelabels": ["dog"]}
    answer = {"id": 3, "was_cancelled": False, "updated_at": "2026-01-01",
              "result": [{"value": {"choices": ["cat"]}}, {"value": box}]}  # fmt: skip
    task = {"id": 1, "data": {"image": "/data/upload/1/0123abcd-a.jpg"}, "annotations": [answer, {**answer, "id": 4}]}
    flat = {"image": "/data/local-files/?d=b.jpg", "annotation_id": 1, "lead_time": 2.5, "id": 2,
            "choice": {"choices": ["cat", "dog"]}, "where": [box]}  # fmt: skip
    coco = {
        "images": [{"id": 0, "file_name": "a.jpg", "height": 4, "width": 4}],
        "categories": [{"id": 0, "name": "things", "supercategory": "none"},
                       {"id": 1, "name": "cat", "supercategory": "things"}],
        "annotations": [{"id": 0, "image_id": 0, "category_id": 1, "bbox": [0, 1, 2, 2], "segmentation": []}],
    }  # fmt: skip
    suggestion = {"image": "one", "class": "cat", "confidence": 0.5, "score": 0.5, "estimate": None, "mask": None,
                  "box": [0, 0, 1, 1], "boxes": [[0, 0, 1, 1]], "nearest": [], "observed": ["dog"]}  # fmt: skip
    rows = [{"image": "a.jpg", "labels": ["cat"], "absent": ["dog"]}, {"path": "b.jpg", "tags": "cat;cup"}]
    files = {"root": None, "classes": ["cat", "dog"], "files": {"one": "a.jpg"}}
    return {
        "label_studio_export": [
            b"\0" + json.dumps([task]).encode(), b"\4" + json.dumps([flat]).encode(),
            b"\0" + json.dumps([{**task, "data": {**task["data"], "name": "b.jpg"}}]).encode(),  # type: ignore[dict-item]
            b'\1image,choice,annotation_id,lead_time\na.jpg,cat,1,2.5\nb.jpg,"{""choices"": [""cat""]}",2,1\n',
        ],
        "coco_elsewhere": [bytes([kind]) + json.dumps(coco).encode() for kind in (0, 1, 2, 12)],
        "suggestions_table": [
            kind + json.dumps(suggestion).encode() + b"\n" + PARTED + json.dumps(files).encode()
            for kind in (b"\0", b"\4")
        ],
        "json_table": [kind + json.dumps(rows).encode() for kind in (b"\0", b"\4")]
        + [b'\0[{"image": "a.jpg", "labels": {"cat": 1, "dog": -1}, "split": "val"}]'],
    }[name]  # fmt: skip


def arrow_seeds(name: str) -> list[bytes]:
    """Valid inputs that Arrow writes, or that stand beside its files."""
    state, info = json.dumps({"_data_files": [{"filename": "data.arrow"}]}), json.dumps({"features": FEATURES})
    splits = json.dumps({"splits": ["train"]})
    if name == "hugging_face_notes":
        return [
            b"\0" + PARTED.join(part.encode() for part in parts)
            for parts in ((state, info), (state, info, splits), (state, "{}"), (state, '{"features": null}', splits))
        ]
    if name == "arrow_file":
        return [b"\0" + arrow_bytes(), b"\4" + arrow_bytes(named=False)]
    if name == "parquet_images":
        return [b"\0" + parquet_bytes(picture_table()), b"\4" + parquet_bytes(picture_table(named=False))]
    long = {"image": ["a.jpg", "b.jpg"], "label": ["cat", "dog"], "state": [1, -1]}
    wide = {"image": ["a.jpg", "b.jpg"], "cat": [1, 0], "dog": [0.0, None]}
    listed = {"file_name": ["a.jpg", "b.jpg"], "labels": [["cat"], ["cat", "dog"]]}
    return [bytes([4 * n]) + parquet_bytes(table) for n, table in enumerate((long, wide, listed))]


@cache
def arrow_bytes(named: bool = True) -> bytes:
    """A table of pictures as `datasets.Dataset.save_to_disk` writes it."""
    import pyarrow

    table, content = picture_table(named), io.BytesIO()
    with pyarrow.ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)
    return content.getvalue()


def picture_table(named: bool = True) -> Any:
    """A table of pictures; `named`: labels are the numbers of classes that its notes name."""
    import pyarrow

    images = pyarrow.array([{"bytes": picture(), "path": None}, {"bytes": None, "path": "a.jpg"}])
    labels = pyarrow.array([[0], [0, 1]]) if named else pyarrow.array(["cat", "dog"])
    noted = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()} if named else {}
    return pyarrow.table({"image": images, "labels": labels}).replace_schema_metadata(noted)


def parquet_bytes(table: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    content = io.BytesIO()
    table = pyarrow.table(table) if isinstance(table, dict) else table
    pyarrow.parquet.write_table(table, content, compression="none")
    return content.getvalue()


def array_bytes(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def prior_seeds() -> list[bytes]:
    scores = {"scores": np.array([[0.5, 0.25], [0.1, 1]], np.float32)}
    names = {"images": '["a.jpg", "b.jpg"]', "classes": '["dog", "cat"]'}
    return [
        b"\0image,cat,dog\na.jpg,0.5,1\nb.jpg,0,1e-3\n",
        b"\1" + parquet_bytes({"image": ["b.jpg", "a.jpg"], "dog": [0.5, 1.0], "cat": [0, 1]}),
        b"\2" + save(scores, metadata=names),
    ]
