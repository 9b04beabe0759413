"""What is installed, and the line that adds what is missing. Imports none of it."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

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


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        return find_spec(package.replace("-", "_")) is not None
    except ValueError:  # it was taken out of reach: sys.modules[package] is None
        return False


def install_line(extra: str) -> str:
    """The command that adds what an extra lacks here. It names packages, so it works however Scob was installed."""
    missing = [package for package in EXTRAS[extra] if not is_installed(package)]
    return " ".join(["pip install", *(missing or EXTRAS[extra])])


def explain_missing(module: str | None) -> str | None:
    """What to say when an import fails: which package is missing and how to get it; None if it is not one of ours."""
    name = (module or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package := next((package for package in packages if package.replace("-", "_") == name), None):
            return f"this needs {package}, which is not installed: {install_line(extra)}"
    return None


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
