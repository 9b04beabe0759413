"""What fuzzing and reading found, so that it stays found."""

import base64
import json
import zlib

from fuzz.folder_targets import backbone_folder
from fuzz.found_in_data_sets import FOUND_IN_DATA_SETS
from fuzz.parsers import seeds_of

DEEP = "[" * 5000
LONG = b"x" * 5000


def packed(text: str) -> bytes:
    """An input that is not text."""
    return zlib.decompress(base64.b85decode(text))


def with_metadata(seed: bytes, **values: str) -> bytes:
    """A safetensors file with other metadata."""
    size = int.from_bytes(seed[:8], "little")
    header = json.loads(seed[8 : 8 + size])
    header["__metadata__"] |= values
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + seed[8 + size :]


def backbone(**values: object) -> bytes:
    """The config.json of a backbone folder with other values."""
    return json.dumps({**json.loads(backbone_folder()[1]), **values}).encode()


def coco(file_name: bytes, identity: bytes = b"1", category: bytes = b"c") -> bytes:
    """An instances file with one image and one category, as they stand in its JSON."""
    images = b'[{"id": %b, "file_name": "%b"}]' % (identity, file_name)
    return b'\0{"images": %b, "categories": [{"id": 1, "name": "%b"}], "annotations": []}' % (images, category)


FOUND = [
    ("cub_lists", b"9" * 5000 + b" a.jpg\n\x001 1\n\x001 has_bill::dagger\n\x001 1 1 3 2.5\n"),
    ("cub_lists", "\0² a.jpg\n\x001 1\n\x001 has_bill::dagger\n\x001 1 1 3 2.5\n".encode()),
    ("voc_annotation", b"\x02<?xml version='1.0' encoding='tf-16'?><annotation/>"),
    ("settings", b"a: &a [1]\nb: *a\n"),
    ("settings", b"train: {seed: 1}\n\0train.seed=2000-99-99"),
    ("settings", b"\0data.source=" + b"[" * 3000),
    ("settings", b"\0train.seed=" + b"1" * 5000),
    ("model_card", b'{"format": "scob-model-1", "size": 1e400}'),
    ("model_card", b"[" * 50_000),
    ("model_load", b"\0408"),
    ("model_load", b"\x2cnull"),
    ("model_load", b'\x34"x"'),
    ("model_load", b"\x041e400"),
    ("onnx_metadata", b'["a"]\0[1]\0{"size": 1e400}'),
    ("onnx_metadata", b'["a"]\0[1]\0{"size": 1000000000}'),
    ("onnx_metadata", b"[" * 50_000 + b"\0[1]\0{}"),
    ("coco_instances", coco(b"a.jpg", identity=b"1e400")),
    ("coco_instances", b"\4" + coco(b"\\ud800.jpg")[1:]),
    ("coco_instances", coco(b"a.jpg", category=b"\\ud800")),
    (
        "coco_instances",
        b'\0{"images": [{"id": 1, "file_name": "a.jpg", "height": 4, "width": 4}], "categories": '
        b'[{"id": 1, "name": "c"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": "x"}]}',
    ),
    (
        "coco_instances",
        b'\0{"images": [{"id": 1, "file_name": "a.jpg", "height": 1000000, "width": 1000000}], "categories": '
        b'[{"id": 1, "name": "c"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": '
        b"[[0, 0, 1, 1, 1, 0]]}]}",
    ),
    (
        "coco_instances",
        b'\0{"images": [{"id": 1, "file_name": "a.jpg", "height": 4, "width": 4}], "categories": '
        b'[{"id": 1, "name": "c"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": '
        b"[[0, 0, 100000000, 1, 1, 0]]}]}",
    ),
    ("label_table", b'\1{"image": "\\ud800.jpg", "labels": ["cat"]}'),
    ("label_table", b'\1{"image": "a.jpg", "labels": ["\\ud800"]}'),
    ("label_table", b'\0""'),
    ("label_table", b"\0,"),
    ("label_table", LONG.join((b'\1{"image": "a.jpg", "labels": [["', b'"]]}'))),
    ("label_table", LONG.join((b"\0image,label,state\na.jpg,", b",maybe\n"))),
    ("coco_instances", coco(LONG)),
    ("suggestions", LONG.join((b'{"image": "a", "class": "cat", "score": {"size": ["', b'"]}}\n'))),
    (
        "archive",
        packed(
            "c-jl_W@Zs#U|`^2cx+M-`=BVIh8M`w0Ae8^PRz^8FG(!P%+D*<Pt?mQ&d*yN<`uFj$Y9M{H3w#f02IwX-|s7A2J#qzm=%bV^hzp9"
            "yqSQi7@0(vu~-7L1qK>GI<eS^ZUE4t*jQ!;B_)VG2<^5oTLZjV*+4=}Kv)c<lfeoA^U5$v"
        ),
    ),
    (
        "archive",
        packed(
            "c-jl_W@Zs#U|`^2cx+M-`=BVIh8M`w0Ae8qhK9tvy!?{HlFa<PV*NzDtm6E<)nQ&Cn}Q71tW|ShW(Yvh{PR5n12d4v2*j*FoTOJ$"
            "QR2-6RK>_7!W@Ci5;$l8X=K2(5~3g3o_&SL_8|1z!fXxjW@Q5jF#%yQkWL0G005%!FDn"
        ),
    ),
    (
        "archive",
        packed(
            "c-jl_W@Zs#U|`^2cx+M-`=BVIh8M`w0Ae8^PRz^8FG(!P%+D*<Pt?mQ&d*yN<`uFj$Y9M{H3w#f02IwX-|s7A2J#qzm=%bV^hzp9"
            "yqSQi7@0(vaa#fd4IqtJtVGw3ZVy7gEzH&cZ&o&t5EBp<gC&!}BmgqmFO~"
        ),
    ),
    (
        "archive",
        packed(
            "c-jl_W@Zs#U|`^2cx+M-`=BVIh8M`w0Ae8^PRz^8FG(!P%+D*<Pt?mQ&d*yN=Ebln$Y9M{H3w#f02IwX-|s7A2J#qzm=%bV^hzp9"
            "yqSQi7@0(vaa#fd4IqtJtVGw3ZVy7gEzH&cZ&o&t5EBp<1L<V20sxn=FG2"
        ),
    ),
    (
        "archive",
        packed(
            "c-jGd0D}J?iwFP<rTS_D|LxH+3c@fLhT$BgC(uBX<^UeRt$PQ-p&)1kk8f}+;ub-Cp5^<ue|YEPVIMk+P09JS&3511(^yg%a`=M#"
            "tuEL0GW@5x^<Q@NQ9JjaQu@$8Z~B)p$1p_wySqD|*7fKB00000fM4_k)3d^Z04M+eOQb&z"
        ),
    ),
    ("backbone_config", backbone(layer_type="cubic")),
    ("backbone_config", backbone(hidden_sizes="0")),
    ("backbone_config", backbone(depths=[1, 2**64])),
    ("backbone_config", backbone(stage_names=["stem", ["stage1"], "stage2"])),
    ("backbone_config", backbone(embedding_size=2**64)),
    ("backbone_config", backbone(dtype="NaN")),
    ("checkpoint_contents", seeds_of("checkpoint_contents")[0].replace(b"source: scenes", b"source: : scenes")),
    ("checkpoint_contents", seeds_of("checkpoint_contents")[0].replace(b"source: scenes", b"source: *scenes")),
    ("checkpoint_contents", b'{"step": 1}\0{"settings": "[1]", "labels": "0", "frozen": "0"}'),
    ("checkpoint_file", with_metadata(seeds_of("checkpoint_file")[0], progress=DEEP)),
    ("label_file", with_metadata(seeds_of("label_file")[0], classes=DEEP)),
    ("estimates_file", with_metadata(seeds_of("estimates_file")[0], classes=DEEP)),
    ("estimates_file", with_metadata(seeds_of("estimates_file")[0], classes="0")),
    ("estimates_file", seeds_of("estimates_file")[0].replace(b'["a", "b"]', b'[[ ], "b"]')),
    ("class_vectors", b"\1" + DEEP.encode()),
    ("class_vectors", b'\1{"cat": [1' + b"0" * 400 + b"]}"),
    ("decisions_log", DEEP.encode()),
    ("packed_manifest", DEEP.encode()),
    ("preprocessor", b'\1{"image_processor": [{"image_mean": [0.5, 0.5, 0.5]}]}'),
    ("preprocessor", b"\0" + DEEP.encode()),
    ("preprocessor", b'\0{"image_mean": [1' + b"0" * 400 + b', 0, 0], "image_std": [1, 1, 1]}'),
    ("weights_file", b"\0" + seeds_of("weights_file")[1][1:].replace(b"PK\x01\x02", b"PK\x01\x03", 1)),
    ("weights_file", b"\0e"),
    ("weights_file", seeds_of("weights_file")[0].replace(b"layer1.0.bn1", b"layer1.x.bn1")),
    ("weights_file", seeds_of("weights_file")[0].replace(b"layer1.0.bn1.bias", b"layer1.99999.bias")),
    *FOUND_IN_DATA_SETS,
]
