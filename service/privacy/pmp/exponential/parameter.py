"""The PMP parameter of the exponential mechanism on one population, by the way that its size allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray
from service.privacy.pmp.exponential.exact import exact_log_ratios
from service.privacy.pmp.exponential.population import LARGEST_SAMPLED_RANGE, Population
from service.privacy.pmp.exponential.swap import SwapBounds

BRACKET: Final = (
    "bracket: the upper end is the swap bound (the largest change of ln p(w) when a record is exchanged); no theorem "
    "gives a lower end but 0, which no parameter is below."
)
Direction = Literal["in_over_out", "out_over_in"]
Method = Literal["enumeration", "sampling", "swap_bound"]


@final
@dataclass(frozen=True, slots=True)
class Sampling:
    """Accepted subsets for each object, the seed, and the probability with which all intervals hold together."""

    samples: int
    seed: int
    confidence: float


@final
@dataclass(frozen=True, slots=True)
class ExponentialPmp:
    """epsilon of PMP, and the object, the point and the direction at which it is attained, or its upper end.

    `direction`: in_over_out where P(w | x in D) is the larger of both probabilities.
    """

    epsilon: Enclosure
    object_index: int
    point_index: int
    direction: Direction
    method: Method

    @property
    def bracket(self) -> str | None:
        """What names both ends where no subset was summed: 0 is the least that any parameter is."""
        return BRACKET if self.method == "swap_bound" and self.epsilon.upper > 0 else None


def exponential_pmp(
    population: Population, bounds: SwapBounds, sampling: Sampling | None, *, exact: bool, at_most: float = math.inf
) -> ExponentialPmp:
    """The largest |ln(P(w | x in D)/P(w | x not in D))| in nats over objects w and points x, D a uniform n-subset of 2n
    points.

    `exact`: all C(2n, n) subsets are summed (certified; width at most 1e-11 of the larger of itself and 1 in all
    references). Else an interval from `sampling` that holds with its confidence (statistical), or where it is None or
    the logits of a point range over more than e^200 the interval from 0 to the swap bound (certified). `at_most`: an
    epsilon of differential privacy that is proved for the same mechanism, among subsets at least; no parameter is
    larger. Lowy et al. 2023, Proposition 9, with the absolute value that its proof has. Raises OutOfDomain for fewer
    than 2 samples or a confidence outside (0, 1).
    """
    if population.tells_nothing:
        return _at(bounds.with_point, -bounds.without, Enclosure.point(0.0), "enumeration" if exact else "swap_bound")
    if exact:
        ratios = exact_log_ratios(population)
        largest = float(np.abs(ratios.values).max())
        upper = min(largest + ratios.error, float(bounds.either.max()), at_most)
        epsilon = Enclosure(max(largest - ratios.error, 0.0), upper, Evidence.CERTIFIED)
        return _at(ratios.values, ratios.values, epsilon, "enumeration")
    if sampling is not None and population.point_range <= LARGEST_SAMPLED_RANGE:
        return _sampled(population, bounds, sampling, at_most)
    epsilon = Enclosure(0.0, min(float(bounds.either.max()), at_most), Evidence.CERTIFIED)
    return _at(bounds.with_point, -bounds.without, epsilon, "swap_bound")


def _sampled(population: Population, bounds: SwapBounds, sampling: Sampling, at_most: float) -> ExponentialPmp:
    from service.privacy.pmp.exponential.sampler import sampled_log_odds

    if sampling.samples < 2:
        raise OutOfDomain("samples", sampling.samples, "an integer of at least 2")
    if not 0 < sampling.confidence < 1:
        raise OutOfDomain("confidence", sampling.confidence, "a number in (0, 1)")
    odds = sampled_log_odds(population, bounds, sampling.samples, sampling.seed, 1 - sampling.confidence)
    lower, upper = float(odds.smallest.max()), min(float(odds.largest.max()), at_most)
    epsilon = Enclosure(min(lower, at_most), upper, Evidence.STATISTICAL)
    return _at(odds.upper, odds.lower, epsilon, "sampling")


def _at(upper: FloatArray, lower: FloatArray, epsilon: Enclosure, method: Method) -> ExponentialPmp:
    """The object and point where the larger of `upper` and -`lower` is largest."""
    largest = np.maximum(upper, -lower)
    place = np.unravel_index(int(largest.argmax()), largest.shape)
    direction: Direction = "in_over_out" if upper[place] >= -lower[place] else "out_over_in"
    return ExponentialPmp(epsilon, int(place[0]), int(place[1]), direction, method)
