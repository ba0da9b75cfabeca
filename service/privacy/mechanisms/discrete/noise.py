"""Integer noise on queries: what the mechanisms of this kind share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep, listed_law
from service.privacy.mechanisms.domain import WHOLE_SENSITIVITY
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.trade_off.atomic_law import AtomicLaw, sampled_law

SENSITIVITY_STATED: Final = Premise(
    "sensitivity_is_stated",
    "One record changes the query by no more than the stated sensitivity, under the neighbouring relation of the "
    "threat model. A sensitivity between integers was rounded up.",
    about="noise",
)
NOISE_IS_INTEGER: Final = Premise(
    "noise_is_integer",
    "The query has integer values. Every step adds fresh integer noise of exactly the stated law, neither rounded nor "
    "cut off. The random numbers are secret and not predictable.",
    about="noise",
)
SAMPLED = "Zhu, Dong, Wang 2022, Theorem 11 (dominating pairs of Poisson sampling)"


def shift_of(sensitivity: int, kind: str, neighbours: Neighbours) -> int:
    """Return the largest shift of the noise between `neighbours`, data sets that differ in several records.

    The shift is `sensitivity` times the number of records: the stated sensitivity holds for one record, under any
    relation. Raises UnsupportedCombination for shifts above the largest sensitivity of a request. `kind` is the type of
    the mechanism.
    """
    shift = sensitivity * neighbours.records
    if shift not in WHOLE_SENSITIVITY:
        reason = f"records times sensitivity is above {WHOLE_SENSITIVITY.high:g}."
        raise neighbours.refused(kind, reason, ("fewer records",))
    return shift


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledNoise(AtomicStep):
    """Step with noise on a Poisson sample, between data sets with and without one record.

    Attributes
    ----------
    step : AbstractStep
        Step without sampling, with an `atomic_law` that is the same for swapped hypotheses.
    rate : float
        Probability p in (0, 1) with which the record is sampled.

    Notes
    -----
    H0 against (1 - p) H0 + p H1 dominates for an added record (Zhu, Dong, Wang 2022, Theorem 11). A query to which
    all other records add nothing attains this pair in every step. An empty record adds nothing, sampled or not.
    """

    type: ClassVar[str] = "poisson_sampled"
    step: AbstractStep
    rate: float

    @property
    @override
    def law_work(self) -> float:
        return self.step.law_work

    @override
    def atomic_law(self) -> AtomicLaw:
        return sampled_law(listed_law(self.step), self.rate)

    @property
    @override
    def theorem(self) -> str:
        return SAMPLED


def sampled_noise(step: AbstractStep, rate: float, neighbours: Neighbours) -> AbstractStep | None:
    """Return the noise of `step` on a Poisson sample, in which each record is with the probability `rate`.

    The result is None if neighbouring data sets (`neighbours`) differ in several or in replaced records, or if the
    losses of the step are not finitely many listed numbers.
    """
    if neighbours.records > 1 or neighbours.relation == REPLACE:
        return None
    alone = step.under(neighbours)
    return SampledNoise(step=alone, rate=float(rate)) if alone.has_listed_losses else None
