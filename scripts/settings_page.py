"""Write docs/settings.md from the settings themselves (a test checks that it is current)."""

from pathlib import Path
from typing import Any

from scob import methods
from scob.config import SECTIONS, Config, changed_values, known_keys, result_neutral_keys

REASONS = {
    "model.calibrate_bn": "ImageNet's BatchNorm statistics do not fit images squashed to 448 x 448 pixels. "
    "Re-estimating them on the training images takes one pass and needs no labels.",
    "model.position": "The paper's appendix describes `qk`; `input` is simpler. On VOC 2007 the results are about "
    "the same (docs/results.md).",
    "scob.tau": "At 1.0 the softmax over 19 negatives is nearly flat; 0.2 was better on held-out VOC 2007 images.",
    "scob.cam_source": "Stage 3's own map is made of specks: on VOC 2012 it covers a tenth of the object's cells. "
    "Stage 4's, spread over cells with similar features, covers three quarters (docs/paper.md).",
    "scob.cont_scale": "Divided by 1 + the number of negatives, Eq. 8 counts less the more classes there are. Divided "
    "by the square root of the number of classes, it counts about the same (docs/paper.md).",
    "train.epochs": "Chosen before we measured anything; not compared with 30.",
    "train.batch": "Faster for the same number of epochs; the accuracy was not compared.",
    "train.lr_smt": "4e-4 with post-norm layers and no warm-up diverged on photographs (one trial on VOC 2012).",
    "train.lr_mapping": "The same rate as for the other new layers; not compared.",
    "train.estimator": "The paper's Adam goes through the whole matrix of estimates in every step and keeps moving a "
    "row for some hundred steps after its image was seen. `dense` does the same, but makes up for those steps when "
    "the row is next read. `rows` moves the rows of the batch, once.",
    "train.lr_estimator": "The paper's 0.01 is for a dense Adam; on VOC it moves an estimate 20 to 30 times as far per "
    "visit of its image as a row-wise one. On held-out VOC 2007 images, row-wise, 1.0 was better than 0.01, 0.1 and "
    "0.3 (docs/results.md).",
    "train.warmup": "Post-norm transformers need a warm-up.",
    "train.schedule": "Without decay, the last epochs fit the mistakes of the label estimator.",
    "train.ema": "Averaged weights are evaluated, for every method in a comparison. Not ablated.",
    "train.holdout": "The paper trains on all images and does not say how it chose the epoch.",
    "train.holdout_labels": "Your own images have no full labels to choose an epoch with. With `observed`, unknown "
    "labels count as absent (mAP-observed); they are left out if at least as many labels are known to be absent as "
    "present (partial labels).",
    "train.select": "Choosing the epoch on the reported split overstates the result. "
    "The paper does not say how it chose.",
}


def value(thing: Any) -> str:
    return "–" if thing is None or thing == "" else f"`{thing}`"


def words(text: object) -> str:
    return str(text).replace("|", ", ")


def row(key: str, field: Any, columns: tuple[str, ...] = ("paper", "released")) -> str:
    values = [field.default, *(field.json_schema_extra[column] for column in columns)]
    return f"| `{key}` | {' | '.join(value(v) for v in values)} | {words(field.description)} |"


def page() -> str:
    """The page as Markdown."""
    lines = [
        "# Settings",
        "",
        "Every setting with its default, the paper's value (– if the paper gives none), the value in the authors'",
        "released code, and what it does. Settings come from YAML files and from `key=value` words on the command",
        "line: `scob train configs/voc2007.yaml scob.tau=0.1 method=role`. `python scripts/settings_page.py` writes",
        "this page.",
        "",
        "`preset=paper` sets every value in the column 'paper', `preset=released` every value in the column",
        "'released', both except the backbone. Words on the command line outrank a preset. So does a settings file of",
        "your own. A preset on the command line outranks the files that come with Scob (`configs/`), except their",
        "`data`, `labels` and backbone: `scob train configs/coco2014.yaml preset=paper` trains for 30 epochs with a",
        "batch of 8. It also outranks the settings that `scob train --images` chooses to suit your images, with the",
        "same exceptions. `preset=released` with `data.format=coco` also sets `labels.k=3.9`. [paper.md](paper.md)",
        "lists what the released code does and no setting can express.",
        "",
        "| setting | default | paper | released | what it does |",
        "|---|---|---|---|---|",
    ]
    for key in ("preset", "method"):
        field = Config.model_fields[key]
        lines.append(f"| `{key}` | {value(field.default)} | – | – | {field.description} |")
    for name, section in SECTIONS.items():
        lines += [row(f"{name}.{key}", field) for key, field in section.model_fields.items()]
    neutral = ", ".join(f"`{key}`" for key in known_keys() if key in result_neutral_keys())
    lines += [
        "",
        "Some settings change where or how fast a run computes, or when it logs and saves, but not its result. They",
        f"may differ when a run is resumed: {neutral}.",
        "",
        "## Where the default differs from the paper, and why",
        "",
        "| setting | ours | paper | why |",
        "|---|---|---|---|",
    ]
    for name, changed in changed_values("paper").items():
        for key, printed in changed.items():
            default = SECTIONS[name].model_fields[key].default
            lines.append(f"| `{name}.{key}` | {value(default)} | {value(printed)} | {REASONS[f'{name}.{key}']} |")
    lines += [
        "",
        "## Settings of the other methods",
        "",
        "Each method's settings are in a section of its name: `scob train demo method=ll-r ll-r.delta=0.1`. The third",
        "column is the value in that method's own paper.",
        "",
        "| setting | default | its paper | what it does |",
        "|---|---|---|---|",
    ]
    for name in methods.names():
        fields = {} if name == "scob" else methods.find(name).Settings.model_fields
        lines += [row(f"{name}.{key}", field, ("paper",)) for key, field in fields.items()]
    lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs/settings.md").write_text(page(), encoding="utf-8")
