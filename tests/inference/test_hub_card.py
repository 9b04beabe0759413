"""The model card: its metadata is what the hub expects, its text says what a stranger must know."""

from dataclasses import replace

import pytest
from huggingface_hub import ModelCard as HubCard

from scob.inference.hub_card import TrainedAs, hub_card, last_part, metadata
from scob.training.model_folder import ModelCard
from scob.training.run_folder import RunFolder
from support.small_model import Small


@pytest.fixture
def card(small: Small) -> ModelCard:
    return ModelCard.read(small.run / "model")


def test_the_hub_reads_the_results_from_the_block(small: Small, card: ModelCard) -> None:
    run = RunFolder(small.run)
    text = hub_card(card, "me/scenes", "mit", "", TrainedAs(run.read_config(), run.summary()))
    read = HubCard(text)
    assert read.data.license == "mit" and read.data.library_name == "scob" and read.data.model_name == "scenes"
    results = {result.metric_type: result.metric_value for result in read.data.eval_results}
    assert results["mAP"] == round(run.summary()["evaluation"]["mAP"], 2) and set(results) == {"mAP", "OF1", "CF1"}
    for wanted in (*card.classes, "Training images:", "Seeds: labels 0", "epochs", "mit"):
        assert wanted in read.text
    assert 'from_pretrained("me/scenes")' in read.text and "scenes:96x64" in read.text


def test_a_model_folder_alone_says_less_but_nothing_wrong(card: ModelCard) -> None:
    text = hub_card(replace(card, evaluation=None), "me/scenes", None, "", None)
    assert "Nothing was measured" in text and "has not named a licence" in text and "- Data: not stated" in text
    assert "model-index" not in metadata(replace(card, evaluation=None), "me/scenes", None, "x")


def test_class_names_cannot_become_markup(card: ModelCard) -> None:
    text = hub_card(
        replace(card, classes=("<b>cat</b>", "[dog](http://x)")), "me/scenes", None, "---\nlicense: x", None
    )
    assert "<b>" not in text and "[dog]" not in text
    assert "license" not in HubCard(text).data.to_dict()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/me/photos", "photos"), ("~/photos", "photos"), ("C:\\me\\photos", "photos"), ("./a/b", "b"),
        ("microsoft/resnet-50", "microsoft/resnet-50"), ("scenes:40x64", "scenes:40x64"),
    ],
)  # fmt: skip
def test_folders_of_this_machine_are_left_out(name: str, shown: str) -> None:
    assert last_part(name) == shown
