"""Write docs/settings.md from the settings themselves: python scripts/settings_page.py (a test keeps it current)."""

from pathlib import Path
from typing import Any

from scob import methods
from scob.config import SECTIONS, Config, paper_values

REASONS = {
    "model.calibrate_bn": "ImageNet's BatchNorm statistics are wrong at 448 pixels, squash-resized: re-estimating them "
    "on the unlabelled training images costs one pass and needs no label.",
    "model.position": "The appendix reads as `qk`; the default is the simpler one. On VOC 2007 they are alike "
    "(docs/results.md).",
    "scob.tau": "At 1.0 the softmax over 19 negatives is nearly flat; 0.2 did better on held-out VOC 2007 images.",
    "scob.cont_scale": "Dividing by 1 + the number of negatives ties the loss's weight to the number of classes.",
    "train.epochs": "Fixed before our measurements; not compared with 30.",
    "train.batch": "Faster for the same number of epochs; not compared in accuracy.",
    "train.lr_smt": "4e-4 with post-norm layers and no warm-up diverged on photographs (a trial on VOC 2012).",
    "train.lr_mapping": "The rate of the other new layers; not compared.",
    "train.lr_estimator": "The paper's 0.01 belongs to an Adam over the whole matrix, which goes on moving a row for "
    "hundreds of steps after its image was seen: about 30 times the rate a visit. Ours moves only the batch's rows, "
    "once; 1.0 was best on held-out VOC 2007 images among 0.01, 0.1, 0.3 and 1 (docs/results.md).",
    "train.warmup": "Post-norm transformers want one.",
    "train.schedule": "Without decay the last epochs fit the estimator's mistakes.",
    "train.ema": "Evaluates averaged weights; every method of a comparison gets them. Not ablated.",
    "train.holdout_labels": "People's own images have no full labels to choose an epoch by. With "
    "`observed`, unknown labels count as absent (mAP-observed); where as many are known to be absent as present, "
    "or more (partial labels), unknown ones are left out.",
    "train.select": "Choosing on the reported split overstates the result; the paper does not say how it chose.",
}


def value(thing: Any) -> str:
    return "–" if thing is None or thing == "" else f"`{thing}`"


def words(text: object) -> str:
    return str(text).replace("|", ", ")


def row(key: str, field: Any) -> str:
    paper = field.json_schema_extra["paper"]
    return f"| `{key}` | {value(field.default)} | {value(paper)} | {words(field.description)} |"


def page() -> str:
    """The whole page."""
    lines = [
        "# Settings",
        "",
        "Every setting, its default, the paper's value (– where it gives none), and what it does. Made by",
        "`python scripts/settings_page.py`. Settings come from YAML and from `key=value` words:",
        "`scob train configs/voc2007.yaml scob.tau=0.1 method=role`. `preset=paper` puts every value below back to the",
        "paper's.",
        "",
        "| setting | default | paper | what it is |",
        "|---|---|---|---|",
    ]
    for key in ("preset", "method"):
        field = Config.model_fields[key]
        lines.append(f"| `{key}` | {value(field.default)} | – | {field.description} |")
    for name, section in SECTIONS.items():
        lines += [row(f"{name}.{key}", field) for key, field in section.model_fields.items()]
    lines += [
        "",
        "## Where the default differs from the paper, and why",
        "",
        "| setting | ours | paper | why |",
        "|---|---|---|---|",
    ]
    for name, changed in paper_values().items():
        for key, printed in changed.items():
            default = SECTIONS[name].model_fields[key].default
            lines.append(f"| `{name}.{key}` | {value(default)} | {value(printed)} | {REASONS[f'{name}.{key}']} |")
    lines += [
        "",
        "## Settings of the rivals",
        "",
        "Each is in a section of its method's name: `scob train demo method=ll-r ll-r.delta=0.1`. The third column is",
        "what the method's own paper gives.",
        "",
        "| setting | default | its paper | what it is |",
        "|---|---|---|---|",
    ]
    for name in methods.names():
        fields = {} if name == "scob" else methods.find(name).Settings.model_fields
        lines += [row(f"{name}.{key}", field) for key, field in fields.items()]
    lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs/settings.md").write_text(page(), encoding="utf-8")
