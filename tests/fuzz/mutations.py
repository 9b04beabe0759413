"""Mutations of valid inputs: bytes, slices, values of JSON, and headers of safetensors that keep their length right."""

import json
import random
from collections.abc import Sequence
from typing import Any

SPICE = [
    b"", b"\0", b'"', b"{", b"[", b"]]", b"}", b"<", b"&", b"*a", b"&a", b"null", b"NaN", b"1e400", b"-1", b"0",
    b"true", b"99999999999999999999", b"\xff\xfe", b"\xef\xbb\xbf", b'"\\ud800"', b"../", b"\n\n", b"\r", b",,", b";",
    b"!!", b"[" * 2000, b"9" * 5000, b"\xed\xa0\x80", b"]]>", b"<!DOCTYPE a [", b"{}", b"[]", b'""',
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, 1e-300, 1e308, float("inf"), float("nan"), "", "0", "\0",
    "\ud800", "../x", "/x", "x" * 300, [], [[]], {}, [None], {"x": 1}, "NaN", "1e400", " ",
]  # fmt: skip


def mutated(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """One to four changes to an input."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        start = data.find(b"{")
        if start >= 0 and chance.random() < 0.4:
            data = with_other_value(data, start, chance)
        else:
            data = with_other_bytes(data, chance, others)
    return data


def with_other_bytes(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """Some bytes replaced, inserted, removed, repeated, flipped, or taken from another input."""
    at = chance.randrange(len(data) + 1)
    length = chance.choice((0, 1, 1, 2, 4, 16, 64, 512))
    kind = chance.randrange(6)
    if kind == 0:
        return data[:at] + chance.choice(SPICE) + data[at + length :]
    if kind == 1:
        return data[:at] + chance.randbytes(chance.choice((1, 1, 2, 4, 8))) + data[at + length :]
    if kind == 2:
        return data[:at] + data[at : at + length] * chance.choice((0, 2, 3)) + data[at + length :]
    if kind == 3 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 4:
        other = chance.choice(others)
        begin = chance.randrange(len(other) + 1)
        return data[:at] + other[begin : begin + length] + data[at + length :]
    return data[:at] if chance.random() < 0.2 else data[: at + 1] + data[at:]


def with_other_value(data: bytes, start: int, chance: random.Random) -> bytes:
    """One value of the first JSON object replaced; the length before a safetensors header follows."""
    try:
        text = data[start:].decode()
        tree, end = json.JSONDecoder().raw_decode(text)
        changed = json.dumps(replaced_value(tree, chance)).encode()
        rest = text[end:].encode()
    except (ValueError, RecursionError):
        try:
            size = int.from_bytes(data[start - 8 : start], "little")
            tree = json.loads(data[start : start + size])
            changed, rest = json.dumps(replaced_value(tree, chance)).encode(), data[start + size :]
        except (ValueError, RecursionError):
            return data
    if start >= 8 and int.from_bytes(data[start - 8 : start], "little") == len(data) - start - len(rest):
        changed += b" " * (-len(changed) % 8)
        return data[: start - 8] + len(changed).to_bytes(8, "little") + changed + rest
    return data[:start] + changed + rest


def replaced_value(tree: Any, chance: random.Random) -> Any:
    """The tree with one value, or one name, replaced; texts that contain JSON are opened too."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(tree)
    if not places:
        return chance.choice(VALUES)
    node, key = chance.choice(places)
    if isinstance(node[key], str) and node[key][:1] in ("{", "[") and chance.random() < 0.7:
        try:
            node[key] = json.dumps(replaced_value(json.loads(node[key]), chance))
        except (ValueError, RecursionError):
            node[key] = chance.choice(("[" * 5000, "{", "[]", "[1]", "null"))
    elif isinstance(node, dict) and chance.random() < 0.15:
        node[chance.choice(("", "x", "\ud800", f"{key} ", "0"))] = node.pop(key)
    elif isinstance(node, dict) and chance.random() < 0.1:
        del node[key]
    elif chance.random() < 0.1:
        node[key] = [node[key]] * chance.choice((0, 1, 2, 1000))
    else:
        node[key] = chance.choice(VALUES)
    return tree
