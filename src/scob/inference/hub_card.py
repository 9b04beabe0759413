"""The model card of a published model: a metadata block for the hub, then classes, data, results, training, licence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import yaml

from scob.config import Config
from scob.training.model_folder import ModelCard, plain

PAPER = "Semantic Contrastive Bootstrapping for Single-positive Multi-label Recognition (Chen, Zhao, Li; IJCV)"
MEASURED = {
    "OF1": "overall F1 at the threshold", "CF1": "F1 at the threshold, averaged over the classes",
}  # fmt: skip


@dataclass(frozen=True)
class TrainedAs:
    """How a model was trained: the settings and the summary of its run."""

    config: Config
    summary: Mapping[str, Any]


def hub_card(card: ModelCard, name: str, licence: str | None, data: str, trained: TrainedAs | None) -> str:
    """The README of a repository: what a stranger must know before using the model."""
    data = data or (last_part(trained.config.data.source) if trained is not None else "not stated")
    block = yaml.safe_dump(metadata(card, name, licence, data), sort_keys=False, allow_unicode=True)
    sections = {
        "Use it": use(name),
        "Classes": [", ".join(map(plain, card.classes))],
        "Data": data_lines(card, data, trained),
        "Results": result_lines(card, trained),
        "How it was trained": training_lines(card, trained),
        "Licence": [licence if licence is not None else "Whoever published this model has not named a licence."],
    }
    text = f"---\n{block}---\n\n# {plain(name.partition('/')[2])}\n\n"
    text += f"Names what an image shows: {len(card.classes)} classes, any number of them per image. By Scob.\n"
    return text + "".join(f"\n## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in sections.items())


def metadata(card: ModelCard, name: str, licence: str | None, data: str) -> dict[str, Any]:
    """The block that the hub reads: library, task, licence, and the results as a model index."""
    block: dict[str, Any] = {
        "library_name": "scob",
        "pipeline_tag": "image-classification",
        "tags": ["scob", "multi-label", "single-positive", card.method],
    }
    if licence is not None:
        block["license"] = licence
    figures = measured(card)
    if figures:
        dataset = {"name": data, "type": "".join(c if c.isalnum() else "-" for c in data.lower())}
        metrics = [{"type": kind, "name": kind, "value": round(value, 2)} for kind, value in figures.items()]
        task = {"type": "image-classification", "name": "Multi-label image classification"}
        block["model-index"] = [
            {"name": name.partition("/")[2], "results": [{"task": task, "dataset": dataset, "metrics": metrics}]}
        ]
    return block


def measured(card: ModelCard) -> dict[str, float]:
    """mAP, OF1 and CF1 on the reported split; {} if nothing was measured."""
    evaluation = card.evaluation or {}
    figures = {"mAP": evaluation.get("mAP")} | {
        kind: (evaluation.get("at_threshold") or {}).get(kind) for kind in MEASURED
    }
    return {kind: float(value) for kind, value in figures.items() if isinstance(value, int | float)}


def use(name: str) -> list[str]:
    """How to load it."""
    return [
        "```python", "import scob", "", f'model = scob.Scob.from_pretrained("{name}")',
        'print(model.predict(["photo.jpg"])[0].labels)', "```", "",
        f"On the command line: `scob predict {name} photo.jpg`",
    ]  # fmt: skip


def data_lines(card: ModelCard, data: str, trained: TrainedAs | None) -> Iterator[str]:
    """What it learnt from."""
    yield f"- Data: {plain(data)}"
    if trained is not None:
        yield f"- Training images: {trained.summary['train_images']:,}"
    yield f"- Observed labels: {plain(str(card.labels.get('origin')))} (SHA-256 {card.labels.get('fingerprint')})"


def result_lines(card: ModelCard, trained: TrainedAs | None) -> Iterator[str]:
    """What was measured, and on what."""
    figures = measured(card)
    if not figures:
        yield "Nothing was measured: the run had no images whose labels are all known."
        return
    split = trained.summary.get("evaluate_split") if trained is not None else None
    yield (
        f"On {(card.evaluation or {}).get('images', 'the')} images"
        + (f" of the split {plain(split)}" if split else "")
        + ":"
    )
    yield ""
    yield "| measure | value |"
    yield "|---|---|"
    yield from (
        f"| {MEASURED.get(kind, 'mean average precision')} ({kind}) | {value:.2f} |" for kind, value in figures.items()
    )


def training_lines(card: ModelCard, trained: TrainedAs | None) -> Iterator[str]:
    """The method, the network, and the settings that a reader asks about first."""
    origin = {"scob": f", from {PAPER}", "pairs": f", which builds on Scob, from {PAPER}"}
    yield f"- Method: {card.method}{origin.get(card.method, '')}"
    yield f"- Backbone: {plain(last_part(card.backbone_name))}; head: {plain(str(card.model.get('head')))}"
    yield f"- Input: RGB, resized to {card.size} x {card.size} pixels"
    if trained is not None:
        t, chosen = trained.config.train, trained.summary["selected_epoch"] + 1
        yield f"- {t.epochs} epochs, batches of {t.batch}; the model is of epoch {chosen} (train.select={t.select})"
        yield f"- Seeds: labels {trained.config.labels.seed}, training {t.seed}; preset: {trained.config.preset}"
    yield f"- Thresholds: {min(card.thresholds):.3f} to {max(card.thresholds):.3f}, one per class, in config.json"


def last_part(name: str) -> str:
    """A local path without its folders, which are nobody's business; any other name as it is."""
    local = name.startswith(("/", "~", ".")) or "\\" in name or PurePath(name).is_absolute()
    return PurePath(name.replace("\\", "/")).name if local else name
