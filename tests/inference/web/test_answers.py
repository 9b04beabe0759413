"""Responses: the security headers, ASCII JSON, one sentence per error."""

import json
import os

from fastapi.responses import Response

from scob.inference.web.answers import SECURITY_HEADERS, as_json, secured, sentence


def test_every_response_has_the_security_headers_and_keeps_its_own_cache_control() -> None:
    plain = secured(Response(b""))
    assert all(plain.headers[name] == value for name, value in SECURITY_HEADERS.items())
    assert plain.headers["cache-control"] == "no-store"
    assert secured(Response(b"", headers={"Cache-Control": "max-age=9"})).headers["cache-control"] == "max-age=9"


def test_a_file_name_that_is_not_utf8_survives_as_json() -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    body = as_json({"image": name}).body
    assert body.isascii() and json.loads(body) == {"image": name}


def test_an_error_is_one_sentence_and_405_names_the_method_that_works() -> None:
    answer = sentence(405, "no")
    assert json.loads(answer.body) == {"error": "no"} and answer.headers["allow"] == "GET"
    assert "allow" not in sentence(404, "no").headers
