"""A run ready to start, built from its settings and data: network, method, optimiser, plan."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scob import methods
from scob.algorithm.guidance import GuidedMethod
from scob.algorithm.masks import MaskBank
from scob.algorithm.sampling import Plan
from scob.config import Config
from scob.data.prior_file import read_prior
from scob.data.split import Split
from scob.draws import seed_key
from scob.labels import PRESENT, Labels
from scob.model.backbone import Backbone
from scob.model.features import FeatureSource
from scob.model.heads import Grids
from scob.model.network import Network, build_network
from scob.model.row_tables import RowStorage
from scob.parallel import Processes
from scob.training.events import Listener, Note, ReadTrueMasks, silent
from scob.training.execution import Execution, read_execution, why_plain
from scob.training.inputs import Inputs, open_inputs
from scob.training.optimise import AdamOptimiser
from scob.training.out_of_memory import FittingBatch
from scob.training.run_data import Data
from scob.training.scoring import score_images


@dataclass(frozen=True)
class Experiment:
    """A run ready to start."""

    config: Config
    data: Data
    inputs: Inputs
    network: Network
    method: methods.Method
    optimiser: AdamOptimiser
    plan: Plan
    processes: Processes
    execution: Execution

    @property
    def source(self) -> FeatureSource:
        """Where the method gets the training images' features."""
        return self.inputs.sources["train"]

    def scores(
        self, split: str, progress: Callable[[int], None] | None = None, batch: FittingBatch | None = None
    ) -> Tensor:
        """The network's predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU."""
        batch = batch or FittingBatch(scored_at_once(self.processes.device))
        source, feed, mirror = self.inputs.sources[split], self.inputs.feeds[split], self.config.train.flip_test
        return score_images(self.network, source, feed, batch, mirror, self.processes, progress)


def build(
    config: Config,
    data: Data,
    processes: Processes,
    restored: Mapping[str, Tensor] | None = None,
    folder: Path | None = None,
    listen: Listener = silent,
    inputs: Inputs | None = None,
) -> Experiment:
    """Network, method and optimiser of a run, on inputs of its own or on shared ones."""
    kind = methods.class_for(config)
    config = kind.adjust(config)
    device, t = processes.device, config.train
    if device.type == "cuda":
        set_determinism(t.deterministic)
    if inputs is None or not inputs.backbone.frozen:
        inputs = open_inputs(config, data, processes, restored, folder, listen)
    torch.manual_seed(seed_key(t.seed, "weights"))
    network = assemble(config, inputs.backbone, data.observed, inputs.grids).to(device)
    execution = choose_execution(config, inputs, processes, read_execution(folder))
    pad = processes.count > 1 or execution.padded
    plan = Plan(data.observed, t.batch, t.seed, processes.rank, processes.count, pad)
    problem = make_problem(config, data, plan, processes, inputs.grids, folder, listen)
    source = inputs.sources["train"]
    method = kind(network, problem, source, config, methods.settings_of(config, config.method)).to(device)
    if source.precision == "fp64":
        method.double()
    for remark in method.remarks():
        listen(Note(remark))
    if execution.reasons:
        listen(Note("; ".join(execution.reasons)))
    optimiser = AdamOptimiser(method.groups(), t, plan.steps * t.epochs, processes, device, method.rates())
    return Experiment(config, data, inputs, network, method, optimiser, plan, processes, execution)


def scored_at_once(device: torch.device) -> int:
    """How many images are scored at once: on a CPU fewer, so that more of what they need stays in its cache."""
    return 32 if device.type == "cpu" else 64


def choose_execution(config: Config, inputs: Inputs, processes: Processes, record: Execution | None) -> Execution:
    """How the steps of a run are executed: as the settings or the `record` of an earlier part say, else what can be."""
    t = config.train
    wanted = record.graph if record is not None and t.compile == "auto" else t.compile is not False
    plain = why_plain(config, processes) if wanted or record is None else "as in the run so far"
    if not plain and inputs.features in ("host", "disk"):
        plain = "a graph cannot read features from memory outside the GPU"
    if not plain and inputs.feeds["train"].resident is None:
        plain = "the images do not fit on the GPU"
    graph = wanted and not plain
    padded = t.compile is True or graph or (record is not None and record.padded)
    steps = "each step runs as one CUDA graph" if graph else f"steps run one operation at a time ({plain})"
    on_gpu = processes.device.type == "cuda"  # elsewhere nobody expects graphs
    asked = (t.compile == "auto" and on_gpu) or (t.compile is True and not graph), t.feature_cache == "auto"
    reasons = tuple(text for text, shown in zip((steps, inputs.reason), asked, strict=True) if shown)
    return Execution(graph, padded, inputs.features, reasons)


def set_determinism(deterministic: bool) -> None:
    """Bit-identical GPU kernels, or the fastest ones."""
    if deterministic:  # cuBLAS repeats its bits only with a workspace of a fixed size
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not deterministic
    torch.backends.cudnn.benchmark = not deterministic
    torch.use_deterministic_algorithms(deterministic)


def assemble(config: Config, backbone: Backbone, observed: Labels, grids: Grids) -> Network:
    """The common network, or the method's own head on the same backbone."""
    head = methods.find(config.method).build_head(backbone.channels, grids, config, observed)
    if head is not None:
        return Network(backbone, head, len(observed.classes), config.model.linear)
    return build_network(backbone, config.model, len(observed.classes), config.data.size, grids)


def make_problem(
    config: Config,
    data: Data,
    plan: Plan,
    processes: Processes,
    grids: Grids,
    folder: Path | None = None,
    listen: Listener = silent,
) -> methods.Problem:
    """What the method may know. Observed labels and keys end with a row for padding."""
    device = processes.device
    values = with_padding(data.observed.values)
    keys = torch.from_numpy(np.append(data.observed.keys, 0))
    masks = None
    kind = methods.class_for(config)
    if issubclass(kind, GuidedMethod) and config.scob.guidance == "gt-mask":
        segmentation = true_masks(data.train, data.observed, grids)
        if segmentation is not None:
            masks = segmentation[0].to(device)
            listen(ReadTrueMasks(segmentation[1], len(data.train)))
    rows = RowStorage(config.train.rows, folder / f"rows-{processes.rank}" if folder is not None else None)
    truth = with_padding(data.train.labels.values).to(device) if kind.labels == "oracle" else None
    prior = None
    if kind.needs_prior:
        prior = with_padding(read_prior(Path(config.labels.prior), data.observed.images, data.observed.classes))
    return methods.Problem(
        data.observed.classes, values.to(device), keys.to(device), data.k, grids, config.train.seed,
        config.train.epochs, plan.steps, processes, masks, rows, truth, None if prior is None else prior.to(device),
    )  # fmt: skip


def with_padding(values: NDArray[Any]) -> Tensor:
    """A table with one row per image (N, L), and a row of zeros for padding: -> (N + 1, L)."""
    return torch.from_numpy(np.concatenate((values, np.zeros_like(values[:1]))))


def true_masks(split: Split, observed: Labels, grids: Grids) -> tuple[MaskBank, int] | None:
    """Segmentation of each image's observed label at both grids, by max pooling; and how many images have one.

    Void pixels count as background. For an image with several observed labels it is their union.
    """
    if split.masks is None:
        return None
    bank, segmented = MaskBank(len(split), grids), 0
    for row in range(len(split)):
        objects = split.masks.load(row)
        wanted = [int(c) for c in np.flatnonzero(observed.values[row] == PRESENT)]
        shown = [objects.present[c] for c in wanted if c in objects.present] if objects is not None else []
        if not shown:
            continue
        segmented += 1
        union = torch.from_numpy(np.any(shown, axis=0))[None, None].float()
        stages = [torch.nn.functional.adaptive_max_pool2d(union, g)[0] > 0 for g in grids]
        bank.store(torch.tensor([row]), (stages[0], stages[1]), torch.tensor([False]))
    return bank, segmented
