"""Base class of methods that read another model's scores of the training images from a prior file (`labels.prior`)."""

from typing import Any, ClassVar

from torch import Tensor

from scob.algorithm.method import LossMethod, Problem
from scob.config import Config
from scob.errors import UserError
from scob.model.features import FeatureSource
from scob.model.network import Network


class WithPrior(LossMethod):
    """Some unknown labels are pseudo-positives (N + 1, L), by the prior file; a buffer, so a resumed run keeps them."""

    needs_prior: ClassVar[bool] = True
    pseudo_positive: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        assert problem.prior is not None
        self.register_buffer("pseudo_positive", self.believed(problem.prior) & (problem.observed == 0))
        self.pseudo_positive[-1] = False

    @classmethod
    def adjust(cls, config: Config) -> Config:
        """Ask for the file before anything is built."""
        if not config.labels.prior:
            raise UserError(
                f"method={cls.name} needs another model's scores of the training images: give labels.prior=FILE, a "
                "table of images x classes (docs/adding-a-method.md, 'A prior file')"
            )
        return config

    def believed(self, prior: Tensor) -> Tensor:
        """Which entries the scores (N + 1, L) make positive, bool."""
        raise TypeError(f"the method {type(self).__name__} does not say what it believes")

    def remarks(self) -> tuple[str, ...]:
        count, images = int(self.pseudo_positive.sum()), self.problem.images
        if not count:
            return (f"{self.title}: no unknown label is positive by {self.config.labels.prior}: are these its scores?",)
        return (f"{self.title}: {count / images:.2f} pseudo-positives per image, by {self.config.labels.prior}",)
