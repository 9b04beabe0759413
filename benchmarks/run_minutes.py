"""How long runs would take on this machine, from a few steps of each: the hours of docs/backbones.md.

    python benchmarks/run_minutes.py --data VOC2007 --data COCO2014small,data.evaluate=val2014 --out minutes.jsonl \\
        --backbones photographs,resnet50-folder --sizes 224,320,448 --methods role,scob,full

Each run has the settings of `scob train` (12 epochs, batch 16) on the CPU, and is timed twice; the shorter time counts,
because another program may have had the processor.
"""

import argparse
import json
from itertools import product
from pathlib import Path

from scob import methods
from scob.config import Config
from scob.config.reading import load_config
from scob.training.run_data import load_data
from scob.training.run_time import estimate_seconds


def config_of(data: str, backbone: str, size: str, method: str) -> Config:
    """The settings of one run."""
    folder, *more = data.split(",")
    words = [f"data.source={folder}", *more, f"data.size={size}", f"model.backbone={backbone}", f"method={method}"]
    return load_config(None, [*words, "train.device=cpu"], methods.names())


def main() -> None:
    """A line for each run, as soon as it is timed; all of them in a file of JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="FOLDER[,KEY=VALUE...]")
    parser.add_argument("--out", type=Path, required=True)
    for name, default in (("backbones", "photographs"), ("sizes", "224"), ("methods", "role,scob,full")):
        parser.add_argument(f"--{name}", default=default, help="separated by commas")
    o = parser.parse_args()
    for data, size, backbone, method in product(o.data, *(x.split(",") for x in (o.sizes, o.backbones, o.methods))):
        config = config_of(data, backbone, size, method)
        times = [estimate_seconds(config, load_data(config)) for _ in range(2)]
        fitting = [seconds for seconds in times if seconds is not None]
        if not fitting:
            print(data, size, backbone, method, "does not fit into memory", flush=True)
            continue
        row = {
            "data": Path(data.split(",")[0]).name, "size": int(size), "backbone": Path(backbone).name,
            "method": method, "minutes": round(min(fitting) / 60, 1), "epochs": config.train.epochs,
        }  # fmt: skip
        print(*row.values(), flush=True)
        with o.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
