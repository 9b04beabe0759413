"""BoostLU: the classifier reads every cell of the image, and cells with a positive score count alpha times.

Youngwook Kim, Jae Myung Kim, Jieun Jeong, Cordelia Schmid, Zeynep Akata, Jungwoo Lee: Bridging the Gap between Model
Explanations in Partially Annotated Multi-label Classification, CVPR 2023. A model that took missing positives for
negatives still sees them in the right cells, only too weakly. A class's score in a cell, w * cell + b, is multiplied by
alpha = 5 if it is positive; the mean over the cells is the logit, in training and afterwards. The loss is LL-R. Ours: a
cell of the SMT is its two stages' outputs side by side, those of stage 4 repeated for the finer grid of stage 3.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scob.config import Config, ModelSettings, setting
from scob.labels import Labels
from scob.methods.large_loss import LargeLossRejection, LargeLossSettings
from scob.model.backbone import Features
from scob.model.heads import ConvHead, Grids, Keep, SmtHead, build_head
from scob.model.smt import SemanticMaskedTransformer


class BoostLuSettings(LargeLossSettings):
    """Boosted cell scores under large-loss rejection."""

    alpha: float = setting(5.0, "what a cell's positive score is multiplied by; 1: nothing is boosted", 5.0, ge=1)


def boost(scores: Tensor, alpha: float) -> Tensor:
    """Positive scores times alpha; negative ones stay as they are."""
    return torch.where(scores > 0, alpha * scores, scores)


def visible(mask: Tensor) -> Tensor:
    """The cells to read, (B, h, w) bool: those kept, or all cells of an image that keeps none."""
    return mask | ~mask.flatten(1).any(dim=1)[:, None, None]


class BoostedCells(nn.Module):
    """A common head without its pooling, a linear classifier on every cell, and the mean of boosted scores: (B, L)."""

    def __init__(self, channels: tuple[int, int], grids: Grids, recipe: Mapping[str, Any]) -> None:
        super().__init__()
        self.recipe = dict(recipe)
        self.inner = build_head(channels, grids, ModelSettings.model_validate(recipe["model"]))
        self.alpha, self.dimension = float(recipe["alpha"]), int(recipe["classes"])
        self.scores = nn.Linear(self.inner.dimension, self.dimension)

    def classifier_for(self, classes: int) -> nn.Module:
        """The head's output is the logits."""
        return nn.Identity()

    def cells(self, features: Features, keep: Keep | None) -> tuple[Tensor, Tensor | None]:
        """The encoded cells (B, h, w, E), and which of them to read (B, h, w)."""
        if isinstance(self.inner, SmtHead):
            return self.smt_cells(self.inner, features, keep)
        cells = self.inner.cells(features[1]) if isinstance(self.inner, ConvHead) else features[1]
        return cells.permute(0, 2, 3, 1), None if keep is None else visible(keep[1])

    def smt_cells(self, head: SmtHead, features: Features, keep: Keep | None) -> tuple[Tensor, Tensor | None]:
        """Both stages' encoded cells on the grid of stage 3."""
        masks = (None, None) if keep is None else (visible(keep[0]), visible(keep[1]))
        maps = []
        for stage, stage_features, mask in zip(head.stages, features, masks, strict=True):
            assert isinstance(stage, SemanticMaskedTransformer)
            height, width = stage_features.shape[2:]
            cells = stage_features.flatten(2).transpose(1, 2)
            seen = None if mask is None else mask.flatten(1)
            encoded = stage.encode(cells, stage.positions(height, width), seen)
            maps.append(encoded.transpose(1, 2).reshape(len(cells), -1, height, width))
        fine = maps[0].shape[2:]
        both = torch.cat((maps[0], F.interpolate(maps[1], size=fine, mode="nearest")), dim=1)
        if masks[0] is None or masks[1] is None:
            return both.permute(0, 2, 3, 1), None
        coarse = F.interpolate(masks[1][:, None].float(), size=fine, mode="nearest")[:, 0] > 0.5
        return both.permute(0, 2, 3, 1), visible(masks[0] & coarse)

    def forward(self, features: Features, keep: Keep | None = None) -> Tensor:
        cells, read = self.cells(features, keep)
        boosted = boost(self.scores(cells), self.alpha)
        if read is None:
            return boosted.mean(dim=(1, 2))
        weight = read[..., None].to(boosted.dtype)
        return (boosted * weight).sum(dim=(1, 2)) / weight.sum(dim=(1, 2))


class BoostLu(LargeLossRejection):
    """LL-R with a classifier that reads every cell; cells in favour of a class count five times."""

    name: ClassVar[str] = "boostlu"
    title: ClassVar[str] = "BoostLU + LL-R"
    Settings = BoostLuSettings
    settings: BoostLuSettings

    @classmethod
    def build_head(cls, channels: tuple[int, int], grids: Grids, config: Config, observed: Labels) -> nn.Module | None:
        from scob import methods

        settings = methods.settings_of(config, cls.name)
        assert isinstance(settings, BoostLuSettings)
        model = config.model.model_dump(mode="json")
        return BoostedCells(
            channels, grids, {"model": model, "alpha": settings.alpha, "classes": len(observed.classes)}
        )

    @classmethod
    def rebuild_head(cls, channels: tuple[int, int], grids: Grids, recipe: Mapping[str, Any]) -> nn.Module:
        return BoostedCells(channels, grids, recipe)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """The inner head learns at the rate it has under every other method."""
        head = self.network.head
        assert isinstance(head, BoostedCells)
        inner, scores = list(head.inner.parameters()), list(head.scores.parameters())
        smt, cnn = isinstance(head.inner, SmtHead), isinstance(head.inner, ConvHead)
        return {
            "smt": inner if smt else [],
            "cnn": [*scores, *inner] if cnn else [],
            "other": [] if cnn else scores,
            "backbone": list(self.network.backbone.parameters()),
        }
