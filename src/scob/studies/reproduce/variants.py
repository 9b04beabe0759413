"""The rows of the paper's tables as settings. Rows with the same settings share one run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GAMMAS = (0.1, 0.3, 0.5, 0.7, 0.9)  # the paper prints no values; it chooses 0.5
LAMBDAS = (0.001, 0.01, 0.1, 1.0, 10.0)  # "different numbers of magnitude"; it chooses 0.1
NEGATIVES = (1, 10, 100, 1000)
PRETRAINED = {"detco": "+ DetCo", "soco": "+ SoCo", "up-detr": "+ UP-DETR"}  # rows that need a backbone file


@dataclass(frozen=True)
class Variant:
    """One way to train: its title, what it changes in the settings, and which labels it observes."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    labels: str = "1 Positive"


def partial(variant: Variant) -> Variant:
    """The same with a tenth of all labels, positive and negative, instead of one positive per image."""
    changes = {**variant.changes, "labels": {"kind": "partial", "fraction": 0.1}}
    return Variant(variant.title, changes, "10% Pos. Neg.")


def scob(title: str = "Scob", head: str = "smt", **settings: Any) -> Variant:
    """Scob with some of its settings changed."""
    all_settings = {"guidance": "cam", "contrast": "ipt", "optimisation": "em", **settings}
    return Variant(title, {"method": "scob", "model": {"head": head}, "scob": all_settings})


def baseline(method: str, title: str, head: str = "cnn", backbone: str = "") -> Variant:
    """Another method, with the convolutional head of the paper's baseline unless it has a head of its own."""
    model = {"head": head, **({"backbone": backbone} if backbone else {})}
    return Variant(title, {"method": method, "model": model})


SCOB = scob()
ROLE = baseline("role", "Baseline (ROLE)")
FULL = Variant("Full labels", {"method": "full", "model": {"head": "smt"}}, "all")
WITHOUT_CONTRAST = scob("Scob w/o CL", contrast="none")

ABLATION = {
    "cnn": ROLE,
    "large-cnn": baseline("role", "Large CNN", "large-cnn"),
    "smt": WITHOUT_CONTRAST,
    "cnn-ipt": scob("CNN, IPT", "cnn", guidance="none"),
    "smt-nocam-random": scob("SMT, random", guidance="none", contrast="random"),
    "smt-nocam-ipt": scob("SMT, IPT", guidance="none"),
    "smt-cam-random": scob("SMT, CAM, random", contrast="random"),
    "scob": SCOB,
    "full": FULL,
}
CONTRASTIVE = {
    "baseline": ROLE,
    **{kind: scob(f"+ {name}", "cnn", guidance="none", contrast=kind)
       for kind, name in {"byol": "BYOL", "moco": "MoCo", "simclr": "SimCLR"}.items()},
    "scob": SCOB,
    "full": FULL,
}  # fmt: skip
MASKS = {"baseline": ROLE, "gt-mask": scob("GT masks", guidance="gt-mask"), "cam": scob("CAMs"), "full": FULL}
OPTIMISATION = {
    "baseline": ROLE,
    "joint": scob("Joint optimisation", optimisation="joint"),
    "two-stage": scob("Two stage", optimisation="two-stage"),
    "scob": SCOB,
    "full": FULL,
}
METRICS = {"role": ROLE, "scob": SCOB, "scob-partial": partial(SCOB), "full": FULL}
CAMS = {"scob-without-contrast": WITHOUT_CONTRAST, "scob": SCOB, "role": ROLE, "full": FULL}
# Scob closes part of the gap from ROLE to full labels.
ROLE_SCOB_FULL = {"role": ROLE, "scob": SCOB, "full": FULL}


def paper_id(method: str) -> str:
    """The id of a method's row in the paper's main table, if it has one."""
    return {"ml-gcn": "gcn-ml"}.get(method, method)


def main_rows(methods: tuple[str, ...], titles: Mapping[str, str]) -> dict[str, Variant]:
    """Every method with both kinds of labels, by the paper's row ids if it has the row; then full labels."""
    rows: dict[str, Variant] = {}
    for name in methods:
        if name == "full":
            continue
        single = SCOB if name == "scob" else baseline(name, titles.get(name, name))
        # The paper has these methods with a tenth of the labels; their rows with one positive are ours.
        row = paper_id(name)
        tenth = row in ("ssgrl", "gcn-ml", "kggr", "curriculum", "partial-bce", "sst", "sarb")
        rows[f"{row}-single" if tenth else row] = single
        rows[row if tenth else f"{row}-partial"] = partial(single)
    return {**rows, "full": FULL}


def contrastive_rows(backbone_files: Mapping[str, str]) -> dict[str, Variant]:
    """Tab. 4; a row of other pre-training only if its weights are given."""
    given = {
        key: baseline("role", title, backbone=backbone_files[key])
        for key, title in PRETRAINED.items()
        if key in backbone_files
    }
    return {**CONTRASTIVE, **given}


def setting_rows(setting: str, values: tuple[float, ...]) -> dict[float, Variant]:
    """Scob with each value of one of its settings."""
    key = setting.rpartition(".")[2]
    rows: dict[float, Variant] = {}
    for value in values:
        changed: dict[str, Any] = {key: value}
        rows[value] = scob(f"{key} {value:g}", **changed)
    return rows
