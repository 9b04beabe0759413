"""What is installed, and the line that adds what is missing. Imports none of it."""

import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# The packages of each extra in pyproject.toml; each is imported by the name it is installed by, with _ for -.
EXTRAS = {
    "train": (
        "accelerate", "huggingface_hub", "jinja2", "kornia", "matplotlib", "pycocotools", "safetensors", "tensorboard",
        "torch", "torchmetrics", "transformers",
    ),
    "predict": ("onnxruntime",),
    "onnx": ("onnxruntime", "onnx", "onnxscript"),
    "review": ("fastapi", "uvicorn"),
    "parquet": ("pyarrow",),
    "heic": ("pillow-heif",),
}  # fmt: skip

CPU_BUILD = (
    "without a GPU, install PyTorch's CPU build first, which is gigabytes smaller: choose CPU at "
    "https://pytorch.org/get-started"
)


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        return find_spec(package.replace("-", "_")) is not None
    except ValueError:  # it was taken out of reach: sys.modules[package] is None
        return False


def install_line(extra: str) -> str:
    """The command that adds what an extra lacks here. It names packages: nobody else's `scob` is ever installed."""
    missing = [package for package in EXTRAS[extra] if not is_installed(package)]
    return install_packages(missing or EXTRAS[extra])


def install_packages(packages: Iterable[str]) -> str:
    """The command that installs packages where this Scob is: with pip, pipx or uv, whichever installed it."""
    return " ".join([*installer(), *packages])


def installer() -> tuple[str, ...]:
    """The beginning of that command; it names this Python unless the `pip` of the shell belongs to it."""
    environment = Path(sys.prefix)
    if (environment / "pipx_metadata.json").exists():
        return ("pipx", "inject", quoted(environment.name))
    if not is_installed("pip"):
        return ("uv", "pip", "install", "--python", quoted(sys.executable))
    pip = shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return ("pip", "install")
    return (quoted(sys.executable), "-m", "pip", "install")


def quoted(word: str) -> str:
    """A word as the shell of this system takes it."""
    return subprocess.list2cmdline([word]) if sys.platform == "win32" else shlex.quote(word)


def explain_missing(module: str | None) -> str | None:
    """What to say when an import fails: which package is missing and how to get it; None if it is not one of ours."""
    name = (module or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package := next((package for package in packages if package.replace("-", "_") == name), None):
            said = f"this needs {package}, which is not installed: {install_line(extra)}"
            return f"{said} ({CPU_BUILD})" if "torch" in packages and brings_unused_cuda() else said
    return None


def brings_unused_cuda() -> bool:
    """Whether installing PyTorch here would bring CUDA, with no GPU to use it."""
    drivers = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # on Linux, and on Linux inside Windows
    return sys.platform == "linux" and not is_installed("torch") and not any(driver.exists() for driver in drivers)


def report() -> Iterator[str]:
    """What a bug report needs, line by line: Python, system, PyTorch and its device, extras."""
    yield f"Python {platform.python_version()}, {platform.platform()}"
    if is_installed("torch"):
        from scob.parallel import choose_device, device_name, unused_cuda

        yield f"torch {version_of('torch')}, device {device_name(choose_device('auto'))}"
        unused = unused_cuda()
        if unused is not None:
            yield unused
    else:
        yield "torch is not installed: only .onnx models can be used"
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if not is_installed(package)]
        versions = ", ".join(f"{package} {version_of(package)}" for package in packages if package not in missing)
        yield f"{extra}: " + (f"no {', '.join(missing)} ({install_line(extra)})" if missing else versions)


def version_of(package: str) -> str:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:  # importable, but not installed: a folder on the path
        return "of unknown version"
