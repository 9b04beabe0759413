"""Full disks, signals, too little memory, killed workers, jumping clocks, two runs in one folder, NaN."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from scob.errors import UserError
from scob.files import write_atomically
from scob.training import checkpoint
from scob.training.events import Event, StepLogged
from scob.training.loop import Training
from scob.training.run_folder import RunFolder
from scob.training.train import SharedParts, train
from support.interrupted import Broken, broken_at
from support.runs import same, trained_weights
from support.struck import ENVIRONMENT, SCOB, bytes_lost

SAVING = "train.checkpoint_steps=4"
DAY = 86400.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_leaves_the_last_checkpoint(
    configure: Any, scenes_of: Any, small_disk: Path, run_small: Any, faults: Any
) -> None:
    config = configure(SAVING)
    data, run = scenes_of(config), small_disk / "run"

    def fill(event: Event) -> None:
        if isinstance(event, StepLogged) and event.step == 10:
            with (small_disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"\0" * 4096):
                    pass

    with faults.inject("disk full while saving") as fault:
        with pytest.raises(UserError, match=r"cannot write .*: No space left on device"):
            train(config, run, shared=SharedParts(data), listen=fill)
        kept = checkpoint.latest_checkpoint(run / "checkpoints")
        assert kept is not None
        assert kept.progress.step == 8
        assert kept.complaints == ()
        assert not list((run / "checkpoints").glob(".*"))
        (small_disk / "ballast").unlink()
        train(config, run, resume=True, shared=SharedParts(data))
        fault.lost = bytes_lost(run_small(SAVING), run)
        assert fault.lost == 0


def test_a_file_too_large_for_its_limit_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from pathlib import Path\nfrom scob.files import write_atomically\n"
        "from scob.errors import UserError\n"
        "try: write_atomically(Path(sys.argv[1]), b'x' * 5000)\n"
        "except UserError as error: print(error)"
    )
    import sys

    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "File too large" in said.stdout
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_named(
    configure: Any, scenes_of: Any, tmp_path: Path, small_disk: Path, faults: Any
) -> None:
    config = configure()
    with faults.inject("unwritable folder", told=True):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(UserError, match="cannot write the run folder"):
            train(config, tmp_path / "file" / "run", shared=SharedParts(scenes_of(config)))
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        with pytest.raises(UserError, match=r"cannot write the run folder .*: Read-only file system"):
            train(config, small_disk / "run", shared=SharedParts(scenes_of(config)))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_ends_with_its_code(
    small_words: Any, run_small: Any, tmp_path: Path, faults: Any, number: int, code: int
) -> None:
    run = tmp_path / "run"
    slow = ("train.epochs=400", "data.evaluate=")
    with faults.inject(f"{signal.Signals(number).name} to a real process") as fault:
        command = [str(SCOB), "train", *small_words, *slow, "--out", str(run)]
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 240
        while not (run / "metrics.jsonl").exists() and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(number)
        said = process.communicate(timeout=120)[1]
        assert process.returncode == code, said
        assert f"scob train --resume {run}" in said.replace("\n", "")
        kept = checkpoint.latest_checkpoint(run / "checkpoints")
        assert kept is not None
        steps = sum('"step"' in line for line in (run / "metrics.jsonl").read_text().splitlines())
        fault.lost = abs(kept.progress.step - steps)  # one line per step: none that was logged is missing
        assert fault.lost == 0


def test_a_second_run_on_a_folder_is_refused(configure: Any, scenes_of: Any, tmp_path: Path, faults: Any) -> None:
    config = configure()
    with (
        faults.inject("two runs on one folder", told=True),
        RunFolder(tmp_path / "run").locked(),
        pytest.raises(UserError, match="another process is writing to"),
    ):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))


@pytest.mark.parametrize("jump", [-1e9, 1e9, -DAY, DAY])
def test_a_clock_that_jumps_changes_nothing(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, monkeypatch: Any, faults: Any, jump: float
) -> None:
    config = configure(SAVING)
    now, told = time.time, 0

    def jumping() -> float:
        nonlocal told
        told += 1
        return now() + (jump if told % 2 else 0)

    monkeypatch.setattr(time, "time", jumping)
    with faults.inject("clock jumps by a day or 30 years") as fault:
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
        fault.lost = bytes_lost(run_small(SAVING), tmp_path / "run")
        assert told > 20
        assert fault.lost == 0


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_clock_that_changes_by_two_days_before_a_run_is_resumed_changes_nothing(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path, monkeypatch: Any, faults: Any, jump: float
) -> None:
    config, run, now = configure(SAVING), tmp_path / "run", time.time
    with faults.inject("clock jumps by a day or 30 years") as fault:
        monkeypatch.setattr(time, "time", lambda: now() + jump)
        with pytest.raises(Broken):
            train(config, run, shared=SharedParts(scenes_of(config)), listen=broken_at(11))
        for path in run.rglob("*"):
            os.utime(path, (now() + jump, now() + jump))
        monkeypatch.setattr(time, "time", lambda: now() - jump)
        train(config, run, resume=True, shared=SharedParts(scenes_of(config)))
        fault.lost = bytes_lost(run_small(SAVING), run)
        assert fault.lost == 0


class Hungry(Training):
    """Allocates so much memory per image that two images fit and four do not; the pages are never touched."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        method, step = self.experiment.method, self.experiment.method.step
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

        def hungry(batch: Any, optimiser: Any) -> Any:
            torch.empty(int(0.4 * whole) * len(batch.rows), dtype=torch.uint8)
            return step(batch, optimiser)

        method.step = hungry


def test_a_batch_too_large_for_memory_says_which_fits(
    configure: Any, scenes_of: Any, tmp_path: Path, faults: Any
) -> None:
    config = configure()
    with (
        faults.inject("out of memory (CPU)", told=True),
        pytest.raises(UserError, match=r"train\.batch=8 does not fit into memory; train\.batch=2 fits \(tried here\)"),
    ):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), loop=Hungry)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_batch_too_large_for_a_gpu_says_which_fits(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    class Large(Training):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            method, step = self.experiment.method, self.experiment.method.step
            free = torch.cuda.mem_get_info()[0]

            def hungry(batch: Any, optimiser: Any) -> Any:
                torch.empty(int(0.4 * free) * len(batch.rows), dtype=torch.uint8, device="cuda")
                return step(batch, optimiser)

            method.step = hungry

    config = configure("train.device=cuda")
    with pytest.raises(UserError, match=r"does not fit into the GPU; train\.batch=2 fits \(tried here\)"):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), loop=Large)


def test_a_killed_decoding_worker_is_reported_and_the_run_can_be_resumed(
    configure: Any, tmp_path: Path, faults: Any
) -> None:
    draw = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(12):
            pixels = draw.integers(0, 255, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{number}.png")
    words = (f"data.source={tmp_path / 'photos'}", "labels.kind=given", SAVING, "train.epochs=4", "labels.k=1")
    train(configure(*words), tmp_path / "whole")
    config = configure(*words, "data.workers=2")

    def strike(event: Event) -> None:
        if isinstance(event, StepLogged) and event.step == 5:
            pool = training[0].experiment.inputs.feeds["train"]._pool
            os.kill(pool._processes[0].pid, signal.SIGKILL)

    training: list[Training] = []

    class Watched(Training):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            training.append(self)

    with faults.inject("decoding worker killed") as fault:
        with pytest.raises(UserError, match=r"process that decodes images died .*fewer data\.workers"):
            train(config, tmp_path / "run", listen=strike, loop=Watched)
        config.data.workers = 0
        train(config, tmp_path / "run", resume=True)
        assert same(trained_weights(tmp_path / "whole"), trained_weights(tmp_path / "run"))
        fault.lost = bytes_lost(tmp_path / "whole", tmp_path / "run")
        assert fault.lost == 0


def test_a_feature_that_is_not_a_number_stops_the_run_and_names_the_image(
    configure: Any, scenes_of: Any, tiny_backbone: Path, tmp_path: Path, faults: Any
) -> None:
    from safetensors.torch import load_file, save_file

    damaged = tmp_path / "backbone"
    damaged.mkdir()
    for file in tiny_backbone.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes())
    weights = load_file(damaged / "model.safetensors")
    first = next(k for k in weights if k.endswith("convolution.weight"))
    weights[first].view(-1)[0] = torch.nan
    save_file(weights, damaged / "model.safetensors", metadata={"format": "pt"})
    config = configure(f"model.backbone={damaged}", "model.calibrate_bn=false", SAVING)
    with (
        faults.inject("NaN in a feature", told=True),
        pytest.raises(UserError, match=r"not finite at step 1 .*features of .* are not finite for 8 of 8 images, \S"),
    ):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
    assert not (tmp_path / "run" / "summary.json").exists()
    assert not checkpoint.list_checkpoints(tmp_path / "run" / "checkpoints")
