"""One training step as one CUDA graph: at small batches, launching the kernels takes most of a step's time.

A step has fixed shapes, makes no decision on the host and never synchronises, so it can be captured once per phase and
replayed. The first steps of a phase run uncaptured (they train as usual); the next one is captured.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scob.algorithm.method import Method
from scob.algorithm.sampling import Batch
from scob.errors import first_line
from scob.training.build import Experiment
from scob.training.optimise import AdamOptimiser
from scob.training.out_of_memory import is_out_of_memory, release

WARM = 3  # steps of a phase that run uncaptured


class GraphedStep:
    """`method.step` for batches of one size, replayed from a graph after the warm-up steps."""

    def __init__(
        self,
        method: Method,
        optimiser: AdamOptimiser,
        resident: Tensor,
        given_up: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`resident` (N, 3, S, S) uint8: the training images, on the device, from which the captured step reads.

        If a step cannot be captured, all steps run uncaptured from then on, and `given_up` is told why.
        """
        self.method, self.optimiser, self.resident, self.given_up = method, optimiser, resident, given_up
        self.captures = True
        self.stream: Any = torch.cuda.Stream() if resident.is_cuda else None  # type: ignore[no-untyped-call]
        self.inputs: Batch | None = None
        self.graphs: dict[str, tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]] = {}
        self.seen: dict[str, int] = {}

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """One step; the losses stay valid until the next call."""
        phase = self.method.phase(batch.epoch)
        self._fill(batch)
        assert self.inputs is not None
        if phase not in self.graphs:
            seen = self.seen.get(phase, 0)
            self.seen[phase] = seen + 1
            if seen < WARM or not self.captures or not self._captured(phase, batch.epoch):
                return self._plain(batch)
        graph, losses = self.graphs[phase]
        graph.replay()
        return {name: value.clone() for name, value in losses.items()}

    def _fill(self, batch: Batch) -> None:
        fields = ("rows", "keys", "chosen", "positives", "weight")
        if self.inputs is None:
            self.inputs = replace(batch, **{f: getattr(batch, f).clone() for f in fields})
        for name in fields:
            getattr(self.inputs, name).copy_(getattr(batch, name), non_blocking=True)

    def _step(self, epoch: int, step: int) -> dict[str, Tensor]:
        assert self.inputs is not None
        last = len(self.resident) - 1
        images = self.resident[self.inputs.rows.clamp(max=last)] if self.method.wants_images else None
        others = self.resident[self.inputs.positives.clamp(max=last)] if self.method.needs_positives else None
        batch = replace(self.inputs, epoch=epoch, step=step, images=images, positive_images=others)
        return self.method.step(batch, self.optimiser)

    def _plain(self, batch: Batch) -> dict[str, Tensor]:
        if self.stream is None:
            return self._step(batch.epoch, batch.step)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            losses = self._step(batch.epoch, batch.step)
        torch.cuda.current_stream().wait_stream(self.stream)
        return losses

    def _captured(self, phase: str, epoch: int) -> bool:
        """Capture the step of a phase, which computes nothing yet; False if that fails."""
        try:
            self._capture(phase, epoch)
            return True
        except RuntimeError as error:
            short = is_out_of_memory(error)
            why = "memory is short" if short else f"capturing it failed: {first_line(error)}"
        self.captures = False
        self.graphs.clear()
        self.optimiser.adam.zero_grad(set_to_none=True)  # gradients of the failed capture lie in its own memory
        release()
        self.given_up(f"from here on, steps run one operation at a time, not as a CUDA graph: {why}")
        return False

    def _capture(self, phase: str, epoch: int) -> None:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        self.optimiser.adam.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            losses = self._step(epoch, 0)
        self.graphs[phase] = (graph, losses)


def graphed_step(experiment: Experiment, given_up: Callable[[str], None]) -> GraphedStep | None:
    """The step as a CUDA graph, if the run is executed that way; `given_up` hears if it cannot be captured."""
    e = experiment
    resident = e.inputs.feeds["train"].resident
    if not e.execution.graph or not e.method.capturable or resident is None:
        return None
    return GraphedStep(e.method, e.optimiser, resident, given_up)
