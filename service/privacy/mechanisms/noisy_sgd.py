"""Noisy SGD: Gaussian noise on the mean of clipped gradients of a batch of fixed size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractMechanism, Steps, merged
from service.privacy.mechanisms.batches.batch_seen import BatchSeen
from service.privacy.mechanisms.batches.fixed_batches import FixedBatches
from service.privacy.mechanisms.caveats import ONE_RECORD_IS_PROTECTED, PARTS_ARE_INDEPENDENT, Premise
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
from service.privacy.numerics.rounding import UNIT_ROUNDOFF, rounded

EVER_ERROR: Final = 32 * UNIT_ROUNDOFF

MEANS_OF_CLIPPED_GRADIENTS: Final = Premise(
    "means_of_clipped_gradients",
    "Every step releases only a noisy mean gradient of its batch. Each gradient is clipped to "
    "max_grad_norm, and the sum is divided by batch_size. Fresh secret Gaussian noise of "
    "standard deviation noise_std is added to every coordinate.",
    about="gradients",
)
BATCHES_OF_FIXED_SIZE: Final = Premise(
    "batches_of_fixed_size",
    "Every batch is drawn afresh and uniformly among all sets of batch_size records. Batches are secret.",
    about="gradients",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySgd(AbstractMechanism):
    """Releases of the mean gradient of `batch_size` out of `dataset_size` records, drawn without replacement.

    Attributes
    ----------
    dataset_size, batch_size : int
        Count of records, and of records in a batch. If a record is added or removed, `dataset_size` is that of the
        larger data set. A batch of all records then contains all records of the smaller data set.
    dimension : int
        Count of parameters.
    steps : int
        Count of releases.
    noise_std : float
        Standard deviation tau of the Gaussian noise on each coordinate of the mean.
    max_grad_norm : float or None
        Norm C to which gradients are clipped; None without clipping.
    susceptibility : float or None
        Centred K = |Sigma^-1/2 (gradient - mean)|^2 of the record under attack; None for the dimension. Only the
        membership adversary uses it.

    Notes
    -----
    Without noise or without clipping, the worst case sees the whole gradient. `batches/batch_mean.py` has the pairs of
    a step, and states which of them are attained.
    """

    type: ClassVar[str] = "noisy_sgd"
    type_premises = (MEANS_OF_CLIPPED_GRADIENTS, BATCHES_OF_FIXED_SIZE, PARTS_ARE_INDEPENDENT)
    type_hazards = (ONE_RECORD_IS_PROTECTED,)
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
        """Whether the worst case sees the content of a batch: without noise, or without a bound of the gradients."""
        return self._noise_multiplier == 0

    @property
    def _noise_multiplier(self) -> float:
        """Ratio of the noise on the sum of a batch to the largest length of a gradient; 0 for unbounded gradients.

        With batch size n, noise tau on the mean and clipping norm C it is n tau/C.
        """
        return 0.0 if self.max_grad_norm is None else self.batch_size * self.noise_std / self.max_grad_norm

    @override
    def elementary_steps(self) -> Steps:
        rate = Fraction(self.batch_size, self.dataset_size)
        if self.max_grad_norm is not None and not self.shows_batches:
            multiplier = self.batch_size * Fraction(self.noise_std) / Fraction(self.max_grad_norm)
            step = FixedBatches(
                sample_rate=rate,
                noise_multiplier=multiplier,
                dataset_size=self.dataset_size,
                batch_size=self.batch_size,
            )
            return merged(((step, self.steps),))
        # A record in any batch is visible. So the run is one step with the probability that any batch has the record.
        return ((BatchSeen(least=_ever(rate, self.steps, -1), most=_ever(rate, self.steps, 1)), 1),)


def _ever(rate: Fraction, steps: int, side: int) -> float:
    """Return 1 - (1 - `rate`)^`steps`, the chance that a batch holds the record, rounded down (`side` -1) or up (1).

    u = 2^-53 is the unit of rounding. With x = -steps ln(1 - rate), an error of ln x changes ln(1 - e^-x) by at most
    that error. For rate <= 1/2 the roundings of the rate, of log1p and of the product move ln x by less than 12 u, and
    expm1 adds 8 u. For larger rates and steps >= 2, the rounding of the rate moves e^-x by at most steps (1 -
    rate)^{steps - 1} u <= u. The other roundings move it by 12 u x e^-x.
    """
    nearest = float(rate)
    if steps == 1 or nearest == 1:
        return rounded(rate, side)
    value = -math.expm1(steps * math.log1p(-nearest))
    return min(value * (1 + side * EVER_ERROR), 1.0)
