"""Step with Gaussian noise and a random shift, stated as the pair of laws without and with the record."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.batches.shifted_mixture import mixture_step
from service.privacy.mechanisms.caveats import NOISE_IS_FRESH, Premise
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER, SHIFTS, check_fields
from service.privacy.mechanisms.mixture import WEIGHT_SUM_TOLERANCE
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, Neighbours

SHIFT_IS_DRAWN: Final = Premise(
    "shift_is_drawn",
    "With the record, a query moves by at most one of the stated shifts. The shift is drawn with "
    "the stated weights, independently in every step, and is secret. Without the record, the "
    "query does not move.",
    about="sampling",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMixture(DescribedStep):
    """Step with the law N(0, sigma^2) without the record and sum w_i N(s_i, sigma^2) with the record.

    Attributes
    ----------
    noise_multiplier : float
        sigma.
    shifts : tuple of float
        s_i >= 0, in the unit of `noise_multiplier`.
    weights : tuple of float
        w_i > 0 with the sum 1 (within 1e-12). The weights are divided by their sum.

    Notes
    -----
    A query that the record shifts in this way, while everything else adds nothing, attains the curve in every step and
    in both directions. Vectors of lengths s_i in place of shifts are at most as easy to distinguish (Choquette-Choo et
    al. 2024, Corollary 4.7).
    """

    type: ClassVar[str] = "gaussian_mixture"
    type_premises = (SHIFT_IS_DRAWN, NOISE_IS_FRESH)
    noise_multiplier: Annotated[float, NOISE_MULTIPLIER]
    shifts: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= len(self.shifts) <= SHIFTS:
            raise OutOfDomain("shifts", len(self.shifts), f"a list of 1 to {SHIFTS} shifts")
        for shift in self.shifts:
            if not (shift == 0 or 1e-15 <= shift <= 1e15):
                raise OutOfDomain("shifts", shift, "a list of numbers that are 0 or in [1e-15, 1e15]")
        if len(self.weights) != len(self.shifts):
            raise OutOfDomain("weights", len(self.weights), f"as many weights as shifts, {len(self.shifts)}")
        for weight in self.weights:
            if not 0 < weight <= 1:
                raise OutOfDomain("weights", weight, "a list of numbers in (0, 1]")
        total = sum(map(Fraction, self.weights))
        if abs(total - 1) > WEIGHT_SUM_TOLERANCE:
            raise OutOfDomain("weights", float(total), "weights that sum to 1 (within 1e-12)")

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if neighbours.relation != ADD_OR_REMOVE or neighbours.records > 1:
            reason = "the stated shifts describe one added record, and not the effect of a record in its place."
            fewer = ("one record",) if neighbours.records > 1 else ()
            others = (ADD_OR_REMOVE,) if neighbours.relation != ADD_OR_REMOVE else ()
            raise neighbours.refused(self.type, reason, (*fewer, *others))
        weighted = zip(map(float, self.shifts), map(Fraction, self.weights), strict=True)
        return mixture_step(Fraction(self.noise_multiplier), weighted)
