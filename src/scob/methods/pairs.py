"""L_class on images and on pairs of images, with the likelihood of the chosen label: a method of ours.

Each image is paired with the one before it in the batch: their feature maps, side by side, form one map of twice the
width, which shows what both images show. A class is present in a pair if it is present in one of its images. So an
observed positive of either image is a positive of the pair, and a class observed to be absent from both is absent. What
is believed of the pair follows from what is believed of its images, y_1 and y_2:

    y = 1 - (1 - y_1)(1 - y_2).

For an unknown label, y_i is halfway between the estimate and the current prediction (`trust`). A pair's loss is the
prediction's half of Eq. 12 without the distribution constraint: (L_BCE to y plus L_BCE+) / 2. There are far more pairs
than images, so the network cannot memorise all of them: what it would memorise about one image (this one was called a
dog, so it shows no person) does not hold for the pairs that the image is part of.

With `shift`, the map of each image begins at another cell in every epoch, and what leaves it on one side comes back on
the other. It still shows the same things, but the network cannot recognise an image by where they are. Also, some
channels, drawn anew for each image, pair and epoch, are set to 0: of C channels a share of C / (C + `channels`),
so that a backbone with many channels loses more of them than one with few. (If the channels of a map say much the same
thing, the noise that this adds to a sum over them is as strong for any C.) Neither affects masks and contrast.

Pairs are harder to memorise than images, so the SMT learns at `rate` times `train.lr_smt`.

While an image has been seen fewer than `epochs` times, the likelihood of its label is added, for images and pairs (for
a pair, the mean over both labels): if class c is shown with probability p_c and one of the classes shown was chosen,

    P(c chosen) = p_c · E[1 / (1 + N)] = p_c · ∫ over t from 0 to 1 of ∏ over j ≠ c of (1 - p_j + p_j t),

where N counts the other classes shown, and the term is -log P(c chosen) / L (chosen_label.py). ROLE begins slowly,
because its estimates begin at random; with this term, they soon have a better network to follow. In later epochs the
term would make the network memorise which label was chosen.

When training has ended, a linear classifier is computed in closed form and gets half of the say (`linear`): a ridge
regression of the observed labels on the channels of the last stage (training/linear.py). It cannot memorise images, and
errs in other places than the SMTs.

The longer a network is trained, the better it knows which labels of the training images were not observed. So the
unknown labels of training images are ranked by the mean of the final network's logits and those that it had when the
likelihood ended.

A network that must find the contents of two images in one map becomes overconfident: the probabilities it gives to a
single image are too high. If it then names more labels per image at 0.5 than expected (k of Eq. 11), the logits of all
classes, and the estimates, are lowered by one number, so that it names k: on the held-out images if there are a
thousand or more, else on the training images. The order of its scores stays what it is.

Everything else is L_class with Scob's label estimates and network. The contrastive pass of Algorithm 1 can be added
(`contrast=true`, with the settings `scob.*`): an epoch then takes much longer, and on drawn scenes the result is no
better. Pairs do not train the backbone. docs/oracles.md has the numbers.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from scob.algorithm.bootstrap import Bootstrap
from scob.algorithm.guidance import ClassLosses, detached
from scob.algorithm.kept_logits import KeptLogits
from scob.algorithm.losses import bce, bce_observed
from scob.algorithm.method import Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.algorithm.step_views import first
from scob.config import Config, Section, setting
from scob.draws import seed_key, uniform
from scob.errors import UserError
from scob.methods.chosen_label import l_chosen, log_chosen, quadrature
from scob.methods.image_contrast import KINDS
from scob.model.backbone import Features
from scob.model.features import FeatureSource
from scob.model.heads import Keep
from scob.model.network import Network


class PairsSettings(Section):
    """Pairs of images and the likelihood of the chosen label."""

    weight: float = setting(1.0, "weight of the pairs of images; 0: none", None, ge=0)
    trust: float = setting(
        0.5, "share of the predictions in the labels of a pair; the rest: estimates", None, ge=0, le=1
    )
    shift: bool = setting(True, "begin each feature map at a cell drawn at random", None)
    channels: int = setting(
        8192,
        "how many channels a map must have for half of them to be set to 0; 0: none ever are",
        None,
        before=0,
        ge=0,
    )
    choice: float = setting(6.0, "weight of the likelihood of the chosen label", None, before=3.0, ge=0)
    epochs: int = setting(6, "epochs with this likelihood", None, ge=0)
    rate: float = setting(2.0, "what the SMT's learning rate (train.lr_smt) is multiplied by", None, before=1.0, gt=0)
    linear: bool = setting(
        True, "add a linear classifier of the last stage's channels, computed when training has ended "
        "(`model.linear`)", None, before=False,
    )  # fmt: skip
    contrast: bool = setting(False, "add the contrastive pass of Scob (`scob.contrast`)", None, before=True)


def shifted(features: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Feature maps (B, C, h, w) that begin some cells further down and to the right, (B,) each, and go on from the top.

    A map that is shifted by its height or width is what it was.
    """
    height, width = features.shape[-2:]
    rows = (torch.arange(height, device=down.device) + down[:, None]) % height
    columns = (torch.arange(width, device=right.device) + right[:, None]) % width
    image = torch.arange(len(features), device=down.device)[:, None, None]
    return features[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def thinned(features: Tensor, draw: Tensor, share: float) -> Tensor:
    """Feature maps (B, C, h, w) without the channels whose draw (B, C) is below `share`; the others make up for it."""
    kept = (draw >= share).to(features.dtype) / (1 - share)
    return features * kept[:, :, None, None]


def united_estimates(first: Tensor, second: Tensor) -> Tensor:
    """The probability that a class is present in one of two images at least, (B, L)."""
    return 1 - (1 - first) * (1 - second)


def united_labels(first: Tensor, second: Tensor) -> Tensor:
    """The observed labels of pairs (B, L): 1 if either image has a 1, -1 if both have a -1, else 0."""
    absent = torch.maximum(first, second).clamp(max=0)
    return torch.where((first == 1) | (second == 1), 1, absent)


def naming_logit(scores: Tensor, k: float) -> float:
    """The logit above which k scores per image lie, of probabilities (N, L). Halfway between the last and the next."""
    named = round(k * len(scores))
    if not 0 < named < scores.numel():
        return 0.0
    around = scores.flatten().topk(named + 1).values[-2:]
    return float(around.double().clamp(1e-7, 1 - 1e-7).logit().mean())


class Pairs(Bootstrap):
    """L_class with more to learn from: pairs of images, changed feature maps, the likelihood of the chosen label."""

    name: ClassVar[str] = "pairs"
    title: ClassVar[str] = "Pairs"
    Settings: ClassVar[type[Section]] = PairsSettings
    early: KeptLogits | None  # the logits when the likelihood ended

    @classmethod
    def adjust(cls, config: Config) -> Config:
        if config.scob.contrast in KINDS:
            raise UserError(
                f"method=pairs cannot be combined with scob.contrast={config.scob.contrast}: use ipt, random or none"
            )
        from scob import methods

        settings = methods.settings_of(config, cls.name)
        assert isinstance(settings, PairsSettings)
        return config.model_copy(update={"model": config.model.model_copy(update={"linear": settings.linear})})

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        kind = config.scob.contrast if settings.contrast else "none"
        super().__init__(network, problem, source, config, config.scob.model_copy(update={"contrast": kind}))
        self.pairs: PairsSettings = settings
        self.nodes = quadrature(problem.device)
        self.lowered_by = 0.0  # what `finish` takes from all logits
        images, classes = problem.images, len(problem.classes)
        keeps = settings.linear and self.chooses(0)
        self.early = KeptLogits(images, classes, problem.device, problem.rows) if keeps else None

    def end_epoch(self, epoch: int, scores: Callable[[], Tensor]) -> None:
        """Keep the predictions of the last epoch with the likelihood."""
        if self.early is not None and epoch + 1 == self.pairs.epochs:
            self.early.keep(scores())

    def ranking(self, logits: Tensor, epoch: int) -> Tensor:
        """The mean of these logits and the early ones, if the chosen epoch came after those."""
        return logits if self.early is None or epoch < self.pairs.epochs else self.early.averaged(logits)

    def rates(self) -> dict[str, float]:
        return {"smt": self.pairs.rate}

    def finish(self, scores: Callable[[], Tensor]) -> float:
        """If the model names more than k labels per image at 0.5, lower its logits until it names k."""
        self.lowered_by = max(0.0, naming_logit(scores(), self.problem.k))
        self.network.lower(self.lowered_by)
        return self.lowered_by

    def estimates(self) -> Tensor | None:
        """The estimates followed the predictions, so they are lowered with them; what was observed stays."""
        estimates = super().estimates()
        return None if estimates is None else (estimates.logit() - self.lowered_by).sigmoid()

    def chooses(self, epoch: int) -> bool:
        """Whether the likelihood of the chosen label counts in this epoch."""
        return epoch < self.pairs.epochs and self.pairs.choice > 0

    def phase(self, epoch: int) -> str:
        return f"{super().phase(epoch)}, choice {self.chooses(epoch)}"

    def class_step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        """An iteration without the contrastive pass: in the initial phase, or in all of them."""
        clean = self.clean_features(batch)
        losses = self.class_losses(self.class_logits(clean, batch), clean, None, batch)
        self.update(losses.total, losses.rows, batch, optimiser)
        return detached(losses.named)

    def moved(self, clean: Features, batch: Batch) -> Features:
        """The feature maps that the class losses read: with `shift`, they begin elsewhere."""
        if not self.pairs.shift:
            return clean
        third, fourth = clean
        draw = uniform(batch.keys, seed_key(self.problem.seed, "shift"), 2)
        (fine_height, fine_width), (height, width) = third.shape[-2:], fourth.shape[-2:]
        down, right = (draw[:, 0] * height).long(), (draw[:, 1] * width).long()
        finer = shifted(third, down * fine_height // height, right * fine_width // width)
        return finer, shifted(fourth, down, right)

    def noisy(self, features: Features, batch: Batch, of: str) -> Features:
        """The same maps without some of their channels, of images or of pairs."""
        if not self.pairs.channels:
            return features
        maps = []
        for stage, values in enumerate(features):
            channels = values.shape[1]
            draw = uniform(batch.keys, seed_key(self.problem.seed, f"channels of {of}, stage {stage}"), channels)
            maps.append(thinned(values, draw, channels / (channels + self.pairs.channels)))
        third, fourth = maps
        return third, fourth

    def class_logits(self, clean: Features, batch: Batch) -> Tensor:
        return self.logits(self.noisy(self.moved(clean, batch), batch, "images"))

    def predict(self, logits: Tensor, clean: Features, count: int) -> Tensor:
        """As in Scob; but the logits of the step are those of a changed map, and masks are those of the map itself."""
        if not self.pairs.shift and not self.pairs.channels:
            return super().predict(logits, clean, count)
        some = first(clean, count)
        return self.logits(some) if self.settings.cam_dropout else self.without_dropout(some)

    def class_losses(self, logits: Tensor, clean: Features, masks: Keep | None, batch: Batch) -> ClassLosses:
        """L_class of the images (Eq. 12), the loss of their pairs, and the likelihood of the chosen labels."""
        losses = super().class_losses(logits, clean, masks, batch)
        s, share, observed = self.pairs, self.share(batch), self.observed(batch)
        named = dict(losses.named)
        chosen = l_chosen(log_chosen(logits, *self.nodes), observed, share) if self.chooses(batch.epoch) else None
        if s.weight > 0:
            partners = self.partners(batch)
            features = self.pair_features(self.moved(clean, batch), partners)
            pair_logits = self.logits(self.noisy(features, batch, "pairs"))
            other = self.of_partners(observed, partners)
            believed = self.believed(logits, losses.rows, observed)
            target = united_estimates(believed, self.of_partners(believed, partners))
            p, labels = pair_logits.sigmoid(), united_labels(observed, other)
            pair_loss = (bce(p, target, batch.weight) + bce_observed(p, labels, batch.weight)) / 2
            named["pairs"] = s.weight * pair_loss
            if chosen is not None:
                likelihood = log_chosen(pair_logits, *self.nodes)
                both = (l_chosen(likelihood, observed, share) + l_chosen(likelihood, other, share)) / 2
                chosen = chosen + s.weight * both
        if chosen is not None:
            named["choice"] = s.choice * chosen
        return ClassLosses(torch.stack(list(named.values())).sum(), losses.rows, named)

    def believed(self, logits: Tensor, rows: Tensor, observed: Tensor) -> Tensor:
        """What is believed of the images' labels (B, L): what was observed, else between estimate and prediction."""
        estimate, predicted = rows.detach().sigmoid(), logits.detach().sigmoid()
        p = estimate + self.pairs.trust * (predicted - estimate)
        return torch.where(observed == 0, p, (observed == 1).to(p.dtype))

    def pair_features(self, features: Features, partners: Tensor) -> Features:
        """Each image on the left, its partner on the right."""
        stages = (stage.detach() for stage in features)
        third, fourth = (torch.cat((stage, self.of_partners(stage, partners)), dim=-1) for stage in stages)
        return third, fourth

    def partners(self, batch: Batch) -> Tensor:
        """The place (B,) of each image's partner, the one before it, among the images of all processes.

        The first one's is the last one, so that every image is on each side once. Padding is nobody's partner.
        """
        processes = self.problem.processes
        images = (processes.gather(batch.weight) > 0).sum().clamp(min=1)
        places = torch.arange(len(batch.rows), device=batch.rows.device) * processes.count + processes.rank
        return (places - 1) % images

    def of_partners(self, values: Tensor, partners: Tensor) -> Tensor:
        """What belongs to the partners (B, ...), of a value for each image."""
        return self.problem.processes.gather(values).index_select(0, partners)
