"""Damage to every file that a run holds, found by listing its folder, and every verb that reads a run afterwards.

Each verb gives the same result, or repairs or refuses it with a sentence: never another result, never a traceback.
`SCOB_DAMAGE=200` tries that many single bits per file and verb instead of 2.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.errors import UserError
from scob.files import fingerprint
from scob.inference.evaluate import evaluate
from scob.inference.model import InferenceOptions, Scob
from scob.inference.thresholds import thresholds
from scob.recovery.suggest import recover
from scob.training.events import Event, Note
from scob.training.resume import resume_config
from scob.training.train import train
from support.interrupted import SAVING, Broken, broken_at
from support.runs import trained_weights

BITS = int(os.environ.get("SCOB_DAMAGE", "2"))
NOT_READ = (".lock", "events.out", "README.md")  # for people and other tools; no verb reads them
CASES = ("train", "predict", "evaluate", "recover", "thresholds", "export")


def files_of(run: Path) -> list[str]:
    """Every file below a run folder."""
    return sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_file())


def damaged(raw: bytes, chance: random.Random) -> list[bytes]:
    """The content emptied, cut in two places, and with single bits flipped."""
    versions = [b"", raw[: len(raw) // 2], raw[:-1]]
    for _ in range(BITS if raw else 0):
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        versions.append(bytes(flipped))
    return [version for version in versions if version != raw]


@pytest.fixture(scope="module")
def whole(configure: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished run, and the same run broken before its end."""
    folder = tmp_path_factory.mktemp("whole")
    config = configure(SAVING, "data.source=scenes:24x64", "train.epochs=2", "train.holdout=0.25", "data.evaluate=val")
    train(config, folder / "finished")
    with pytest.raises(Broken):
        train(config, folder / "broken", listen=broken_at(5))
    return folder / "finished", folder / "broken"


def result_of(verb: str, run: Path, heard: list[str]) -> object:
    """What a verb makes of a run, as something that can be compared."""

    def listen(event: Event) -> None:
        if isinstance(event, Note) and "evaluation split" not in event.message:
            heard.append(event.message)

    if verb == "train":
        config = resume_config(run)
        finished = train(config, run, resume=True, listen=listen)
        return {name: value.tolist() for name, value in trained_weights(finished.path).items()}
    if verb == "predict":
        model = Scob.from_pretrained(run, "cpu")
        pixels = np.random.default_rng(0).integers(0, 256, (2, model.size, model.size, 3), dtype=np.uint8)
        return model.classes, model.thresholds.tolist(), model.scores(pixels).tolist()
    if verb == "evaluate":
        return evaluate(run).to_json()
    if verb == "recover":
        return [s.to_json() for s in recover(run, running=InferenceOptions(device="cpu")).suggestions]
    if verb == "thresholds":
        return thresholds(run, "cpu", figures=False).thresholds
    from scob.inference.onnx.export import export

    return fingerprint(export(run, run / "exported.onnx").path)


@pytest.mark.slow
@pytest.mark.parametrize("verb", CASES)
def test_no_damage_to_any_file_gives_another_result(
    whole: tuple[Path, Path], tmp_path: Path, faults: Any, verb: str
) -> None:
    source = whole[1] if verb == "train" else whole[0]
    chance, copy = random.Random(verb), tmp_path / "run"

    def with_damage(name: str, content: bytes | None) -> tuple[object, list[str]]:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        if content is not None:
            (copy / name).write_bytes(content)
        heard: list[str] = []
        try:
            return result_of(verb, copy, heard), heard
        except UserError as error:
            assert str(error)
            return None, [str(error)]

    expected, sentences = with_damage("", None)
    assert expected is not None and not sentences  # so that a sentence below is about the damage
    for name in files_of(source):
        if any(part in name for part in NOT_READ):
            continue
        for content in damaged((source / name).read_bytes(), chance):
            with faults.inject(f"{verb}: any file of its folder damaged") as fault:
                result, sentences = with_damage(name, content)
                assert result == expected or sentences, f"{name}: silently different"
                fault.told += bool(sentences)
