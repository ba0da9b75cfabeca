"""Noise on queries: what the mechanisms of this kind share."""

from __future__ import annotations

from typing import Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.discrete.atomic_step import SampledAtoms
from service.privacy.mechanisms.domain import WHOLE_SENSITIVITY
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours

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


class NoisyQuery(DescribedStep):
    """Query with noise whose losses may have listed values. A subclass defines `under`."""

    __slots__ = ()

    @final
    @override
    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:
        """Return the noise on a Poisson sample, in which each record is with the probability `rate`.

        The result is None if neighbouring data sets (`neighbours`) differ in several or in replaced records, or if the
        losses of the step are not finitely many listed numbers.
        """
        if neighbours.records > 1 or neighbours.relation == REPLACE:
            return None
        alone = self.under(neighbours)
        return SampledAtoms(step=alone, rate=float(rate)) if alone.has_listed_losses else None
