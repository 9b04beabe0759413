"""Find the model that a path names. Only a run that is not finished needs torch: predicting with ONNX does not."""

from dataclasses import dataclass
from pathlib import Path

from scob.errors import UserError


@dataclass(frozen=True)
class FoundModel:
    """A model folder or an .onnx file, and its run folder if there is one."""

    path: Path
    run: Path | None = None
    remark: str = ""  # what to know about the model of a run that is not finished

    @property
    def is_onnx(self) -> bool:
        return self.path.suffix == ".onnx"


def find_model(path: str | Path) -> FoundModel:
    """Find a model folder, the model of a run (of a stopped one: its best epoch so far), or an .onnx file."""
    path = Path(path)
    if path.suffix == ".onnx" or (path / "config.json").is_file():
        if not path.exists():
            raise UserError(f"there is no model at {path}")
        return FoundModel(path)
    if (path / "model" / "config.json").is_file():
        return FoundModel(path / "model", path)
    if (path / "summary.json").is_file():
        raise UserError(f"the model of the run in {path} is missing: scob train --resume {path} writes it again")
    if (path / "config.yaml").is_file():
        from scob.training.unfinished import write_so_far

        folder, remark = write_so_far(path)
        return FoundModel(folder, path, remark)
    if not path.exists():
        raise UserError(f"there is no model at {path}")
    raise UserError(f"{path} is neither a model folder (config.json), a run folder, nor an .onnx file")
