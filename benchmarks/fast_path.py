"""Does the fast path change the answers? mAP of a trained model in plain fp32, and folded in low precision.

    python benchmarks/fast_path.py RUN [--data SOURCE] [--split val] [--device cuda]

The fast path is what `scob bench predict` times: BatchNorm folded into the frozen backbone, bf16 weights on a GPU.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

from scob.data.feed import Feed, FeedOptions
from scob.data.readers import open_split
from scob.data.split import ReadOptions
from scob.model.fast_network import FastNetwork
from scob.model.features import resolve_precision
from scob.parallel import start
from scob.training.find_model import find_model
from scob.training.metrics import mean_average_precision
from scob.training.model_folder import load_network
from scob.training.run_folder import RunFolder
from scob.training.scoring import model_source, row_batches


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", default="")
    parser.add_argument("--split", default="val")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    model, processes = find_model(args.run), start(args.device)
    network, card = load_network(model.path, processes.device)
    network.eval()
    source = args.data or (RunFolder(model.run).read_config().data.source if model.run is not None else "")
    split = open_split(source, args.split, ReadOptions(classes=card.classes))
    views = model_source(network, card, processes.device).views
    dtype = torch.bfloat16 if resolve_precision(processes.device, "auto") == "bf16" else torch.float32
    fast = FastNetwork(network, dtype)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    slow_scores: list[Tensor] = []
    fast_scores: list[Tensor] = []
    with Feed(split, card.size, processes.device, FeedOptions(workers=4)) as feed:
        for images in feed.iterate(row_batches(len(split), args.batch)):
            clean = views.normalise(images).contiguous(memory_format=torch.channels_last)
            slow_scores.append(network(clean).float().sigmoid().cpu())
            fast_scores.append(fast(clean.to(dtype)).float().sigmoid().cpu())
    slow, quick = torch.cat(slow_scores), torch.cat(fast_scores)
    truth = split.labels.values
    result = {
        "images": len(split),
        "mAP plain fp32": mean_average_precision(slow, truth),
        f"mAP folded {str(dtype).removeprefix('torch.')}": mean_average_precision(quick, truth),
        "largest difference of a probability": float((slow - quick).abs().max()),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
