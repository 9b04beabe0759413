"""A copy of a network that predicts faster. It has no gradient."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from scob.model.backbone import Features
from scob.model.fold import fast_copy
from scob.model.heads import SmtHead
from scob.model.network import Network


class FastNetwork(nn.Module):
    """The same function: BatchNorm folded into the convolutions, and all weights in `dtype`.

    The first SMT needs only the last but one stage of the backbone. On a GPU, if the backbone is a ResNet, it runs on a
    second stream while the last stage is computed: at small batches neither of them fills the GPU.
    """

    def __init__(self, network: Network, dtype: torch.dtype) -> None:
        super().__init__()
        own: Any = copy.deepcopy(network).eval()
        self.backbone = fast_copy(own.backbone, dtype)
        self.head, self.classifier = own.head.to(dtype), own.classifier.to(dtype)
        self.linear = None if own.linear is None else own.linear.to(torch.promote_types(dtype, torch.float32))
        self.dtype = dtype
        self.divides = isinstance(self.head, SmtHead) and is_resnet_of_four_stages(self.backbone.body)
        self.beside: torch.cuda.Stream | None = None

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (B, 3, S, S) to logits (B, L)."""
        images = images.to(self.dtype)
        if self.divides and images.is_cuda:
            features, embedding = self.embed_on_two_streams(images)
        else:
            features = self.backbone(images)
            embedding = self.head(features)
        logits: Tensor = self.classifier(embedding)
        return logits if self.linear is None else self.linear(logits, features)

    def embed_on_two_streams(self, images: Tensor) -> tuple[Features, Tensor]:
        """The features, and what the head gives, (B, E): its first SMT is computed while the last stage is."""
        body: Any = self.backbone.body
        here = torch.cuda.current_stream(images.device)
        if self.beside is None:
            self.beside = torch.cuda.Stream(images.device)  # type: ignore[no-untyped-call]
        third = all_but_last_stage(body, images)
        self.beside.wait_stream(here)
        with torch.cuda.stream(self.beside):
            first: Tensor = self.head.stages[0](third)
        fourth: Tensor = body.encoder.stages[-1](third)
        second: Tensor = self.head.stages[1](fourth)
        here.wait_stream(self.beside)
        first.record_stream(
            here
        )  # it belongs to the other stream, which must not use its memory before we have read it
        return (third, fourth), torch.cat((first, second), dim=1)


def all_but_last_stage(body: Any, images: Tensor) -> Tensor:
    """The first of the two maps of such a ResNet, from which its last stage computes the second."""
    x: Tensor = body.embedder(images)
    for stage in body.encoder.stages[:-1]:
        x = stage(x)
    return x


def is_resnet_of_four_stages(body: nn.Module) -> bool:
    """Whether a backbone is a ResNet whose maps are what its third and fourth stage give, with nothing in between."""
    from transformers.models.resnet.modeling_resnet import ResNetBackbone

    return isinstance(body, ResNetBackbone) and list(body.out_features)[-2:] == ["stage3", "stage4"]
