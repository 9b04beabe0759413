"""ROLE (Cole et al., CVPR 2021), the paper's baseline: predictions and label estimates teach each other (Eq. 11-12)."""

from typing import ClassVar

from torch import Tensor

from scob.algorithm.label_estimation import LabelEstimation
from scob.algorithm.method import Optimiser
from scob.algorithm.sampling import Batch


class Role(LabelEstimation):
    """L_class alone."""

    name: ClassVar[str] = "role"
    title: ClassVar[str] = "ROLE"

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        return self.class_step(batch, optimiser)
