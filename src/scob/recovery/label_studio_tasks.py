"""Suggestions as Label Studio tasks, the labelling page for them, and how to show local images there."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from scob.recovery.suggestion import Suggestion

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document_root(files: Mapping[str, str]) -> tuple[str, str]:
    """(the folder that Label Studio may serve from, the folder below it that has all images)."""
    folders = [os.path.dirname(path) for path in files.values() if Path(path).is_absolute()]  # noqa: PTH120
    home = os.path.commonpath(folders) if folders else os.sep
    return os.path.dirname(home), home  # noqa: PTH120


def as_label_studio(
    suggestions: Sequence[Suggestion], files: Mapping[str, str], sizes: Mapping[str, tuple[int, int]]
) -> list[dict[str, Any]]:
    """One task per image, with a prediction of classes and boxes; images are served from local storage.

    What is known already is ticked too: a person who answers a task says everything that the image shows.
    """
    root, _ = document_root(files)
    tasks: dict[str, dict[str, Any]] = {}
    for s in suggestions:
        path = files.get(s.image, s.image)
        local = os.path.relpath(path, root) if Path(path).is_absolute() else path
        task = tasks.setdefault(s.image, {
            "data": {
                "image": f"/data/local-files/?d={quote(os.fsencode(local))}",
                "name": s.image,
                "known": ", ".join(s.observed) or "nothing",
            },
            "predictions": [{"model_version": "scob", "score": s.confidence, "result": []}],
        })  # fmt: skip
        result = task["predictions"][0]["result"]
        height, width = sizes[s.image]
        common = {
            "to_name": "image",
            "score": round(s.confidence, 6),
            "original_width": width,
            "original_height": height,
        }
        choices = next((r for r in result if r["type"] == "choices"), None)
        if choices is None:
            ticked = {"choices": list(s.observed)}
            choices = {"from_name": "present", "to_name": "image", "type": "choices", "value": ticked}
            result.append(choices)
        choices["value"]["choices"].append(s.label)
        for box in s.boxes or ():
            x0, y0, x1, y1 = (100 * side for side in box)
            value = {"x": x0, "y": y0, "width": x1 - x0, "height": y1 - y0, "rotation": 0, "rectanglelabels": [s.label]}
            result.append({**common, "from_name": "where", "type": "rectanglelabels", "value": value})
    return list(tasks.values())


def label_studio_config(classes: Sequence[str]) -> str:
    """The labelling interface for these tasks."""
    names = [quoteattr(xml_text(name)) for name in classes]
    labels = "".join(f"    <Label value={name}/>\n" for name in names)
    choices = "".join(f"    <Choice value={name}/>\n" for name in names)
    return (
        '<View>\n  <Header value="Known: $known. Tick everything that the image shows."/>\n'
        '  <Image name="image" value="$image"/>\n'
        f'  <Choices name="present" toName="image" choice="multiple">\n{choices}  </Choices>\n'
        f'  <RectangleLabels name="where" toName="image">\n{labels}  </RectangleLabels>\n</View>\n'
    )


def label_studio_steps(folder: Path, files: Mapping[str, str]) -> list[str]:
    """What to do so that Label Studio shows these tasks with their images."""
    root, home = document_root(files)
    return [
        "Label Studio: start it with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root}",
        f"  create a project, paste {folder / 'config.xml'} under Labeling Setup > Custom template, and add under "
        f"Cloud Storage a source of type Local files with the absolute local path {home} (no need to sync it)",
        f"  import {folder / 'tasks.json'}; once the tasks are answered, export JSON: scob recover RUN --import FILE",
    ]


def xml_text(text: str) -> str:
    """The text with U+FFFD for every character that XML 1.0 does not allow."""
    return NOT_XML.sub("\ufffd", text)
