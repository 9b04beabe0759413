"""Settings from YAML files and `key=value` words: read, merged, checked, explained when wrong, written again."""

import contextlib
import re
import reprlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from scob.config.sections import SECTIONS, Config
from scob.config.values import known_keys, preset_values, values_before
from scob.errors import UserError, nearest

PACKAGED = Path(str(files("scob"))) / "configs"  # the settings files that come with Scob
_BRIEF = reprlib.Repr()  # an error quotes a wrong value, but not pages of it
_BRIEF.maxstring = _BRIEF.maxother = 200


def parse_overrides(words: Iterable[str]) -> dict[str, Any]:
    """`["train.epochs=3", "method=role"]` -> `{"train": {"epochs": 3}, "method": "role"}`; values are YAML."""
    tree: dict[str, Any] = {}
    for word in words:
        key, equals, raw = word.partition("=")
        if not equals or not key:
            raise UserError(f"{word!r} is not a setting: write key=value, as in train.epochs=3")
        try:
            value = parse_yaml(raw) if raw else ""
        except (yaml.YAMLError, ValueError, RecursionError):
            value = raw
        if isinstance(value, str):  # YAML 1.1 reads 4e-5 as a string
            with contextlib.suppress(ValueError):
                value = float(value)
        node = tree
        *path, last = key.split(".")
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise UserError(f"{key!r}: {part!r} is a value, not a section")
        node[last] = value
    return tree


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over` on top, section by section."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def with_preset(chosen: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """`asked` on top of settings that Scob chose (in a packaged file, or to suit some images).

    A preset that is asked for outranks what Scob chose, except data, labels and the backbone: they say what to learn
    from.
    """
    preset = preset_values(asked.get("preset"))
    outranking = {name: values for name, values in preset.items() if name not in ("data", "labels")}
    return merge(merge(chosen, outranking), asked)


def is_packaged(path: Path) -> bool:
    """Whether a settings file is one that comes with Scob: the file itself, or an unchanged copy in a checkout."""
    try:
        packaged = PACKAGED / path.resolve().name
        return packaged.is_file() and packaged.read_bytes() == path.read_bytes()
    except (OSError, ValueError):
        return False


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can expand to more than memory holds, and settings need none."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not allowed")
        return super().compose_node(parent, index)


def parse_yaml(text: str) -> Any:
    """One YAML document of plain values; anything else raises `YAMLError`, `ValueError` or `RecursionError`."""
    try:
        return yaml.load(text, Loader=_PlainLoader)
    except (KeyError, IndexError, AttributeError):  # PyYAML does not check what a tag is put before
        raise yaml.constructor.ConstructorError(None, None, "a tag such as !!int does not fit its value") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; {} for an empty file."""
    try:
        tree = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"there is no settings file at {path}") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder, not a settings file; to train on images, write --images {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the settings file {path}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(k, str) for k in tree):
        raise UserError(f"{path} must contain settings written as 'section: {{key: value}}'")
    return cast(dict[str, Any], tree)


def resolve(
    tree: Mapping[str, Any], where: str = "the settings", methods: Iterable[str] = (), stored: bool = False
) -> Config:
    """Check a tree of settings and fill in the preset and the defaults.

    `methods` names the methods whose sections are allowed. `stored` settings were written by `dump` for a run, so they
    have the preset's values already: what they lack came later, and takes the value that says how things were before.
    They may have values that are no longer allowed.
    """
    allowed = {"preset", "method", *SECTIONS, *methods}
    for key in tree:
        if key not in allowed:
            suggestion = nearest(key, allowed) or nearest(key, known_keys())  # a section misspelt, or left out
            raise UserError(f"{where}: there is no setting {key!r}.{suggestion}")
    if stored:
        tree = merge(values_before(), tree)
    else:
        data = tree.get("data")
        data_format = data.get("format") if isinstance(data, Mapping) else None
        tree = merge(preset_values(tree.get("preset"), data_format), tree)
    try:
        return Config.model_validate(tree, context={"stored": stored})
    except ValidationError as error:
        raise UserError(f"{where}: {explain(error)}") from None


def explain(error: ValidationError, prefix: str = "", keys: Iterable[str] | None = None) -> str:
    """The first problem pydantic found, as one sentence that names the full key."""
    first = error.errors(include_url=False)[0]
    key = ".".join([*([prefix] if prefix else []), *(str(part) for part in first["loc"])])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key!r}.{nearest(key, known_keys() if keys is None else keys)}"
    return f"{key} is {_BRIEF.repr(first['input'])}, but {in_our_words(first)}"


def in_our_words(problem: Mapping[str, Any]) -> str:
    """What a value must be, from pydantic's description of what is wrong with it."""
    kind, limits = problem["type"], problem.get("ctx") or {}
    if kind == "literal_error":
        *others, last = [word.strip().strip("'") for word in re.split(r",| or ", limits["expected"])]
        return f"it must be {', '.join(others)}{' or ' if others else ''}{last}"
    for start, words in (
        ("greater_than_equal", "it must be at least {ge}"), ("less_than_equal", "it must be at most {le}"),
        ("greater_than", "it must be more than {gt}"), ("less_than", "it must be less than {lt}"),
        ("int", "it must be a whole number"), ("float", "it must be a number"), ("finite", "it must be a number"),
        ("bool", "it must be true or false"), ("string", "it must be text"), ("list", "it must be a list"),
        ("tuple", "it must be a list"), ("dict", "it must be settings, as in key: value"),
        ("model", "it must be settings, as in key: value"), ("missing", "it must be given"),
    ):  # fmt: skip
        if kind.startswith(start):
            return words.format(**limits)
    message = str(problem["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def load_config(path: Path | None, overrides: Iterable[str] = (), methods: Iterable[str] = ()) -> Config:
    """Settings from a YAML file (or only the defaults) and `key=value` words.

    A preset among the words outranks a packaged file, but not one that a user wrote.
    """
    names = list(methods)
    words = list(overrides)
    tree = read_yaml(path) if path is not None else {}
    if path is not None:
        resolve(tree, str(path), names)
    put_on_top = with_preset if path is not None and is_packaged(path) else merge
    return resolve(put_on_top(tree, parse_overrides(words)), "on the command line" if words else "the settings", names)


def dump(config: Config) -> str:
    """The resolved settings as YAML."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
