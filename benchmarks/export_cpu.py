"""How fast an exported model predicts on a CPU, compared with eager channels-last PyTorch in the same run.

    python benchmarks/export_cpu.py --backbone FOLDER [--calibration IMAGES] [--size 448] [--batch 8] [--threads N]

Times the whole network: backbone, both SMTs, classifier. The head is new; a trained one costs the same. Rounds are
interleaved, so that other load on the machine slows all of them alike; prints the median and the best of the rounds.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from scob.config import ModelSettings
from scob.inference.model import Scob, Scorer
from scob.inference.onnx.export import calibration_pixels, compare, metadata, noise, write_metadata, write_onnx
from scob.inference.onnx.quantise import quantise
from scob.inference.onnx.runtime import OnnxModel
from scob.model.load_backbone import backbone_config, load_backbone
from scob.model.network import build_network
from scob.model.preprocessing import preprocessing
from scob.training.model_folder import ModelCard


def fresh_model(backbone: str, size: int, classes: int) -> Scob:
    torch.manual_seed(0)
    body = load_backbone(backbone)
    settings = ModelSettings(backbone=backbone)
    network = build_network(body, settings, classes, size).eval()
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    names = tuple(f"class {n}" for n in range(classes))
    mean, std = preprocessing(backbone)
    card = ModelCard(names, size, mean, std, (0.5,) * classes, settings.model_dump(mode="json"), body.grids(size),
                     backbone, backbone_config(body), "scob", {})  # fmt: skip
    return Scob(network, card, torch.device("cpu"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--calibration", nargs="*", default=[])
    parser.add_argument("--size", type=int, default=448)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--samples", type=int, default=32, help="number of calibration images to use")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    scob = fresh_model(options.backbone, options.size, 20)
    samples = (
        calibration_pixels(options.calibration, options.size)[: options.samples]
        if options.calibration
        else noise(options.size)
    )
    with tempfile.TemporaryDirectory() as folder:
        plain, small = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        write_onnx(scob, plain)
        quantise(plain, small, samples)
        write_metadata(small, metadata(scob, True))
        differences = {"fp32": compare(scob, plain, samples[:2]), "int8": compare(scob, small, samples[:2])}
        models: dict[str, Scorer] = {
            "torch eager, channels last": scob,
            "ONNX fp32": OnnxModel(plain, options.threads, "cpu"),
            "ONNX int8": OnnxModel(small, options.threads, "cpu"),
        }
        pixels = np.resize(samples, (options.batch, options.size, options.size, 3))
        times: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(options.rounds):
            for name, model in models.items():
                model.scores(pixels)  # not timed: ends the threads of the model before and warms this one's memory
                began = time.perf_counter()
                model.scores(pixels)
                times[name].append(time.perf_counter() - began)
    first, *_ = times.values()
    for name, seconds in times.items():
        middle, best = statistics.median(seconds), min(seconds)
        each = f"{1000 * middle:8.1f} ms/batch (best {1000 * best:.1f})   {options.batch / middle:6.2f} images/s"
        print(f"{name:28} {each}   {statistics.median(first) / middle:5.2f}x (best {min(first) / best:.2f}x)")
    print(json.dumps({"differences": differences, "threads": options.threads, "batch": options.batch}))


if __name__ == "__main__":
    main()
