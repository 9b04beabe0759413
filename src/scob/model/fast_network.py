"""A copy of a network that predicts faster on a GPU. It has no gradient."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from scob.model.fold import fast_copy
from scob.model.heads import SmtHead
from scob.model.network import Network


class FastNetwork(nn.Module):
    """The same function: the backbone folded, all weights in `dtype`, and the first SMT beside the last stage.

    The first SMT needs only the last but one stage of the backbone. On a GPU it runs on a second stream while the last
    stage is computed: at small batches neither of them fills the GPU. Where the backbone does not show that stage
    before it has ended (`_early_stage`), one follows the other.
    """

    def __init__(self, network: Network, dtype: torch.dtype) -> None:
        super().__init__()
        own: Any = copy.deepcopy(network).eval()
        self.backbone = fast_copy(own.backbone, dtype)
        self.head, self.classifier = own.head.to(dtype), own.classifier.to(dtype)
        self.dtype = dtype
        self._beside: torch.cuda.Stream | None = None
        self._early: list[Tensor] = []  # what the first SMT gives, while the last stage is still being computed
        stage = self._early_stage()
        if stage is not None and isinstance(self.head, SmtHead):
            stage.register_forward_hook(self._begin_first_smt)

    def _early_stage(self) -> nn.Module | None:
        """The part of the backbone whose output is the first of its two feature maps; None if there is no such part."""
        stages = getattr(getattr(self.backbone.body, "encoder", None), "stages", None)
        reads_last_two = getattr(self.backbone.body, "out_features", [])[-2:] == ["stage3", "stage4"]
        return stages[2] if stages is not None and len(stages) == 4 and reads_last_two else None

    def _begin_first_smt(self, stage: nn.Module, images: object, features: Tensor) -> None:
        """Called when the stage was computed, or rather: was put into the GPU's queue."""
        if not features.is_cuda:
            return
        if self._beside is None:
            self._beside = torch.cuda.Stream(features.device)  # type: ignore[no-untyped-call]
        self._beside.wait_stream(torch.cuda.current_stream(features.device))
        with torch.cuda.stream(self._beside):
            self._early.append(self.head.stages[0](features))

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (B, 3, S, S) to logits (B, L)."""
        self._early.clear()
        features = self.backbone(images.to(self.dtype))
        if self._beside is None or not self._early:
            embedding = self.head(features)
        else:
            last = self.head.stages[1](features[1])
            torch.cuda.current_stream(last.device).wait_stream(self._beside)
            embedding = torch.cat((self._early.pop(), last), dim=1)
        logits: Tensor = self.classifier(embedding)
        return logits
