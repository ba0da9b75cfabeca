"""A release known to satisfy approximate differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.domain import DELTA
from service.privacy.mechanisms.groups import STATED, BracketedStep, attained_noise, between, group_delta, multiple
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.mechanisms.stated_dp import StatedDp
from service.privacy.numerics.rounding import rounded


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateDp(StatedDp):
    """Any mechanism that is (eps, delta)-DP for the neighbouring relation of the threat model."""

    type: ClassVar[str] = "approximate_dp"
    delta: Annotated[float, DELTA]

    @property
    @override
    def shown(self) -> float:
        return self.delta

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # Stated for one record under the relation in force.
        k = neighbours.records
        if k == 1:
            return self
        total = multiple(self.epsilon, neighbours, self.type)
        above = ApproximateDp(epsilon=rounded(total, 1), delta=group_delta(self.epsilon, self.delta, k))
        shown = ApproximateDp(epsilon=0.0, delta=rounded(min(Fraction(self.delta) * k, Fraction(1)), -1))
        if self.epsilon == 0:
            # A uniform law that every record moves by delta attains it.
            return between(shown, above)
        noise = attained_noise(self.epsilon, neighbours)
        below = ((self, 1),) if noise is None else ((noise, 1), (shown, 1))
        return BracketedStep(below=below, above=above, bracket=STATED)
