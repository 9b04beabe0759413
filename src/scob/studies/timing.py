"""Wall time of work on a device, measured from an idle device to an idle device."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(run: Callable[[], object], device: torch.device) -> float:
    """Wall time of one call, including the work it leaves to the device."""
    synchronise(device)
    began = time.perf_counter()
    run()
    synchronise(device)
    return time.perf_counter() - began


def median_seconds(run: Callable[[], object], device: torch.device, repeats: int = 20, warm: int = 5) -> float:
    """Median wall time of `repeats` calls, after `warm` calls that are not timed."""
    for _ in range(warm):
        run()
    return statistics.median(seconds_of(run, device) for _ in range(repeats))


def medians_in_turns(
    runs: Mapping[str, Callable[[], object]], device: torch.device, rounds: int = 25, limit: float = 30.0
) -> dict[str, float]:
    """Median seconds of each, called in turns, so that other load on the machine slows all of them alike.

    Stops after `limit` seconds once five rounds are done.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(3):
            run()
    began = time.perf_counter()
    for number in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds_of(run, device))
        if number >= 4 and time.perf_counter() - began > limit:
            break
    return {name: statistics.median(values) for name, values in times.items()}
