"""What fuzzing and reading found in the parsers of data sets, answers and requests."""

import struct
from typing import Any

import numpy as np
import pyarrow
from safetensors.numpy import save

from fuzz.reader_seeds import array_bytes, parquet_bytes
from fuzz.reader_targets import PARTED
from fuzz.targets import picture

DEEP = b"[" * 5000
STATE = b'{"_data_files": [{"filename": "data.arrow"}]}'


def parquet(**columns: Any) -> bytes:
    return b"\0" + parquet_bytes(pyarrow.table(columns))


def twice(name: str) -> bytes:
    """Parquet with two columns of one name."""
    arrays = [pyarrow.array([value]) for value in ("a.jpg", "cat", "dog")]
    return b"\0" + parquet_bytes(pyarrow.table(arrays, names=["image", "label", name]))


def array_header(text: str) -> bytes:
    """A .npy file that has only a header."""
    raw = text.encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(raw)) + raw


def task(rest: bytes, image: bytes = b"a.jpg") -> bytes:
    """An export of Label Studio with one task."""
    return b'\0[{"data": {"image": "%b"}, %b}]' % (image, rest)


FOUND_IN_DATA_SETS = [
    ("yolo_labels", b"\1999999999999 0.5 0.5 0.5 0.5"),
    ("yolo_settings", DEEP),
    ("yolo_settings", b"names: 2000-99-99"),
    ("yolo_settings", b"names: " + b"9" * 5000),
    ("yolo_settings", "names: {\u00b2: a}".encode()),
    ("yolo_settings", b"names: !!bool x"),
    ("yolo_settings", b"names: !!int ''"),
    ("settings", b"data: !!bool x"),
    ("settings", b"\0data.source=!!int ''"),
    ("label_studio_export", task(b'"annotations": 5')),
    ("label_studio_export", task(b'"annotations": [{"id": 1, "result": 5}]')),
    ("label_studio_export", task(b'"annotations": [{"id": "x"}, {"id": 1}]')),
    ("label_studio_export", task(b'"annotations": [], "predictions": 5')),
    ("label_studio_export", task(b'"annotations": [], "predictions": [{"result": true}]')),
    ("label_studio_export", task(b'"annotations": [{}]', image=b"http://[")),
    ("label_studio_export", DEEP.join((b"\1image,choice,annotation_id,lead_time\na.jpg,", b",1,2.5\n"))),
    ("imported_answers", task(b'"annotations": [{}]', image=b"http://[")),
    ("coco_elsewhere", b"\0{}"),
    ("coco_elsewhere", b"\1" + DEEP.join((b'{"images": [], "annotations": [], "categories": ', b"}"))),
    (
        "coco_elsewhere",
        b'\1{"images": [{"id": 1, "file_name": "%b"}], "categories": [{"id": 1, "name": "c"}], "annotations": []}'
        % (b"x" * 300),
    ),
    ("names_in_a_folder", b"\0annotations/instances_train.json/a.jpg"),
    ("hugging_face_notes", b"\0" + DEEP),
    ("hugging_face_notes", b"\0" + PARTED.join((STATE, DEEP))),
    ("hugging_face_notes", b"\0" + PARTED.join((STATE, b'{"features": {"labels": {"names": 5}}}'))),
    ("hugging_face_notes", b"\0" + PARTED.join((STATE, b"{}", DEEP))),
    ("parquet_images", twice("image")),
    ("parquet_images", parquet(image=[b"x"], label=pyarrow.array([1], pyarrow.timestamp("ns")))),
    ("parquet_table", twice("image")),
    ("parquet_table", twice("label")),
    ("parquet_table", parquet(image=["a.jpg"], label=pyarrow.array([1], pyarrow.timestamp("ns")))),
    ("parquet_table", parquet(image=["a.jpg"], label=pyarrow.array([1], pyarrow.timestamp("us", "Nowhere/City")))),
    ("parquet_table", parquet(image=["a.jpg"], label=pyarrow.array([2**62], pyarrow.timestamp("us")))),
    ("parquet_table", parquet(image=["a.jpg"], label=["cat"]).replace(b"a.jpg", b"\xff.jpg")),
    ("nus_wide_lists", b"\0" + PARTED.join((b"x\0\n", b"a.jpg\n", b"1\n", b"0\n"))),
    ("label_matrices", b"\1PK\3\4"),
    ("label_matrices", b"\0"),
    ("label_matrices", b"\0" + array_bytes(np.array("a.jpg"))),
    ("label_matrices", b"\1" + array_bytes(np.ones((3, 2), [("a", "f4")]))),
    ("label_matrices", b"\0" + array_bytes(np.array(["a"] * 3)).replace(b"a\0\0\0", b"a\0\0\x0a")),
    ("label_matrices", b"\x09" + array_bytes(np.ones((3, 5)))),
    ("label_matrices", b"\1" + array_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**23}, 2)}}")),
    ("label_matrices", b"\1" + array_header("[" * 3000)),
    ("label_matrices", b"\0" + array_header("{'descr': '{}, }\n\n &a\nd\0\0\0")),  # Python 3.12: a SystemError
    (
        "prior_file",
        b"\2" + save({"scores": np.ones((2, 2))}, metadata={"images": DEEP.decode(), "classes": '["cat", "dog"]'}),
    ),
    *(
        ("suggestions_table", b'\0{"image": "one", "class": "cat"}' + PARTED + b'{"root": "%b", "files": {}}' % root)
        for root in (b"\\ud800", b"a\\u0000b")
    ),
    ("execution_record", DEEP),
    ("measured_image", picture().replace(b"\0\0\0\rIHDR", b"\0\0\0\x0cIHDR")),
    ("upload_request", b"maps=x\nContent-Type: image/png\n\n" + picture()),
    ("upload_request", b"\x93\nContent-Type: image/png\n\n" + picture()),
    ("upload_request", b"\nContent-Type: image/png\nContent-Length: \xb2\n\n" + picture()),
    ("upload_request", b"\nContent-Type: image/png\nContent-Length: " + b"9" * 5000 + b"\n\n" + picture()),
    ("upload_request", b'\nContent-Type: application/json\n\n{"urls": ["http://["]}'),
    ("label_studio_request", b"{}" + PARTED + b'{"tasks": [{"data": {"image": "http://["}}]}'),
    ("label_studio_request", b"{}" + PARTED + b'{"tasks": [{"data": {"image": "//["}}]}'),
]
