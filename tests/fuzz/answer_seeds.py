"""What a fuzzer starts from: answers to import, requests to `scob serve`, photographs, lists."""

import base64
import io
import json
from functools import cache

from PIL import Image

from fuzz.reader_seeds import reader_seeds
from fuzz.reader_targets import PARTED
from fuzz.targets import picture

PAGE = (
    '<View><Image name="img" value="$photo"/><Choices name="c" toName="img"><Choice value="cat"/></Choices>'
    '<RectangleLabels name="r" toName="img"><Label value="dog" alias="cat"/></RectangleLabels></View>'
)


def answer_seeds(name: str) -> list[bytes]:
    """Valid inputs of the targets of answers, requests and photographs."""
    addresses = ("/data/local-files/?d=a.jpg", "http://127.0.0.1:9/b.jpg", "/data/upload/1/0123abcd-c.jpg")
    tasks = {"tasks": [{"id": number, "data": {"image": address}} for number, address in enumerate(addresses)]}
    paged = {"tasks": [{"id": "x", "data": {"photo": "/b.jpg"}}], "label_config": PAGE}
    setup = {"schema": PAGE, "hostname": "http://127.0.0.1:9/", "access_token": "key", "project": "1"}
    images = {"images": [{"name": "a", "data": base64.b64encode(picture()).decode()}], "urls": ["http://127.0.0.1:9/a"]}
    form = (
        b'--AaB\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
        + picture() + b"\r\n--AaB--\r\n"
    )  # fmt: skip
    decision = {"image": "photos/a.jpg", "class": "cat", "decision": "accept", "time": "", "session": "s", "order": 1}
    record = {"graph": False, "padded": False, "features": "host", "reasons": ["with features in memory"]}
    found: dict[str, list[bytes]] = {
        "imported_answers": [
            *(
                bytes([seed[0] % 2]) + seed[1:].replace(b'"name": "', b'"name": "photos/')
                for seed in reader_seeds("label_studio_export")
            ),
            b"\2" + (json.dumps(decision) + "\n").encode() * 2,
        ],
        "heic_image": [photograph(), photograph("RGBA")],
        "measured_image": [picture(), still("GIF"), still("JPEG"), still("TIFF"), still("WEBP")],
        "image_list": [b"a.jpg\nb.jpg\n", b"a.jpg\r\n\r\nmissing.png"],
        "execution_record": [json.dumps(record).encode()],
        "upload_request": [
            b"topk=1\nContent-Type: image/png\nHost: localhost:80\nOrigin: http://localhost:80\n\n" + picture(),
            b"threshold=0.5\nContent-Type: multipart/form-data; boundary=AaB\nSec-Fetch-Site: none\n\n" + form,
            b"maps=false\nContent-Type: application/json\nContent-Length: 99\n\n" + json.dumps(images).encode(),
            b"\nContent-Type: image/png\nX-Scob-Token: secret\nCookie: a=b\nAuthorization: Basic eDp5\n\n" + picture(),
        ],
        "review_address": [
            b"/api/queue\nAccept-Encoding: gzip\n", b"/api/suggestions/1", b"/api/changes?since=0", b"/api/image/0",
            b"/api/thumbnail/1", b"/api/mask/0?ratio=1.5", b"/api/audit", b"/?token=x",
            b"/reviewed.csv\nHost: localhost",
        ],
        "label_studio_request": [
            PARTED.join(json.dumps(each).encode() for each in pair)
            for pair in ((setup, paged), ({"schema": ""}, tasks), ({}, {"tasks": []}))
        ],
    }  # fmt: skip
    return found[name]


def still(kind: str) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (9, 7), (200, 40, 40)).save(content, kind)
    return content.getvalue()


@cache
def photograph(mode: str = "RGB") -> bytes:
    """A photograph in HEIC."""
    import pillow_heif

    content = io.BytesIO()
    pillow_heif.from_pillow(Image.new(mode, (16, 16), (200, 40, 40))).save(content, quality=50)
    return content.getvalue()
