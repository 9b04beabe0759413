"""One training step as one CUDA graph: at small batches, launching the kernels takes most of a step's time.

A step has fixed shapes, makes no decision on the host and never synchronises, so it can be captured once per phase and
replayed. The first steps of a phase run uncaptured (they train as usual); the next one is captured.
"""

from dataclasses import replace

import torch
from torch import Tensor

from scob.algorithm.method import Method
from scob.algorithm.sampling import Batch
from scob.training.optimise import AdamOptimiser

WARM = 3  # steps of a phase that run uncaptured


class GraphedStep:
    """`method.step` for batches of one size, replayed from a graph after the warm-up steps."""

    def __init__(self, method: Method, optimiser: AdamOptimiser, resident: Tensor) -> None:
        """`resident` (N, 3, S, S) uint8: the training images, on the device, from which the captured step reads."""
        self.method, self.optimiser, self.resident = method, optimiser, resident
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
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
            if seen < WARM:
                return self._plain(batch)
            self._capture(phase, batch.epoch)
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
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            losses = self._step(batch.epoch, batch.step)
        torch.cuda.current_stream().wait_stream(self.stream)
        return losses

    def _capture(self, phase: str, epoch: int) -> None:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        self.optimiser.adam.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            losses = self._step(epoch, 0)
        self.graphs[phase] = (graph, losses)
