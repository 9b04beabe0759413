"""Image-level contrast by two views of the same image: BYOL, MoCo and SimCLR, as Tab. 4 adds them to the baseline."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.algorithm.losses import byol_loss, l_cont, nt_xent
from scob.model.backbone import Features
from scob.model.network import Network, Projector, Target

QUEUE = 4096


class ImageContrast(nn.Module):
    """Projector, predictor, target and queue of one of the three; a module so that a checkpoint holds them."""

    queue: Tensor
    filled: Tensor
    place: Tensor

    def __init__(self, network: Network, projection: int, kind: str, tau: float, momentum: float) -> None:
        super().__init__()
        self.kind, self.tau, self.momentum = kind, tau, momentum
        self.projector = Projector(network.dimension, projection, "map")
        self.target = Target(network, self.projector)
        self.predictor = nn.Sequential(nn.Linear(projection, projection), nn.ReLU(), nn.Linear(projection, projection))
        self.predictor.requires_grad_(kind == "byol")
        self.register_buffer("queue", torch.zeros(QUEUE if kind == "moco" else 0, projection))
        self.register_buffer("filled", torch.zeros(len(self.queue), dtype=torch.bool))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))
        self.newest: Tensor | None = None

    def forward(self, network: Network, first: Features, second: Features, weight: Tensor) -> Tensor:
        """The loss of two views' features of the same images."""
        query = self.projector.query(network.embed(first))
        if self.kind == "simclr":
            return nt_xent(query, self.projector.query(network.embed(second)), self.tau, weight)
        key = self.target.key(second, None)
        if self.kind == "byol":
            return byol_loss(F.normalize(self.predictor(query), dim=1), key, weight)
        self.newest = key
        allowed = self.filled[None].expand(len(query), -1)
        return l_cont(query, key, self.queue.clone(), allowed, self.tau, "none", weight)

    @torch.no_grad()
    def follow(self, network: Network, gather: Callable[[Tensor], Tensor]) -> None:
        """Eq. 13 for the target; for MoCo this step's keys join the queue, of which the oldest leave."""
        self.target.follow(network, self.projector, self.momentum)
        if self.newest is not None:
            keys = gather(self.newest)
            slots = (self.place + torch.arange(len(keys), device=keys.device)) % len(self.queue)
            self.queue[slots] = keys
            self.filled.index_fill_(0, slots, True)
            self.place += len(keys)
            self.newest = None
