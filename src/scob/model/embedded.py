"""The backbones inside the package: `drawings` for the demo and the tests, `photographs` for everything else."""

from pathlib import Path

DRAWINGS, PHOTOGRAPHS = "drawings", "photographs"
EMBEDDED = (DRAWINGS, PHOTOGRAPHS)


def backbone_path(name: str) -> Path:
    """The folder of an embedded backbone, or the path that a name would be; a hub name is a path to nothing."""
    return Path(__file__).parent / name if name in EMBEDDED else Path(name).expanduser()
