"""Write docs/settings.md from the settings: python scripts/settings_page.py (a test keeps the page up to date)."""

from pathlib import Path
from typing import Any

from scob import methods
from scob.config import SECTIONS, Config, paper_values

REASONS = {
    "model.calibrate_bn": "ImageNet's BatchNorm statistics are wrong for images squashed to 448 pixels; "
    "re-estimating them on the training images takes one pass and needs no labels.",
    "model.position": "The appendix reads like `qk`; the default is simpler. On VOC 2007 both do equally well "
    "(docs/results.md).",
    "scob.tau": "At 1.0, the softmax over 19 negatives is nearly flat; 0.2 was better on held-out VOC 2007 images.",
    "scob.cont_scale": "Dividing by 1 + the number of negatives ties the weight of the loss to the number of classes.",
    "train.epochs": "Fixed before we measured; not compared with 30.",
    "train.batch": "Faster for the same number of epochs; accuracy not compared.",
    "train.lr_smt": "4e-4 with post-norm layers and no warm-up diverged on photographs (in a trial on VOC 2012).",
    "train.lr_mapping": "The same rate as the other new layers; not compared.",
    "train.lr_estimator": "The paper's 0.01 is for an Adam over the whole matrix, which keeps moving a row for "
    "hundreds of steps after its image was seen: about 30 times the rate per visit. Ours moves only the rows of the "
    "batch, once; 1.0 was best on held-out VOC 2007 images among 0.01, 0.1, 0.3 and 1 (docs/results.md).",
    "train.warmup": "Post-norm transformers need one.",
    "train.schedule": "Without decay, the last epochs fit the mistakes of the estimator.",
    "train.ema": "Averaged weights are evaluated, for every method in a comparison. Not ablated.",
    "train.holdout_labels": "Your own images have no full labels to choose an epoch by. With "
    "`observed`, unknown labels count as absent (mAP-observed); if at least as many labels are known to be absent as "
    "present (partial labels), unknown ones are left out.",
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
    """The page as Markdown."""
    lines = [
        "# Settings",
        "",
        "Every setting, its default, the paper's value (– if it gives none), and what it does. Written by",
        "`python scripts/settings_page.py`. Settings come from YAML and from `key=value` words:",
        "`scob train configs/voc2007.yaml scob.tau=0.1 method=role`. `preset=paper` sets every value below to the",
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
        "Each is in the section named after its method: `scob train demo method=ll-r ll-r.delta=0.1`. The third column",
        "is the value in the method's own paper.",
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
