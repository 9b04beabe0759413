"""How much each image of a step counts, in one process or in several that share the batch."""

from dataclasses import dataclass, field

from torch import Tensor

from scob.parallel import Processes


def weighted_mean(per_image: Tensor, weight: Tensor | None) -> Tensor:
    """The sum of (B,) values, each times its weight; the plain mean without weights."""
    return per_image.mean() if weight is None else (per_image * weight).sum()


@dataclass(frozen=True)
class BatchShare:
    """`weight` (B,) is each image's share of the whole batch: 1/B by default, 0 for padding.

    The weights of all processes sum to 1, so their losses add up to the loss of one process with the whole batch.
    """

    weight: Tensor | None = None
    processes: Processes = field(default_factory=Processes)

    def mean(self, per_image: Tensor) -> Tensor:
        """The mean over the images of this process, (B,) -> a scalar."""
        return weighted_mean(per_image, self.weight)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes. Its gradient flows only into this process's part."""
        return self.processes.collect(value)

    def counted_once(self, term: Tensor) -> Tensor:
        """Divide the value of a term that every process computes in full. Its gradient is divided already."""
        share = 1 / self.processes.count
        return term if share == 1 else term - (1 - share) * term.detach()
