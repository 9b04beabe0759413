"""A small masked transformer with fixed weights."""

import torch

from scob.config import ModelSettings
from scob.model.smt import SemanticMaskedTransformer


def make(**changes: object) -> SemanticMaskedTransformer:
    """Six channels on a 5 x 4 grid."""
    torch.manual_seed(0)
    settings = ModelSettings(**{"width": 16, "heads": 2, "feedforward": 32, **changes})  # type: ignore[arg-type]
    return SemanticMaskedTransformer(6, (5, 4), settings).eval()
