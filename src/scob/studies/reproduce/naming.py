"""Names of data sets, runs and label files in a study. Equal settings give equal names, so nothing is run twice."""

import hashlib
import json
import re
from pathlib import Path

from scob import methods
from scob.algorithm.guidance import GuidedMethod
from scob.config import Config, result_neutral_keys
from scob.config.values import section_before, values_before
from scob.data.readers import infer_format
from scob.errors import UserError
from scob.files import fingerprint
from scob.model.embedded import backbone_path


def identify(source: str, format: str = "auto") -> tuple[str, str]:
    """The data set's id among the paper's (or one of its own), and its readable name."""
    kind = infer_format(source) if format == "auto" else format
    name = Path(source).name if kind != "scenes" else source
    year = re.search(r"20\d\d", name) or re.search(r"20\d\d", " ".join(p.name for p in Path(source).glob("VOC*")))
    known = {"coco": "coco2014", "cub": "cub", "scenes": "scenes"}
    if kind == "voc" and year and year.group() in ("2007", "2012"):
        return f"voc{year.group()}", name
    return known.get(kind, re.sub(r"\W+", "-", Path(source).stem).lower()), name


def run_name(data_id: str, base: Config, config: Config) -> str:
    """A run folder's name: how it differs from `base`, its seed, and a digest of every setting that changes results."""
    tree = config.model_dump(mode="json")
    for name in result_neutral_keys():
        section, _, key = name.partition(".")
        del tree[section][key]
    for section, before in values_before().items():  # `auto` leaves a name as it was before there was a choice
        tree[section].update({key: value for key, value in before.items() if tree[section][key] == "auto"})
    own, kind = methods.written_out(config).method_section(config.method), methods.find(config.method)
    later = {key: own[key] for key, before in section_before(kind.Settings).items() if own.get(key, before) != before}
    if later:  # a default that came later gives other results, so it gets another name
        tree[config.method] = {**(tree.get(config.method) or {}), **later}
    read = {config.method, "scob"} if issubclass(methods.find(config.method), GuidedMethod) else {config.method}
    foreign = set(tree) - {"preset", "data", "labels", "model", "train", "method"} - read
    for section in foreign:  # settings of other methods do not matter
        del tree[section]
    tree["labels"]["file"] = _digest_of_file(config.labels.file)
    prior = tree["labels"].pop("prior")
    if prior and methods.find(config.method).needs_prior:  # other methods do not read it
        tree["labels"]["prior"] = _digest_of_file(prior)
    parts = [data_id, config.method, *_differences(base, config), f"seed{config.train.seed}", _digest(tree)]
    return re.sub(r"[^\w.+-]+", "-", "-".join(parts))


def labels_name(data_id: str, config: Config) -> str:
    """The name of the file of observed labels for a data set and its label settings."""
    d, s = config.data, config.labels
    drawn = [d.source, d.format, d.train, d.limit, d.difficult, d.skip_bad, s.kind, s.fraction, s.seed]
    return f"{data_id}-{s.kind}-{_digest([*drawn, _digest_of_file(s.file)])}.safetensors"


def weights_name(backbone: str) -> str:
    """A backbone's name without the folders above it, and the digest of its file if it is one."""
    path = backbone_path(backbone)
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        return backbone
    return f"{path.name} (SHA-256 {fingerprint(file)[:12]})"


def _digest(values: object) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _digest_of_file(path: str) -> str:
    if not path:
        return ""
    try:
        return fingerprint(Path(path))
    except OSError as error:
        raise UserError(f"cannot read the file {path}, which the settings name: {error.strerror}") from error


def _differences(base: Config, config: Config) -> list[str]:
    """`contrast-none`: the settings of labels, model and method that are not those of `base`."""
    differences = []
    sections = ["labels", "model", *(["scob"] if issubclass(methods.find(config.method), GuidedMethod) else [])]
    for section in sections:
        ours, plain = getattr(config, section).model_dump(), getattr(base, section).model_dump()
        for key, value in ours.items():
            if value != plain[key] and key not in ("file", "prior"):
                differences.append(f"{key}-{Path(str(value)).name if key == 'backbone' else value}")
    return differences
