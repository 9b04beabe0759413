"""All steps on drawn scenes, as a user takes them: train, recover, review in Chromium, import, train again.

Every step is the command that the step before it printed.
"""

import shlex
from pathlib import Path

import numpy as np
from playwright.sync_api import BrowserContext, expect

from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels
from scob.recovery.suggestion import read_queue
from support.review_process import ReviewProcess
from support.runs import differing, trained_weights
from support.small_model import scob

Pair = tuple[str, str]
expect.set_options(timeout=20_000)  # of a busy machine; a test that passes does not wait


def told(said: str, verb: str) -> list[str]:
    """The words after `scob` in the next command that was printed, split as a shell would."""
    start = f"scob {verb} "
    line = next(line for line in said.splitlines() if start in line)
    return shlex.split(line[line.index(start) :])[1:]


def done(*words: object) -> str:
    """The output of a command, which must succeed."""
    ran = scob(*words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def state(labels: Labels, pair: Pair) -> int:
    return int(labels.values[labels.images.index(pair[0]), labels.classes.index(pair[1])])


def test_what_a_person_reviewed_is_what_the_next_training_learns(
    context: BrowserContext, small_words: tuple[str, ...], tmp_path: Path
) -> None:
    run = tmp_path / "my scenes"  # a name with a space: what is printed must still work in a shell
    said = done("train", *small_words, "train.epochs=2", "--out", run)
    observed_file = run / "labels.safetensors"
    before = observed_file.read_bytes()
    said = done(*told(said, "recover"), "--min", "0", "--top", "6", "--device", "cpu")
    offered: list[Pair] = [(s.image, s.label) for s in read_queue(run / "recovered").suggestions]
    assert len(offered) == 6
    accepted, rejected, undone, also_rejected, also_accepted, left = offered

    _, target = told(said, "review")
    with ReviewProcess(Path(target)) as server:
        page = context.new_page()

        def asked(pair: Pair) -> None:
            expect(page.locator("#image-name")).to_have_text(pair[0])
            expect(page.locator("#class-name")).to_have_text(pair[1])

        page.goto(server.address)
        asked(accepted)
        expect(page.locator("#image")).to_have_js_property("naturalWidth", 64)
        page.locator("#accept").click()
        asked(rejected)
        page.keyboard.press("r")
        asked(undone)
        page.keyboard.press("a")
        asked(also_rejected)
        page.locator("#undo").click()
        asked(undone)
        page.reload()

        asked(undone)
        expect(page.locator("#count")).to_have_text("2 of 6 decided")
        expect(page.locator("#badge")).to_be_hidden()
        page.locator("#status").select_option("all")
        page.locator("#list li").nth(0).get_by_role("button").click()
        asked(accepted)
        expect(page.locator("#badge")).to_have_text("✓ accepted")
        page.locator("#list li").nth(1).get_by_role("button").click()
        asked(rejected)
        expect(page.locator("#badge")).to_have_text("✕ rejected")
        page.locator("#list li").nth(3).get_by_role("button").click()
        asked(also_rejected)
        page.locator("#reject").click()
        asked(also_accepted)
        page.keyboard.press("a")
        asked(left)
        expect(page.locator("#count")).to_have_text("4 of 6 decided")
        expect(page.locator("#saved")).to_have_text("All saved")
        page.close()
        said = server.stop()

    assert "2 accepted, 2 rejected" in said
    said = done(*told(said, "recover"))
    assert "2 confirmed, 2 rejected" in said
    observed, reviewed = Labels.load(observed_file), Labels.load(run / "labels-reviewed.safetensors")
    decided = {accepted: PRESENT, also_accepted: PRESENT, rejected: ABSENT, also_rejected: ABSENT}
    assert {pair: state(reviewed, pair) for pair in decided} == decided
    assert state(reviewed, undone) == state(reviewed, left) == UNKNOWN
    assert all(state(observed, pair) == UNKNOWN for pair in offered)
    assert np.count_nonzero(reviewed.values != observed.values) == len(decided)

    words = told(said, "train")
    again = Path(words[words.index("--out") + 1])
    done(*words)
    assert Labels.load(again / "labels.safetensors") == reviewed
    # The settings and seeds are the first run's: only the labels can have made the weights differ.
    assert differing(trained_weights(run), trained_weights(again))
    assert observed_file.read_bytes() == before
