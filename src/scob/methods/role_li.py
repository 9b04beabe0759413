"""ROLE with linear initialisation: a linear classifier on the backbone's features learns first, then everything.

Elijah Cole, Oisin Mac Aodha, Titouan Lorieul, Pietro Perona, Dan Morris, Nebojsa Jojic: Multi-Label Learning from
Single Positive Labels, CVPR 2021. In the first phase, only a linear classifier on the mean of stage 4 and the label
estimates learn. In the second, the head and the backbone (unless it is frozen) learn with them, starting from where the
first phase ended: the part of the classifier that reads the head starts at zero. With `model.head=linear` and a frozen
backbone the two phases are the same, and the method is ROLE.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from scob.algorithm.sampling import Batch
from scob.config import Config, ModelSettings, Section, setting
from scob.labels import Labels
from scob.methods.role import Role
from scob.model.backbone import Features
from scob.model.heads import ConvHead, Grids, Keep, SmtHead, build_head, pool


class RoleLiSettings(Section):
    """Linear initialisation."""

    linear: float = setting(
        0.5, "share of the epochs that train only the linear classifier; the authors use 25 of 35", 0.714, ge=0, le=1
    )


class LinearFirstHead(nn.Module):
    """A common head next to the mean of stage 4; while `closed`, the head's part is zero: -> (B, E + C)."""

    def __init__(self, channels: tuple[int, int], grids: Grids, settings: ModelSettings) -> None:
        super().__init__()
        self.inner = build_head(channels, grids, settings)
        self.dimension = self.inner.dimension + channels[1]
        self.recipe = {"model": settings.model_dump(mode="json")}
        self.closed = False

    def classifier_for(self, classes: int) -> nn.Linear:
        """A classifier whose weights on the inner head start at zero."""
        classifier = nn.Linear(self.dimension, classes)
        with torch.no_grad():
            classifier.weight[:, : self.inner.dimension] = 0
        return classifier

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        mean = pool(features[1], keep)
        if self.closed:
            return torch.cat((mean.new_zeros(len(mean), self.inner.dimension), mean), dim=1)
        return torch.cat((self.inner(features, keep), mean), dim=1)


class LinearInitialisedRole(Role):
    """ROLE in two phases: first a linear classifier on the backbone's features, then everything."""

    name: ClassVar[str] = "role-li"
    title: ClassVar[str] = "ROLE, linear initialisation"
    Settings: ClassVar[type[Section]] = RoleLiSettings
    settings: RoleLiSettings

    @classmethod
    def build_head(cls, channels: tuple[int, int], grids: Grids, config: Config, observed: Labels) -> nn.Module | None:
        return None if config.model.head == "linear" else LinearFirstHead(channels, grids, config.model)

    @classmethod
    def rebuild_head(cls, channels: tuple[int, int], grids: Grids, recipe: Mapping[str, Any]) -> nn.Module:
        return LinearFirstHead(channels, grids, ModelSettings.model_validate(recipe["model"]))

    def groups(self) -> dict[str, list[nn.Parameter]]:
        groups = super().groups()
        inner = getattr(self.network.head, "inner", None)
        if isinstance(inner, SmtHead):
            groups["smt"] = list(inner.parameters())
            groups["other"] = list(self.network.classifier.parameters())
        elif isinstance(inner, ConvHead):  # its classifier learns with it, as in ROLE
            groups["cnn"], groups["other"] = groups["other"], []
        return groups

    def linear(self, epoch: int) -> bool:
        """Whether the epoch belongs to the first phase."""
        return epoch < self.settings.linear * self.problem.epochs

    def phase(self, epoch: int) -> str:
        return f"linear {self.linear(epoch)}"

    def clean_features(self, batch: Batch) -> Features:
        if isinstance(self.network.head, LinearFirstHead):
            self.network.head.closed = self.linear(batch.epoch)
        third, fourth = super().clean_features(batch)
        return (third.detach(), fourth.detach()) if self.linear(batch.epoch) else (third, fourth)
