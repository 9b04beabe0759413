"""The report of `scob evaluate --masks`: rows in one order, and what was left out."""

import json

from scob.inference.class_maps import MapSettings
from scob.inference.mask_measures import MaskMeasures, MaskOverlap, Share
from scob.inference.mask_report import GuidanceRates, MaskEvaluation, Population
from scob.training.metrics import Detection

BOXES_ONLY = MaskMeasures(5, 1, None, None, Share(60.0, 3, 5), Share(50.0, 1, 2))
SEGMENTED = MaskMeasures(
    4, 0, MaskOverlap(40.0, 30.0, {"cat": 30.0}, 70.0, 60.0, 4), Share(75.0, 3, 4), Share(100.0, 4, 4), None
)
GUIDANCE = (GuidanceRates(4, (14, 14), 4, Detection(50.0, float("nan"), 57.7, 1, 1, 0)),)


def population(predicted: bool, guidance: tuple[GuidanceRates, ...], measures: MaskMeasures) -> Population:
    return Population(
        "VOC2007", "val", predicted, images=9, without_truth=2, skipped=3, trained_on=0, not_there=7, unknown=0,
        pairs_without_truth=0, guidance=guidance, measures=measures,
    )  # fmt: skip


def report(observed: Population | None, predicted: Population | None) -> MaskEvaluation:
    return MaskEvaluation("run", "scob", "abc", 448, MapSettings(), observed, predicted, ("A note",))


def test_rows_keep_their_order_when_only_one_population_is_segmented() -> None:
    rows = report(population(False, (), BOXES_ONLY), population(True, GUIDANCE, SEGMENTED)).rows()
    names = list(rows)
    assert names[:3] == [f"Guidance, 14 x 14 (stage 4): {rate}" for rate in ("precision", "recall", "F1")]
    assert rows["Guidance, 14 x 14 (stage 4): F1"] == [None, 57.7]
    assert rows["Explained: mean IoU"] == [None, 40.0] and rows["Pointing game: in a box"] == [60.0, 100.0]
    assert rows["Boxes right, of single objects"] == [50.0, None] and rows["  with a single object"] == [2, None]
    assert rows["Pairs named but not there"] == [None, 7] and rows["  no clear place"] == [1, 0]


def test_what_was_left_out_is_said() -> None:
    lines = report(population(False, (), BOXES_ONLY), population(True, GUIDANCE, SEGMENTED)).remarks()
    assert lines == [
        "Observed labels: training images, VOC2007, split val",
        "  images left out, with neither segmentation nor boxes: 2",
        "  images left out, broken or not in the run's label file: 3",
        "Predicted labels: images that the model was not trained on, VOC2007, split val",
        "  images left out, with neither segmentation nor boxes: 2",
        "  images left out, broken: 3",
        "A note",
    ]


def test_json_has_the_meaning_of_each_measure_and_null_for_what_is_undefined() -> None:
    evaluation = report(None, population(True, GUIDANCE, SEGMENTED))
    assert list(evaluation.populations) == ["predicted"]
    tree = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert tree["observed"] is None and tree["predicted"]["guidance"][0]["rates"]["recall"] is None
    assert set(tree["definitions"]) == {"guidance", "masks", "pointing", "pointing_in_boxes", "boxes"}
    assert set(tree["definitions"]) - {"guidance"} <= set(tree["predicted"]["measures"])
