"""What is gained when a folded convolution adds and rectifies in its own kernel; all in one run on one GPU.

    python benchmarks/fused_kernels.py --out fused.json [--device cuda] [--size 448]

A ResNet-50 with random weights and statistics: the bare backbone in bf16 (BatchNorm as it is; folded; folded and fused)
as a CUDA graph, with its distance from fp32, then whole training steps of Scob without and with the fused kernels.
"""

import argparse
import copy
import json
import tempfile
from pathlib import Path

import torch
from torch import nn

from scob.bench.training import time_training
from scob.bench.workload import bench_config, random_data, random_resnet, replayed
from scob.model import fold
from scob.model.backbone import Backbone
from scob.model.load_backbone import load_backbone
from scob.parallel import start
from scob.studies.timing import median_seconds

FUSE = fold.join_rectifiers


def backbone_with_statistics(folder: str) -> Backbone:
    """The backbone with weights and statistics that make BatchNorm do something."""
    backbone = load_backbone(folder)
    for norm in backbone.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 2)
            norm.weight.uniform_(0.5, 1.2)
            norm.bias.normal_(0, 0.1)
    return backbone


def copies(backbone: Backbone) -> dict[str, Backbone]:
    fold.join_rectifiers = lambda folded: None
    folded = fold.fast_copy(backbone, torch.bfloat16)
    fold.join_rectifiers = FUSE
    plain = copy.deepcopy(backbone).to(torch.bfloat16)
    return {"plain": plain, "folded": folded, "fused": fold.fast_copy(backbone, torch.bfloat16)}


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", type=int, default=448)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 24, 64, 192])
    parser.add_argument("--training", type=int, nargs="*", default=[8, 64], help="batch sizes of the training steps")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    processes = start(args.device)
    device, rows = processes.device, []
    graph = {"compile": True} if device.type == "cuda" else {}
    torch.backends.cudnn.benchmark = True
    with tempfile.TemporaryDirectory() as folder:
        name = random_resnet(Path(folder))
        exact = backbone_with_statistics(name).to(device).to(memory_format=torch.channels_last)
        for batch in args.batches:
            images = torch.randn(batch, 3, args.size, args.size, device=device)
            images = images.contiguous(memory_format=torch.channels_last)
            low, expected = images.bfloat16(), exact(images[:8])
            for kernels, body in copies(exact).items():
                error = max(
                    ((a[:8].float() - b).norm() / b.norm()).item() for a, b in zip(body(low), expected, strict=True)
                )
                forward = replayed(lambda m=body, x=low: m(x), device)
                row = {"batch": batch, "kernels": kernels, "ms": 1000 * median_seconds(forward, device, 10, 3)}
                rows.append({"of": "backbone", **row, "error": error})
                print(rows[-1], flush=True)
        for batch in args.training:
            data = random_data(max(4 * batch, 64), args.size)
            for step, extra in {"graph": graph, "graph, kept features": {**graph, "feature_cache": "device"}}.items():
                for kernels, join in {"folded": lambda folded: None, "fused": FUSE}.items():
                    fold.join_rectifiers = join
                    with torch.enable_grad():
                        rate = time_training(bench_config(name, batch, args.size, **extra), data, processes, 20)
                    row = {"batch": batch, "step": step, "kernels": kernels, "images_per_second": rate}
                    rows.append({"of": "training", **row})
                    print(rows[-1], flush=True)
    args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
