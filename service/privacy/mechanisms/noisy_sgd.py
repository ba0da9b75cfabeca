"""Noisy SGD: the mean of clipped gradients of a batch of fixed size, with Gaussian noise on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism, AbstractStep, GaussianPart, Steps, merged
from service.privacy.mechanisms.domain import (
    BATCH_SIZE,
    DATASET_SIZE,
    DIMENSION,
    MAX_GRAD_NORM,
    NOISE_MULTIPLIER,
    NOISE_STD,
    STEPS,
    SUSCEPTIBILITY,
    check_fields,
)
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.gaussian import GaussianTradeOff, gaussian_curve
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.ulps import around

if TYPE_CHECKING:
    from service.privacy.composition.loss_law import LossLaw

REPLACED: Final = 2.0
"""The sensitivity of `replace_one`: the only relation under which batches of a fixed size are known to be private."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySgd(AbstractMechanism):
    """`steps` releases of the mean gradient of `batch_size` of `dataset_size` records, drawn without replacement.

    `noise_std` is tau, the standard deviation of the Gaussian noise on each coordinate of the mean; gradients are
    clipped to `max_grad_norm` C (None: not at all). `dimension` is the number of parameters, `susceptibility` the
    centred K = |Sigma^-1/2 (gradient - mean)|^2 of the record under attack (None: the dimension): of interest to the
    membership adversary alone. Without noise, or without clipping, the worst case sees the whole gradient.
    """

    type: ClassVar[str] = "noisy_sgd"
    dataset_size: Annotated[int, DATASET_SIZE]
    batch_size: Annotated[int, BATCH_SIZE]
    dimension: Annotated[int, DIMENSION]
    steps: Annotated[int, STEPS]
    noise_std: Annotated[float, NOISE_STD]
    max_grad_norm: Annotated[float | None, MAX_GRAD_NORM] = None
    susceptibility: Annotated[float | None, SUSCEPTIBILITY] = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.batch_size > self.dataset_size:
            raise OutOfDomain("batch_size", self.batch_size, f"at most dataset_size, {self.dataset_size}")
        multiplier = self._noise_multiplier
        if multiplier > 0 and multiplier not in NOISE_MULTIPLIER:
            allowed = f"0, or such that batch_size noise_std/max_grad_norm is {NOISE_MULTIPLIER}"
            raise OutOfDomain("noise_std", self.noise_std, allowed)

    @property
    def sample_rate(self) -> float:
        """Share of the records in a batch."""
        return self.batch_size / self.dataset_size

    @property
    def shows_batches(self) -> bool:
        """Whether the worst case sees what is in a batch: without noise, or where nothing bounds the gradients."""
        return self._noise_multiplier == 0

    @property
    def _noise_multiplier(self) -> float:
        """n tau/C: noise on the sum of a batch over the largest gradient; 0 where nothing bounds the gradients."""
        return 0.0 if self.max_grad_norm is None else self.batch_size * self.noise_std / self.max_grad_norm

    @override
    def elementary_steps(self) -> Steps:
        if self._noise_multiplier > 0:
            step = BatchMean(sample_rate=self.sample_rate, noise_multiplier=self._noise_multiplier)
            return merged(((step, self.steps),))
        # The record is seen if it is in any batch: one step that samples it so often.
        ever = 1.0 if self.sample_rate == 1 else -math.expm1(self.steps * math.log1p(-self.sample_rate))
        return ((BatchMean(sample_rate=ever, noise_multiplier=0.0), 1),)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMean(AbstractStep):
    """One step: a Gaussian step on a batch of fixed size, a share `sample_rate` of all records.

    `noise_multiplier` is the noise on the sum over the largest gradient, 0 where the step shows the sum itself;
    replacing a record moves the sum by at most twice that gradient.
    """

    type: ClassVar[str] = "noisy_sgd"
    sample_rate: float
    noise_multiplier: float

    @override
    def elementary_steps(self) -> Steps:
        return ((self, 1),)

    @override
    def curves(self, sensitivity: float) -> TradeOffPair:
        self._check_relation(sensitivity)
        source = "Dong, Roth, Su 2022, Theorem 4.2 (subsampling without replacement, min(f_p, f_p^-1)**)"
        if self.noise_multiplier == 0:
            curve = ApproximateDpTradeOff(0.0, self.sample_rate)
            return TradeOffPair(curve, curve, source, ("Without noise or clipping a sampled record is seen as it is.",))
        if self.sample_rate == 1:
            curve = gaussian_curve(self._shift)
            return TradeOffPair(curve, curve, source)
        add = PoissonSampledAdd(GaussianTradeOff(self._shift), self.sample_rate)
        both = TradeOffPair(add, add.reversed(), source).both
        return TradeOffPair(both, both, source)

    @override
    def part(self, sensitivity: float) -> GaussianPart | None:
        if sensitivity != REPLACED or self.sample_rate < 1 or self.noise_multiplier == 0:
            return None
        return GaussianPart(self._shift, (REPLACED, self.noise_multiplier))

    @override
    def loss_law(self, sensitivity: float) -> LossLaw:
        from service.privacy.composition.step_loss_laws import gaussian_loss, two_point_loss

        self._check_relation(sensitivity)
        if self.noise_multiplier == 0:
            return two_point_loss(0.0, self.sample_rate)
        if self.sample_rate == 1:
            return gaussian_loss(REPLACED / self.noise_multiplier)
        reason = "the law of the loss is needed, and the larger of two profiles has none in closed form."
        raise UnsupportedCombination(
            "method", "an approximation for noisy_sgd", reason, ("auto", "closed_form", "discretised")
        )

    @property
    def _shift(self) -> Enclosure:
        return around(REPLACED / self.noise_multiplier, 4)  # the quotient, and the product inside it

    def _check_relation(self, sensitivity: float) -> None:
        if sensitivity != REPLACED:
            reason = "batches of a fixed size have known worst-case curves only where a record is replaced by another."
            raise UnsupportedCombination(
                "threat_model", "add_or_remove_one for noisy_sgd", reason, ("worst_case with replace_one",)
            )
