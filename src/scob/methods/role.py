"""ROLE (Cole et al., CVPR 2021), the paper's baseline: predictions and label estimates teach each other (Eq. 11-12)."""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.label_estimation import LabelEstimation
from scob.algorithm.method import Optimiser
from scob.algorithm.sampling import Batch


class Role(LabelEstimation):
    """ROLE, the paper's baseline: predictions and label estimates teach each other (L_class, Eq. 11-12)."""

    name: ClassVar[str] = "role"
    title: ClassVar[str] = "ROLE"

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        return self.class_step(batch, optimiser)
