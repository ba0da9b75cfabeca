"""Sparse vector technique: the bits of queries against a noisy threshold, up to a number of positive ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Annotated, ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.caveats import MechanismHazard, Premise
from service.privacy.mechanisms.discrete.few_attacks import Attacks, EnclosedPathStep
from service.privacy.mechanisms.discrete.piecewise_exponential import (
    PiecewiseExponential,
    laplace_density,
    laplace_distribution,
)
from service.privacy.mechanisms.discrete.selection import LARGEST_EXPONENT
from service.privacy.mechanisms.domain import EPSILON, POSITIVE_EPSILON, POSITIVES
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.bounded_tests import BoundedTests

BITS_ONLY: Final = Premise(
    "bits_only",
    "Only bits are released, and the technique stops after the stated number of positive bits. Threshold and queries "
    "have Laplace noise of the scales Delta/threshold_epsilon and 2 positives Delta/query_epsilon. One record changes "
    "every query by at most Delta. The threshold is drawn once.",
    about="scores",
)
VARIANTS_ARE_NOT_PRIVATE: Final = MechanismHazard(
    code="variants_are_not_private",
    text="Several published variants of the sparse vector technique are not private (Lyu, Su, Li 2017). Noise on the "
    "threshold alone, released numbers instead of bits, or bits beyond the stated number void these answers.",
    about="scores",
)
ENCLOSED = (
    "bracket: a sequence of a few queries attains the lower bound. The upper bound is Laplace noise of the same "
    "guarantee for single outcomes (path lemma)."
)
BELOW = (0, 1, 2, 4)
"""Numbers of queries that are expected below the threshold, before the last query."""
LARGEST_CHANGE = 300.0
"""Largest change of a query in an attack, in units of the smaller noise over the number of factors of a chance."""
GAPS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
"""Distances of queries from the threshold, in units of the larger noise."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(DescribedStep):
    """Sparse vector technique: one bit for each query, until `positives` bits were positive.

    Attributes
    ----------
    threshold_epsilon, query_epsilon : float
        The threshold has Laplace noise of scale Delta/threshold_epsilon, and every query has Laplace noise of scale
        2 positives Delta/query_epsilon. Delta is the largest change of a query by one record.
    positives : int
        Number c of positive bits after which the technique stops.

    Notes
    -----
    Let all answers move by at most x along a path, for every history of bits. Shift the threshold noise by x, and the
    noise of the at most c queries with positive bits by 2 x. Then all bits are kept. The probability of a sequence of
    bits changes by a factor of at most e^{x threshold_epsilon/Delta + c 2 x query_epsilon/(2 c Delta)} (Lyu, Su, Li
    2017, Theorem 2). So eta is the sum of both epsilons in the path lemma (`selection.py`), also for queries that
    depend on earlier bits. Several records move answers several times as far.
    """

    type: ClassVar[str] = "sparse_vector"
    type_premises = (BITS_ONLY,)
    type_hazards = (VARIANTS_ARE_NOT_PRIVATE,)
    threshold_epsilon: Annotated[float, POSITIVE_EPSILON]
    query_epsilon: Annotated[float, POSITIVE_EPSILON]
    positives: Annotated[int, POSITIVES]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        eta = (Fraction(self.threshold_epsilon) + Fraction(self.query_epsilon)) * neighbours.records
        if eta > Fraction(EPSILON.high):
            reason = f"records times the sum of both epsilons is above {EPSILON.high:g}."
            raise neighbours.refused(self.type, reason, ("fewer records",))
        noise = Fraction(2 * self.positives) / Fraction(self.query_epsilon)
        attacks = SparseVectorAttacks(
            threshold=float(1 / Fraction(self.threshold_epsilon)), query=float(noise), change=neighbours.records
        )
        return EnclosedPathStep(
            eta=eta, attacks=attacks, source="Lyu, Su, Li 2017 (sparse vector technique); path lemma", bracket=ENCLOSED
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVectorAttacks(Attacks):
    """Attacks on the sparse vector technique: n queries at a gap g below the threshold, then one at a gap h.

    Attributes
    ----------
    threshold, query : float
        Scales of the noise of the threshold and of a query, in units of Delta.
    change : int
        Largest change of a query, in units of Delta.

    Notes
    -----
    The record lowers the first n queries and raises the last one, by less than it could where exponents would be out of
    range. The test rejects for n zeros and a one. Let F be the distribution function of the noise of a query. Given the
    noise r of the threshold, the test rejects with probability F(r - g)^n (1 - F(r - h)). The integral over r is a sum
    of exponentials.
    """

    threshold: float
    query: float
    change: int

    @override
    def tests(self) -> BoundedTests:
        unit, least = max(self.threshold, self.query), min(self.threshold, self.query)
        found: list[tuple[float, float]] = []
        for below, first, last in product(BELOW, GAPS, GAPS):
            change = min(float(self.change), LARGEST_CHANGE * least / (below + 2))
            reach = (max(abs(first), abs(last)) * unit + change) / least
            if (below == 0 and first != 0) or reach * (below + 2) > LARGEST_EXPONENT:
                continue
            low = self._chance(below, first * unit, last * unit)
            high = self._chance(below, first * unit - change, last * unit + change)
            found.append((low[0] + low[1], high[0] - high[1]))
        table = np.array(found).reshape(-1, 2)
        rate, power = table[:, 0], table[:, 1]
        return BoundedTests.of(rate, power)

    def _chance(self, below: int, first: float, last: float) -> tuple[float, float]:
        noise = laplace_density(self.threshold, 0.0).times(laplace_distribution(self.query, first).power(below))
        rejected = laplace_distribution(self.query, last)
        exceeds = PiecewiseExponential(
            rejected.breaks,
            tuple({0.0: 1.0 - t.get(0.0, 0.0), **{r: -c for r, c in t.items() if r}} for t in rejected.pieces),
        )
        return noise.times(exceeds).integral()
