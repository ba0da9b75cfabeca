"""Practical membership privacy of a sum or mean with Gaussian noise: the parameter enclosed, and what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.gaussian.lower_bound import KnownExposure, known_exposure
from service.privacy.pmp.gaussian.points import QueryPoints
from service.privacy.pmp.gaussian.profile import epsilon_at
from service.privacy.pmp.gaussian.upper_bound import exposure_bound
from service.privacy.trade_off.enclosed.ulps import around

Query = Literal["sum", "mean"]
BRACKET: Final = (
    "bracket: the upper end is Proposition 12 of Lowy et al. 2023 or the worst case (Balle and Wang 2018, Theorem 8); "
    "the lower end is attained by sets of outcomes on a line."
)


@final
@dataclass(frozen=True, slots=True)
class GaussianRelease:
    """The sum or mean of `data_size` records, each shortened to norm `clip_radius` if that is given, with noise."""

    query: Query
    data_size: int
    clip_radius: float | None
    noise_std: float

    @property
    def scale(self) -> float:
        """By what a record counts in the release, over noise_std."""
        return 1 / (self.noise_std if self.query == "sum" else self.data_size * self.noise_std)

    @property
    def worst_ratio(self) -> Enclosure:
        """Sensitivity (2 C, for the mean over n, for a replaced record) over noise_std; infinite without clipping."""
        return Enclosure.point(math.inf) if self.clip_radius is None else around(2 * self.clip_radius * self.scale, 4)


@final
@dataclass(frozen=True, slots=True)
class GaussianPmp:
    """epsilon of PMP, the point of its upper end, and where the lower one is from; None where the ends are known."""

    epsilon: Enclosure
    point: int
    known: KnownExposure | None

    @property
    def bracket(self) -> str | None:
        """What names both theorems, save where the parameter is at its floor or known to be infinite."""
        return None if self.epsilon.upper == 0 or self.epsilon.lower == math.inf else BRACKET


def sensitivity(query: Query, data_size: int, clip_radius: float) -> Enclosure:
    """How far replacing one record moves the sum or mean at most: 2 C, for the mean over n."""
    return around(2 * clip_radius / (1 if query == "sum" else data_size))


def worst_case_epsilon(release: GaussianRelease, delta: float) -> Enclosure:
    """The smallest epsilon (nats) at which the release is (epsilon, delta)-DP for replaced records, delta in [0, 1].

    Infinite without clipping and for delta = 0. Source: Balle and Wang 2018, Theorem 8.
    """
    ratio = release.worst_ratio
    if ratio.upper == math.inf:
        return Enclosure.point(0.0 if delta == 1 else math.inf)
    return epsilon_at(delta, ratio)


def gaussian_pmp(points: FloatArray, release: GaussianRelease, delta: float) -> GaussianPmp:
    """The PMP parameter for data drawn uniformly from the points (N x d), enclosed, in nats; 0 <= delta <= 1.

    Upper end: Lowy et al. 2023, Proposition 12, and the worst case. Lower end: sets of outcomes on a line. delta = 0:
    infinite, as the log ratio of the two mixtures is unbounded, save where copies of the outermost points hide each
    other.
    """
    placed = QueryPoints.of(points, release.clip_radius, release.scale)
    if placed.coincide or delta == 1:
        return GaussianPmp(Enclosure.point(0.0), 0, None)
    if delta == 0:
        return GaussianPmp(_without_delta(placed, release.data_size), int(np.argmax(placed.radii)), None)
    bound = exposure_bound(placed, delta)
    known = known_exposure(placed, release.data_size, bound, delta)
    upper = min(bound.epsilon, worst_case_epsilon(release, delta).upper)
    return GaussianPmp(Enclosure(known.epsilon, upper, Evidence.CERTIFIED), bound.point, known)


def success_bound(epsilon: float, delta: float, prior: float) -> float:
    """The largest chance, on average over releases, to tell membership under (epsilon, delta)-PMP; rounded up, by less
    than 1e-14 (tested). epsilon >= 0 in nats, delta and prior in [0, 1].

    (e^epsilon + delta)/(1 + e^epsilon), or that of who always says the likelier answer or is told with probability
    delta, where that is more. Lowy et al. 2023, Lemma 6, for a prior of 1/2.
    """
    tested = 1 - (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    largest = max(tested, prior + (1 - prior) * delta, 1 - prior + prior * delta)
    return min(1.0, largest * (1 + 8 * UNIT_ROUNDOFF))


def _without_delta(points: QueryPoints, data_size: int) -> Enclosure:
    """Surely infinite unless n + 1 copies are outermost on both sides, for which there must be 2 n + 2 points.

    Roundings of clipped points may hide copies, or tell them apart.
    """
    differ = float(points.radii.max()) > 4 * points.centring_error
    distinct = points.moved == 0 and len(np.unique(points.positions, axis=0)) == points.count
    surely = distinct or (differ and 2 * data_size + 2 > points.count)
    return Enclosure(math.inf if surely else 0.0, math.inf, Evidence.CERTIFIED)
