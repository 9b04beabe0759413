"""Real runs in real processes, to be struck; and what is left of a run, to be compared with one left in peace."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors.torch import load_file

from scob.training.checkpoint import list_checkpoints, read_checkpoint

SCOB = Path(sys.executable).with_name("scob")
TIMES = {"time", "seconds", "images_per_second"}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def forked(words: list[str], log: Path) -> int:
    """`scob WORDS` in a process of its own, split off from this one (which has torch in memory already); its id."""
    pid = os.fork()
    if not pid:
        run_main(words, log)
    return pid


def run_main(words: list[str], log: Path, at_end: Callable[[], None] = lambda: None) -> NoReturn:
    """`scob WORDS` in this process, which then ends."""
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.argv = ["scob", *words]
        from scob.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0) if not isinstance(end.code, str) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    at_end()
    os._exit(code)


def scob(*words: str, timeout: float = 300) -> "subprocess.CompletedProcess[str]":
    """`scob WORDS`, to its end."""
    return subprocess.run([str(SCOB), *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)


def launched(count: int, *words: str) -> list[str]:
    """The command line of `scob WORDS` in several processes."""
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]
    return [*runner, str(SCOB), *words]


def children(pid: int) -> list[int]:
    """The processes that a launcher started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def records(run: Path) -> list[dict[str, Any]]:
    """The log without what a clock says."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def state(run: Path) -> dict[str, torch.Tensor]:
    """Everything of a finished run that is a tensor: last checkpoint, model, estimates."""
    tensors = read_checkpoint(list_checkpoints(run / "checkpoints")[-1]).tensors
    for name in ("model/model.safetensors", "estimates.safetensors"):
        tensors |= {f"{name}:{k}": v for k, v in load_file(run / name).items()}
    return tensors


def summary(run: Path) -> dict[str, Any]:
    """What the run says of itself, without times."""
    said = json.loads((run / "summary.json").read_text())
    said["curve"] = [{k: v for k, v in point.items() if k not in TIMES} for point in said["curve"]]
    return {k: v for k, v in said.items() if k not in {*TIMES, "sha256"}}


def predictions(run: Path) -> torch.Tensor:
    """What the run's model says of pictures it has never seen."""
    from scob.training.model_folder import load_network

    network, card = load_network(run / "model")
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        scores: torch.Tensor = network(torch.randn(4, 3, card.size, card.size, generator=draw)).sigmoid()
    return scores


def bytes_lost(whole: Path, struck: Path) -> int:
    """How many bytes of the undisturbed run's results the other does not have."""
    lost = 0
    one, two = state(whole), state(struck)
    for name in one.keys() | two.keys():
        a, b = one.get(name), two.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            lost += (a if a is not None else b).nbytes  # type: ignore[union-attr]
        else:
            lost += int((a.flatten().view(torch.uint8) != b.flatten().view(torch.uint8)).sum())
    for read in (records, summary):
        if read(whole) != read(struck):  # type: ignore[operator]
            lost += abs(len(str(read(whole))) - len(str(read(struck)))) or 1  # type: ignore[operator]
    return lost + int((predictions(whole) != predictions(struck)).sum()) * 4
