"""Accuracy on VOC 2007 with an ImageNet ResNet-50: every number in docs/results.md comes from this script.

    python benchmarks/voc2007.py --data VOC2007 --backbone resnet50-imagenet --out voc2007.json main ablation

Runs are grouped; a group is a list of named settings on top of SHARED, which all methods have in common. Several
runs share the GPU (`--together`). Each entry of the JSON is one run: settings, curve, last and held-out selection.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHARED = [
    "data.size=448", "data.workers=8", "labels.seed=0", "model.calibrate_bn=true",
    "train.epochs=12", "train.batch=16", "train.ema=0.99", "train.flip_test=true",
    "train.feature_cache=device", "train.compile=true", "train.holdout_labels=full", "train.checkpoint_minutes=0",
]  # fmt: skip

MAIN = {
    "role-cnn": ["method=role", "model.head=cnn"],
    "role-smt": ["method=role"],
    "scob": ["method=scob"],
    "full-smt": ["method=full"],
}

# The rows of Tab. 3 that are not in MAIN (cnn is role-cnn, smt without contrast is role-smt, the last one is scob).
ABLATION = {
    "smt-nocam-ipt": ["scob.guidance=none"],
    "smt-cam-random": ["scob.contrast=random"],
    "smt-nocam-random": ["scob.guidance=none", "scob.contrast=random"],
    "large-cnn": ["method=role", "model.head=large-cnn"],
    "cnn-ipt": ["model.head=cnn", "scob.guidance=none"],
}


def run_one(name: str, words: list[str], data: str, backbone: str, cache: str) -> dict[str, object]:
    """Train in this process and return the results to store."""
    from scob import methods
    from scob.config import load_config
    from scob.training.metrics import recovery_metrics
    from scob.training.train import train

    base = [*SHARED, f"data.source={data}", f"model.backbone={backbone}", f"data.cache={cache}"]
    config = load_config(None, [*base, *words], methods.section_names())
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        run = train(config, Path(folder) / "run")
        curve = run.curve
        best = max(curve, key=lambda r: r["mAP-holdout-full"])
        observed = max(curve, key=lambda r: r["mAP-observed"])
        result: dict[str, object] = {
            "name": name,
            "words": words,
            "last": curve[-1]["mAP"],
            "held_out_full": best["mAP"],
            "held_out_full_epoch": best["epoch"],
            "held_out_observed": observed["mAP"],
            "best_on_test": max(r["mAP"] for r in curve),
            "holdout_last": curve[-1]["mAP-holdout-full"],
            "holdout_best": best["mAP-holdout-full"],
            "curve": curve,
            "seconds": time.time() - began,
        }
        assert run.experiment is not None
        data = run.experiment.data
        recovered = recovery_metrics(run.scores("train"), data.observed.values, data.train.labels.values)
        result["recovery_ap"] = recovered.average_precision
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="main, ablation, a row of them, or name:key=value,key=value")
    parser.add_argument("--data", required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--cache", default="")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--together", type=int, default=3)
    parser.add_argument("--extra", default="", help="key=value,key=value for every run")
    parser.add_argument(
        "--candidates", nargs="*", default=[], help="name:key=value,... to choose from on held-out images"
    )
    parser.add_argument("--incumbent", type=float, default=0.0, help="held-out mAP a candidate must beat")
    parser.add_argument("--one", default="", help="internal: run only this and print its JSON")
    args = parser.parse_args()
    if args.one:
        name, words = json.loads(args.one)
        print("RESULT " + json.dumps(run_one(name, words, args.data, args.backbone, args.cache)), flush=True)
        return
    extra = [w for w in args.extra.split(",") if w]
    results: list[dict[str, object]] = []
    chosen = choose(args, extra, results)
    wanted: list[tuple[str, list[str]]] = []
    for group in args.groups:
        rows = MAIN | ABLATION
        one = {group: rows[group]} if group in rows else dict([parse(group)])
        table = {"main": MAIN, "ablation": ABLATION}.get(group, one)
        for seed in range(args.seeds):
            wanted += [(n, [*extra, *chosen, *w, f"train.seed={seed}"]) for n, w in table.items()]
    run_all(wanted, args, results)


def parse(group: str) -> tuple[str, list[str]]:
    """`name:key=value,key=value`."""
    name, _, words = group.partition(":")
    return name, [w for w in words.split(",") if w]


def choose(args: argparse.Namespace, extra: list[str], results: list[dict[str, object]]) -> list[str]:
    """The candidate that is best on held-out training images in its last epoch; the reported split plays no part."""
    candidates = dict(parse(c) for c in args.candidates)
    run_all([(n, [*extra, "train.holdout=0.2", *w, "train.seed=0"]) for n, w in candidates.items()], args, results)
    best = max(results, key=lambda r: float(str(r["holdout_last"])), default=None)
    if best is None or float(str(best["holdout_last"])) <= args.incumbent:
        return []
    print(f"chosen: {best['name']}", flush=True)
    return candidates[str(best["name"])]


def run_all(wanted: list[tuple[str, list[str]]], args: argparse.Namespace, results: list[dict[str, object]]) -> None:
    """Run all, `--together` at a time; write the JSON after each run."""
    running: list[tuple[str, subprocess.Popen[str]]] = []
    queue = list(wanted)
    while queue or running:
        while queue and len(running) < args.together:
            name, words = queue.pop(0)
            command = [
                sys.executable,
                __file__,
                "--data",
                args.data,
                "--backbone",
                args.backbone,
                "--cache",
                args.cache,
            ]
            command += ["--out", str(args.out), "--one", json.dumps([name, words])]
            running.append(
                (name, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            )
        time.sleep(0.3)
        for name, process in list(running):
            if process.poll() is None:
                continue
            running.remove((name, process))
            output = process.stdout.read() if process.stdout else ""
            line = next((x for x in output.splitlines() if x.startswith("RESULT ")), None)
            if line is None:
                print(f"{name}: FAILED\n{output[-1500:]}", flush=True)
                continue
            result = json.loads(line[7:])
            results.append(result)
            args.out.write_text(json.dumps(results))
            print(
                f"{name:28s} last {result['last']:.2f} held-out {result['held_out_full']:.2f} (epoch "
                f"{result['held_out_full_epoch']}) obs {result['held_out_observed']:.2f} | holdout last "
                f"{result['holdout_last']:.2f} best {result['holdout_best']:.2f} | "
                f"rec {result.get('recovery_ap', 0):.1f} | {result['seconds']:.0f}s | {' '.join(result['words'])}",
                flush=True,
            )


if __name__ == "__main__":
    main()
