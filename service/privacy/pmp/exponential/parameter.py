"""PMP parameter of the exponential mechanism on one population, by the method that its size allows.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

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
    "bracket: the upper bound is the swap bound, which is the largest change of ln p(w) when one "
    "record is exchanged. No theorem gives a lower bound above 0."
)
Direction = Literal["in_over_out", "out_over_in"]
Method = Literal["enumeration", "sampling", "swap_bound"]


@final
@dataclass(frozen=True, slots=True)
class Sampling:
    """Options of a statistical parameter of practical membership privacy (PMP).

    Attributes
    ----------
    samples : int
        Number of accepted subsets for each object.
    seed : int
        Seed of the random numbers.
    confidence : float
        Simultaneous confidence of all intervals, in (0, 1).
    """

    samples: int
    seed: int
    confidence: float


@final
@dataclass(frozen=True, slots=True)
class ExponentialPmp:
    """PMP parameter of an exponential mechanism, with what attains it or its upper bound.

    PMP is practical membership privacy: the attacker does not know which records were drawn.

    Attributes
    ----------
    epsilon : Enclosure
        The parameter in nats.
    object_index, point_index : int
        Object w and point x.
    direction : str
        "in_over_out" if P(w | x in D) is the larger of both probabilities, else "out_over_in".
    method : str
        How the parameter was computed.
    """

    epsilon: Enclosure
    object_index: int
    point_index: int
    direction: Direction
    method: Method

    @property
    def bracket(self) -> str | None:
        """Note on both bounds if no subset was summed, otherwise None.

        The lower bound of the parameter is then 0, the smallest possible value.
        """
        return BRACKET if self.method == "swap_bound" and self.epsilon.upper > 0 else None


def exponential_pmp(
    population: Population, bounds: SwapBounds, sampling: Sampling | None, *, exact: bool, at_most: float = math.inf
) -> ExponentialPmp:
    """Compute the largest |ln(P(w | x in D)/P(w | x not in D))| over objects w and points x.

    D is a uniform n-subset of the 2n points.

    Parameters
    ----------
    population : Population
        The mechanism on the population.
    bounds : SwapBounds
        Upper bounds of the parameter, from exchanging a point of D for a point outside D.
    sampling : Sampling or None
        Options of a statistical interval.
    exact : bool
        Whether to sum all C(2n, n) subsets. The result is certified, and its width is at most 1e-11 max(1, epsilon) in
        all tests.
    at_most : float
        An epsilon of differential privacy that is proved for the same mechanism, at least among subsets. No parameter
        is larger.

    Returns
    -------
    ExponentialPmp
        Without `exact`, an interval that holds with the confidence of `sampling`. Without `sampling`, or if two logits
        of a point differ by more than e^200, the certified interval from 0 to the swap bound.

    Raises
    ------
    OutOfDomain
        For fewer than 2 samples or a confidence outside (0, 1).

    Notes
    -----
    The parameter is that of Lowy et al. 2023, Proposition 9, with the absolute value of its proof.
    """
    if population.is_constant:
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
    """Return the PMP parameter `epsilon` with the object and point that attain the bound.

    `upper` and -`lower` bound the log ratio of the probabilities with and without a point, shape (objects, points). The
    result has the indices where the larger of both is largest, and the `method`. PMP is practical membership privacy:
    the attacker does not know which records were drawn.
    """
    largest = np.maximum(upper, -lower)
    place = np.unravel_index(int(largest.argmax()), largest.shape)
    direction: Direction = "in_over_out" if upper[place] >= -lower[place] else "out_over_in"
    return ExponentialPmp(epsilon, int(place[0]), int(place[1]), direction, method)
