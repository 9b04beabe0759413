"""Which backbone to train with if the user names none."""

import torch

from scob.model.embedded import PHOTOGRAPHS
from scob.model.hub import hub_is_reachable, is_stored

ON_A_GPU = "microsoft/resnet-50"
PATIENCE_SECONDS = 3.0


def choose_backbone(device: torch.device) -> tuple[str, str]:
    """The paper's ResNet-50 on a GPU, if it can be had; else the embedded one. Also a sentence that says why."""
    if device.type != "cuda":
        return PHOTOGRAPHS, f"no CUDA GPU: training with the built-in backbone {PHOTOGRAPHS} (--backbone names another)"
    if is_stored(ON_A_GPU) or hub_is_reachable(PATIENCE_SECONDS):
        return ON_A_GPU, ""
    return PHOTOGRAPHS, (
        f"the model hub cannot be reached: training with the built-in backbone {PHOTOGRAPHS} (--backbone names another)"
    )
