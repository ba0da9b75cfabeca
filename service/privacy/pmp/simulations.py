"""Simulated parent sets as in the figures of Lowy et al. 2023, and the privacy of both mechanisms on them.

For the exponential mechanism, m unit vectors have random directions, and 2n points are normal around the first vector.
The loss is the mean Euclidean distance. For the Gaussian mechanism, 2n points are normal around 0, and the noisy mean
is released. A few points may be scaled into outliers. Finally all points are clipped to norm C. The parent set is the
population from which the data are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential.adjacent import adjacent_epsilon
from service.privacy.pmp.exponential.losses import Losses, ball_sensitivity, norms_of
from service.privacy.pmp.exponential.parameter import exponential_pmp
from service.privacy.pmp.exponential.population import Population
from service.privacy.pmp.exponential.swap import swap_bounds
from service.privacy.pmp.gaussian.points import QueryPoints
from service.privacy.pmp.gaussian.profile import epsilon_at, ratio_at
from service.privacy.pmp.gaussian.upper_bound import exposure_upper_bound

Sensitivity = Literal["attained", "twice_clip_radius"]
Reading = Literal["sensitivity", "exact"]
LARGEST_EPSILON = 1e6
SEARCH_STEPS = 40


@final
@dataclass(frozen=True, slots=True)
class DataLaw:
    """Law of a parent set (population of which the data are a part).

    Attributes
    ----------
    data_size : int
        n; the parent set has 2n points.
    dimension : int
        Dimension d of the points.
    data_std : float
        Standard deviation of each coordinate.
    clip_radius : float
        Norm C to which points are clipped.
    outliers : int
        Number of points that are scaled by `outlier_factor` into outliers.
    outlier_factor : float
        Factor by which outliers are scaled.
    """

    data_size: int
    dimension: int
    data_std: float
    clip_radius: float
    outliers: int
    outlier_factor: float

    def draw(self, centre: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Draw a parent set of 2n points around a centre.

        The parent set is the population from which the data are drawn.

        Parameters
        ----------
        centre : array, shape (d,)
            Mean of the points.
        generator : numpy.random.Generator
            Source of all draws.

        Returns
        -------
        array, shape (2n, d)
            Points, clipped to norm C.
        """
        points = centre + self.data_std * generator.standard_normal((2 * self.data_size, self.dimension))
        chosen = generator.choice(len(points), self.outliers, replace=False)
        points[chosen] *= self.outlier_factor
        norms = norms_of(points)
        return points * np.minimum(1.0, self.clip_radius / np.maximum(norms, self.clip_radius))[:, None]


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """Quantity that is equal in all trials of a simulation.

    Attributes
    ----------
    epsilon : float
        Value of the quantity, nats.
    of : str
        Whether the quantity is the epsilon of the mechanism over all data ("mechanism"), or only between adjacent
        subsets of the parent set ("population").
    reading : str
        How the epsilon on the population is computed: from the "sensitivity" on the population, or "exact".
    """

    epsilon: float
    of: Literal["mechanism", "population"]
    reading: Reading


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """Results of a simulation for one parent set.

    PMP is practical membership privacy: the attacker does not know which records were drawn.

    Attributes
    ----------
    epsilon : float
        epsilon of the mechanism.
    epsilon_pmp : float
        Upper bound of the PMP parameter, nats.
    by_sensitivity : float
        epsilon between adjacent subsets of the parent set, from the sensitivity on the parent set.
    exact : float or None
        Exact epsilon between adjacent subsets of the parent set; None if it was not computed.
    """

    epsilon: float
    epsilon_pmp: float
    by_sensitivity: float
    exact: float | None


def exponential_trial(
    law: DataLaw, objects: int, budget: Budget, sensitivity: Sensitivity, seed: int, trial: int, *, with_exact: bool
) -> Trial | None:
    """Simulate points for the exponential mechanism, and return their privacy numbers.

    `law` draws the points, `objects` is the number of outputs, and `sensitivity` says how the sensitivity is computed.
    `budget` is the quantity that is equal in all trials. With `with_exact` the exact epsilon on the population is also
    computed. The result is deterministic for a seed and a trial number. Returns None if no epsilon up to 1e6 meets the
    budget.
    """
    generator = np.random.default_rng([seed, trial])
    vectors = generator.standard_normal((objects, law.dimension))
    vectors /= norms_of(vectors)[:, None]
    losses = Losses.euclidean(law.draw(vectors[0], generator), vectors, law.clip_radius)
    attained = ball_sensitivity(vectors, law.clip_radius)
    ball = attained if sensitivity == "attained" else 2 * law.clip_radius
    share = (losses.widest_range + losses.range_error) / ball

    def exact_epsilon(epsilon: float) -> float:
        population = Population.of(losses, epsilon / (2 * ball))
        return adjacent_epsilon(population, swap_bounds(population), enumerate_subsets=True).upper

    epsilon = _mechanism_epsilon(budget, share, exact_epsilon)
    if epsilon is None:
        return None
    population = Population.of(losses, epsilon / (2 * ball))
    exact = exact_epsilon(epsilon) if with_exact or budget.reading == "exact" else None
    by_sensitivity = epsilon * min(share * (1 + 8 * UNIT_ROUNDOFF), 1.0)
    proved = by_sensitivity if exact is None else min(exact, by_sensitivity)
    found = exponential_pmp(population, swap_bounds(population), None, exact=True, at_most=proved)
    return Trial(epsilon, found.epsilon.upper, by_sensitivity, exact)


def gaussian_trial(law: DataLaw, budget: Budget, delta: float, seed: int, trial: int) -> Trial | None:
    """Simulate points for the Gaussian mechanism, and return their privacy numbers.

    `law` draws the points, and `delta` is that of all epsilons. The noise is calibrated by the sensitivity 2 C/n for
    the clipping norm C and n points. The parameter of practical membership privacy (PMP) is that of Proposition 12 in
    Lowy et al. 2023. The result is deterministic for a seed and a trial number. Both epsilons on the population are
    that of the profile at the largest distance of two points. Returns None if all points coincide and the budget is
    that of the population.
    """
    generator = np.random.default_rng([seed, trial])
    points = law.draw(np.zeros(law.dimension), generator)
    widest = _largest_distance(points)
    ratio = ratio_at(budget.epsilon, delta).lower
    if budget.of == "population":
        if widest == 0:
            return None
        ratio *= 2 * law.clip_radius / widest
        epsilon = epsilon_at(delta, Enclosure.point(ratio)).upper
    else:
        epsilon = budget.epsilon
    scale = ratio * (1 - 8 * UNIT_ROUNDOFF) / (2 * law.clip_radius)
    bound = exposure_upper_bound(QueryPoints.of(points, None, scale), delta)
    on_population = min(epsilon, epsilon_at(delta, Enclosure.point(widest * scale)).upper)
    return Trial(epsilon, min(bound.epsilon, on_population), on_population, on_population)


def _mechanism_epsilon(budget: Budget, share: float, exact_epsilon: Callable[[float], float]) -> float | None:
    """Return the epsilon (nats) of the exponential mechanism that meets `budget`, or None if no epsilon does.

    `share` is the sensitivity on the population over the sensitivity of the mechanism. `exact_epsilon` maps the epsilon
    of the mechanism to the exact epsilon on the population.
    """
    if budget.of == "mechanism":
        return budget.epsilon
    if budget.reading == "sensitivity":
        epsilon = budget.epsilon / share if share > 0 else math.inf
        return epsilon if epsilon <= LARGEST_EPSILON else None
    low, high = 0.0, budget.epsilon
    while exact_epsilon(high) < budget.epsilon:
        low, high = high, 2 * high
        if high > LARGEST_EPSILON:
            return None
    return bisected(lambda epsilon: not exact_epsilon(epsilon) < budget.epsilon, low, high, SEARCH_STEPS)[1]


def _largest_distance(points: FloatArray) -> float:
    """Return the largest distance of two of the `points`, shape (N, d), rounded up.

    The squared distances in the search have errors of (d + 8) 2^-53 times four squared radii.
    """
    centred = points - points.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    largest = 0.0
    for start in range(0, len(points), 512):
        block = centred[start : start + 512]
        found = squares[start : start + 512, None] + squares - 2 * block @ centred.T
        row, column = np.unravel_index(int(found.argmax()), found.shape)
        largest = max(largest, float(norms_of(block[row] - centred[column])))
    return largest * (1 + (8 * points.shape[1] + 64) * UNIT_ROUNDOFF)
