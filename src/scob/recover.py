"""The labels that images are missing, ranked, each with its evidence: score, estimate, mask, nearest instances.

Nearest instances come from an instance priority tree built from the finished model: for every class the masked features
of the images that are known to show it, the most confident ones kept.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from scob.config import nearest as nearest_name
from scob.data.source import Images, Split
from scob.errors import UserError
from scob.explain import Box, box_of, enlarge, pair_maps, rle, without_specks
from scob.inputs import find_images
from scob.ipt import EMPTY, InstancePriorityTree
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.predict import Progress, Scob, find_model
from scob.thresholds import Known, open_run, score_split

Floats = NDArray[np.float32]
CAPACITY = 80
TREE_NUMBERS = 1 << 27  # half a gigabyte: with thousands of classes the trees get shallower instead
MASK_SIDE = 128  # masks are stored at most this large; they are blobs, not outlines
REVIEWED_LABELS = "labels-reviewed.safetensors"


@dataclass(frozen=True)
class Suggestion:
    """A label that an image may be missing."""

    image: str
    row: int
    label: str
    score: float
    estimate: float | None
    confidence: float
    mask: dict[str, Any] | None
    box: Box | None
    nearest: tuple[tuple[str, float], ...]
    observed: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """A line of suggestions.jsonl."""
        return {
            "image": self.image,
            "class": self.label,
            "confidence": round(self.confidence, 6),
            "score": round(self.score, 6),
            "estimate": None if self.estimate is None else round(self.estimate, 6),
            "mask": self.mask,
            "box": None if self.box is None else [round(side, 5) for side in self.box],
            "nearest": [{"image": image, "score": round(score, 5)} for image, score in self.nearest],
            "observed": list(self.observed),
        }


@dataclass(frozen=True)
class Recovered:
    """What `scob recover` found and where it was written."""

    folder: Path
    suggestions: tuple[Suggestion, ...]
    images: int
    unknown: int
    skipped: int = 0
    written: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Imported:
    """A label file with a person's decisions in it."""

    path: Path
    confirmed: int
    rejected: int
    changed: int
    fingerprint: str


def confidence_of(scores: Floats, estimates: Floats | None) -> Floats:
    """What the ranking goes by: the mean of score and estimate; the score where there is no estimate."""
    if estimates is None:
        return scores
    return np.asarray(np.where(np.isnan(estimates), scores, (scores + estimates) / 2), dtype=np.float32)


def rank(
    confidence: Floats, observed: NDArray[np.int8], limits: Floats | float, top: int | None = None
) -> list[tuple[int, int]]:
    """(row, class) of every unknown entry that reaches its limit, the surest first."""
    rows, classes = np.nonzero((observed == UNKNOWN) & (confidence >= limits))
    order = np.lexsort((classes, rows, -confidence[rows, classes]))[:top]
    return [(int(rows[i]), int(classes[i])) for i in order]


class Evidence:
    """Masks of (image, class) pairs and their nearest confirmed instances, computed in batches of images."""

    def __init__(self, scob: Scob, batch: int = 16) -> None:
        self.scob, self.batch = scob, batch
        dimension = scob.network.dimension
        capacity = max(4, min(CAPACITY, TREE_NUMBERS // (dimension * (len(scob.classes) + 1))))
        self.capacity = capacity
        self.tree: InstancePriorityTree | None = None
        self.names: tuple[str, ...] = ()

    @torch.no_grad()
    def look(self, images: Images, pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Heat (P, h, w) and unit features (P, E) of the foreground; each image passes the backbone once a batch."""
        wanted: dict[int, list[int]] = {}
        for number, (row, _) in enumerate(pairs):
            wanted.setdefault(row, []).append(number)
        rows = list(wanted)
        heats: dict[int, Tensor] = {}
        vectors: dict[int, Tensor] = {}
        device = self.scob.device
        for start in range(0, len(rows), self.batch):
            group = rows[start : start + self.batch]
            pixels = np.stack([images.load(row, self.scob.size) for row in group])
            features = self.scob.network.backbone(self.scob.prepare(pixels))
            numbers = [n for row in group for n in wanted[row]]
            place = torch.tensor([group.index(pairs[n][0]) for n in numbers], device=device)
            maps = pair_maps(
                self.scob.network, features, place, torch.tensor([pairs[n][1] for n in numbers], device=device)
            )
            for s in range(0, len(numbers), 64):
                part = slice(s, s + 64)
                chosen = (features[0][place[part]], features[1][place[part]])
                keep = (maps.keep[0][part], maps.keep[1][part])
                seen = F.normalize(self.scob.network.embed(chosen, keep).float(), dim=1)
                for n, heat, vector in zip(numbers[part], maps.heat[part], seen, strict=True):
                    heats[n], vectors[n] = heat.cpu(), vector.cpu()
        order = range(len(pairs))
        return torch.stack([heats[n] for n in order]), torch.stack([vectors[n] for n in order])

    def confirm(self, known: Known, scores: Floats, wanted: set[int], progress: Progress | None = None) -> None:
        """Fill the tree with the images known to show the `wanted` classes, the most confident `capacity` of each."""
        pairs: list[tuple[int, int]] = []
        for c in sorted(wanted):
            rows = np.flatnonzero(known.observed.values[:, c] == PRESENT)
            best = rows[np.argsort(-scores[rows, c], kind="stable")][: self.capacity]
            pairs += [(int(row), c) for row in best]
        if not pairs:
            return
        self.names = known.observed.images
        # An image may be the witness of several classes, so a node's id is the pair's number, not the image's.
        self.pairs = sorted(pairs)
        self.tree = InstancePriorityTree(
            len(self.scob.classes), self.capacity, self.scob.network.dimension, len(self.pairs)
        )
        for start in range(0, len(self.pairs), self.batch):
            group = self.pairs[start : start + self.batch]
            _, vectors = self.look(known.split.images, group)
            self.tree.insert(
                torch.tensor([c for _, c in group]),
                torch.tensor([float(scores[row, c]) for row, c in group]),
                torch.arange(start, start + len(group)),
                vectors,
            )
            if progress is not None:
                progress(start + len(group), len(self.pairs))

    def nearest(self, c: int, vector: Tensor, image: str, count: int = 3) -> tuple[tuple[str, float], ...]:
        """The confirmed instances of class `c` most like a foreground, by cosine in [0, 1]."""
        if self.tree is None:
            return ()
        ids = self.tree.ids[c]
        alike = torch.where(ids != EMPTY, self.tree.features[c] @ vector, -2.0)
        found: list[tuple[str, float]] = []
        for slot in alike.argsort(descending=True).tolist():
            if int(ids[slot]) == EMPTY or len(found) == count:
                break
            name = self.names[self.pairs[int(ids[slot])][0]]
            if name != image:
                found.append((name, float(alike[slot].clamp(0, 1))))
        return tuple(found)


def suggest(
    scob: Scob,
    split: Split,
    observed: Labels,
    scores: Floats,
    estimates: Floats | None = None,
    known: Known | None = None,
    known_scores: Floats | None = None,
    minimum: float | None = None,
    top: int | None = None,
    masks: bool = True,
    batch: int = 16,
    progress: Progress | None = None,
) -> list[Suggestion]:
    """Ranked suggestions for the unknown entries of `observed`.

    `minimum` replaces the model's own thresholds. `known` (with its scores) gives the confirmed instances.
    """
    confidence = confidence_of(scores, estimates)
    pairs = rank(confidence, observed.values, scob.thresholds if minimum is None else minimum, top)
    evidence = Evidence(scob, batch)
    if masks and known is not None and known_scores is not None:
        evidence.confirm(known, known_scores, {c for _, c in pairs})
    said = [tuple(observed.classes[c] for c in np.flatnonzero(line == PRESENT)) for line in observed.values]
    found: dict[int, Suggestion] = {}
    shapes: dict[int, tuple[int, ...]] = {}
    # Pairs of one image together, so that it is decoded and passed through the backbone once.
    order = sorted(range(len(pairs)), key=lambda n: pairs[n])
    for start in range(0, len(order), 4 * batch):
        numbers = order[start : start + 4 * batch]
        group = [pairs[n] for n in numbers]
        heats, vectors = evidence.look(split.images, group) if masks else (None, None)
        for place, (n, (row, c)) in enumerate(zip(numbers, group, strict=True)):
            image = observed.images[row]
            mask, box = None, None
            near: tuple[tuple[str, float], ...] = ()
            if heats is not None and vectors is not None:
                if row not in shapes:
                    shapes = {row: split.images.load(row).shape[:2]}  # pairs of one image stand together
                shape = shapes[row]
                ratio = min(1.0, MASK_SIDE / max(shape))
                sides = max(1, round(shape[0] * ratio)), max(1, round(shape[1] * ratio))
                inside = enlarge(heats[place].numpy(), *sides) >= 0.5
                clean = without_specks(heats[place].numpy(), 0.5)
                box = box_of(enlarge(clean, *sides) >= 0.5)
                mask = rle(inside) if box is not None else None
                near = evidence.nearest(c, vectors[place], image)
            estimate = None if estimates is None or np.isnan(estimates[row, c]) else float(estimates[row, c])
            found[n] = Suggestion(
                image, row, observed.classes[c], float(scores[row, c]), estimate, float(confidence[row, c]),
                mask, box, near, said[row],
            )  # fmt: skip
        if progress is not None:
            progress(min(start + len(numbers), len(order)), len(order))
    return [found[n] for n in range(len(pairs))]


def recover(
    model: str | Path,
    images: Sequence[str | Path] = (),
    out: Path | None = None,
    formats: Iterable[str] = (),
    minimum: float | None = None,
    top: int | None = None,
    masks: bool = True,
    batch: int = 16,
    device: str = "auto",
    progress: Progress | None = None,
) -> Recovered:
    """`scob recover`: suggest missing labels of a run's own images, or labels of `images` it has never seen.

    Writes suggestions.jsonl and images.json (for `scob review`) and every format asked for into `out`
    (RUN/recovered).
    """
    from scob.suggestion_files import check_formats, write_formats, write_queue

    wanted = check_formats(formats)
    if minimum is not None and not 0 <= minimum <= 1:
        raise UserError(f"--min must lie between 0 and 1, not {minimum}")
    place = Path(model)
    is_run = (place / "config.yaml").is_file()
    if not images and not is_run:
        find_model(place)
        raise UserError(f"{place} is a model without a run: name the images to suggest labels for with --images FOLDER")
    scob = Scob.from_pretrained(place, device)
    known = open_run(place)[1] if is_run else None
    own_scores = score_split(scob, known.split, batch, progress) if known is not None else None
    skipped = 0
    if images:
        found = find_images(images)
        skipped = found.skipped
        split, skipped_bad = unlabelled(found.paths, scob.classes)
        skipped += skipped_bad
        observed, estimates = split.labels, None
        scores = score_split(scob, split, batch, progress)
        folder = out or place / "recovered-images"
    else:
        assert known is not None and own_scores is not None
        split, observed, scores, estimates = known.split, known.observed, own_scores, known.estimates
        folder = out or place / "recovered"
    made = suggest(scob, split, observed, scores, estimates, known, own_scores, minimum, top, masks, batch, progress)
    confirmed = known.split if known is not None else None
    written = write_queue(folder, made, split, confirmed)
    written += write_formats(folder, wanted, made, split, observed, scores, scob.classes)
    unknown = int((observed.values == UNKNOWN).sum())
    return Recovered(folder, tuple(made), len(split), unknown, skipped, tuple(written))


def unlabelled(paths: Sequence[str], classes: tuple[str, ...]) -> tuple[Split, int]:
    """Images nothing is known of, the broken ones left out, and how many those were."""
    from scob.data.check import broken_images
    from scob.data.images import ImageFiles

    every = Split("images", Labels(classes, tuple(paths), np.zeros((len(paths), len(classes)), np.int8)),
                  ImageFiles(tuple(paths)))  # fmt: skip
    broken = broken_images(every)
    if len(broken) == len(paths):
        raise UserError(f"none of the {len(paths)} images can be read; the first: {broken[0]}")
    rows = [row for row in range(len(paths)) if row not in broken]
    return every.select(rows), len(broken)


def import_reviewed(run: str | Path, reviewed: Path, out: Path | None = None) -> Imported:
    """`scob recover RUN --import reviewed.csv`: the run's labels with a person's +1 and -1 laid upon them.

    The file (RUN/labels-reviewed.safetensors) is what `labels.file=` of the next training takes.
    """
    from scob.run import RunFolder

    folder = RunFolder(Path(run))
    labels = folder.labels()
    rows = {name: row for row, name in enumerate(labels.images)}
    columns = {name: c for c, name in enumerate(labels.classes)}
    values = labels.values.copy()
    seen: dict[tuple[int, int], int] = {}
    changed = 0
    for number, image, label, state in read_reviewed(reviewed):
        where = f"{reviewed} row {number}"
        if image not in rows:
            raise UserError(f"{where}: the image {image!r} is not in the run {run}.{nearest_name(image, rows)}")
        if label not in columns:
            raise UserError(f"{where}: the run has no class {label!r}.{nearest_name(label, columns)}")
        pair = rows[image], columns[label]
        if seen.setdefault(pair, state) != state:
            raise UserError(f"{where}: {image!r} has {label!r} both confirmed and rejected; remove one of the two")
        changed += bool(labels.values[pair] not in (UNKNOWN, state))
        values[pair] = state
    if not seen:
        raise UserError(f"{reviewed} holds no decision: review some suggestions first, with scob review {run}")
    path = out or folder.path / REVIEWED_LABELS
    made = Labels(labels.classes, labels.images, values, f"{labels.origin}, {len(seen)} reviewed")
    fingerprint = made.save(path)
    states = list(seen.values())
    return Imported(path, states.count(PRESENT), states.count(ABSENT), changed, fingerprint)


def read_reviewed(path: Path) -> list[tuple[int, str, str, int]]:
    """(row number, image, label, state) of a reviewed.csv."""
    states = {"+1": PRESENT, "1": PRESENT, "present": PRESENT, "-1": ABSENT, "absent": ABSENT}
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            lines = list(csv.reader(file, strict=True))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (OSError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as CSV: {error}") from error
    head = [cell.strip().lower() for cell in lines[0]] if lines else []
    if head[:3] != ["image", "label", "state"]:
        raise UserError(f"{path}: its first line must be image,label,state, as scob review writes it")
    found: list[tuple[int, str, str, int]] = []
    for number, cells in enumerate(lines[1:], 2):
        if not any(cells):
            continue
        if len(cells) < 3:
            raise UserError(f"{path} row {number}: it has {len(cells)} cells, not image,label,state")
        state = cells[2].strip().lower()
        if state not in states:
            raise UserError(f"{path} row {number}: {cells[2]!r} is no state; write +1 (confirmed) or -1 (rejected)")
        found.append((number, cells[0], cells[1], states[state]))
    return found


def read_suggestions(folder: Path) -> list[dict[str, Any]]:
    """The lines of suggestions.jsonl as they were written."""
    return [json.loads(line) for line in (folder / "suggestions.jsonl").read_text().splitlines() if line]
