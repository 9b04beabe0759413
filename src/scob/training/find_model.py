"""Find the model that a path names. Nothing here imports torch, so predicting with ONNX starts without it."""

from dataclasses import dataclass
from pathlib import Path

from scob.errors import UserError


@dataclass(frozen=True)
class FoundModel:
    """A model folder or an .onnx file, and its run folder if there is one."""

    path: Path
    run: Path | None = None

    @property
    def is_onnx(self) -> bool:
        return self.path.suffix == ".onnx"


def find_model(path: str | Path) -> FoundModel:
    """Find a model folder, the model of a finished run, or an .onnx file."""
    path = Path(path)
    if path.suffix == ".onnx" or (path / "config.json").is_file():
        if not path.exists():
            raise UserError(f"there is no model at {path}")
        return FoundModel(path)
    if (path / "model" / "config.json").is_file():
        return FoundModel(path / "model", path)
    if (path / "config.yaml").is_file():
        raise UserError(f"the run in {path} is not finished: continue it with scob train --resume {path}")
    if not path.exists():
        raise UserError(f"there is no model at {path}")
    raise UserError(f"{path} is neither a model folder (config.json), a run folder, nor an .onnx file")
