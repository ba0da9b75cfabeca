"""Practical membership privacy (PMP) of a sum or mean with Gaussian noise: parameter, and success bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.gaussian.lower_bound import ExposureLowerBound, exposure_lower_bound
from service.privacy.pmp.gaussian.points import QueryPoints
from service.privacy.pmp.gaussian.profile import epsilon_at
from service.privacy.pmp.gaussian.upper_bound import exposure_upper_bound
from service.privacy.trade_off.enclosed.ulps import around

Query = Literal["sum", "mean"]
BRACKET: Final = (
    "bracket: the upper bound is Proposition 12 of Lowy et al. 2023 or the worst case (Balle and "
    "Wang 2018, Theorem 8). Sets of outcomes on a line attain the lower bound."
)


@final
@dataclass(frozen=True, slots=True)
class GaussianRelease:
    """Noisy sum or mean of `data_size` records.

    Attributes
    ----------
    query : {"sum", "mean"}
        The query.
    data_size : int
        Number n of records.
    clip_radius : float or None
        Norm C to which records are clipped; None without clipping.
    noise_std : float
        Standard deviation of the noise in each coordinate.
    """

    query: Query
    data_size: int
    clip_radius: float | None
    noise_std: float

    @property
    def scale(self) -> float:
        """Weight of a record in the released sum or mean, divided by noise_std."""
        return 1 / (self.noise_std if self.query == "sum" else self.data_size * self.noise_std)

    @property
    def worst_ratio(self) -> Enclosure:
        """Sensitivity for a replaced record (2 C for the sum, 2 C/n for the mean) over noise_std.

        It is infinite without clipping.
        """
        return Enclosure.point(math.inf) if self.clip_radius is None else around(2 * self.clip_radius * self.scale, 4)


@final
@dataclass(frozen=True, slots=True)
class GaussianPmp:
    """Parameter of practical membership privacy (PMP) of a Gaussian mechanism and the sources of its bounds.

    Attributes
    ----------
    epsilon : Enclosure
        The parameter in nats.
    point : int
        Index of the point that determines the upper bound.
    known : ExposureLowerBound or None
        Source of the lower bound; None if both bounds are known without a search.
    """

    epsilon: Enclosure
    point: int
    known: ExposureLowerBound | None

    @property
    def bracket(self) -> str | None:
        """Note that names the theorems of both bounds, or None if the parameter is 0 or known to be infinite."""
        return None if self.epsilon.upper == 0 or self.epsilon.lower == math.inf else BRACKET


def sensitivity(query: Query, data_size: int, clip_radius: float) -> Enclosure:
    """Return the largest change of a sum or mean when a record is replaced.

    Parameters
    ----------
    query : {"sum", "mean"}
        The query.
    data_size : int
        Number n of records.
    clip_radius : float
        Norm C to which records are clipped.

    Returns
    -------
    Enclosure
        2 C for the sum, and 2 C/n for the mean.
    """
    return around(2 * clip_radius / (1 if query == "sum" else data_size))


def worst_case_epsilon(release: GaussianRelease, delta: float) -> Enclosure:
    """Return the smallest epsilon (nats) at which a release is (epsilon, delta)-DP for replaced records.

    Parameters
    ----------
    release : GaussianRelease
        Noisy sum or mean.
    delta : float
        In [0, 1].

    Returns
    -------
    Enclosure
        Infinite without clipping and for delta = 0.

    References
    ----------
    Balle and Wang 2018, Theorem 8.
    """
    ratio = release.worst_ratio
    if ratio.upper == math.inf:
        return Enclosure.point(0.0 if delta == 1 else math.inf)
    return epsilon_at(delta, ratio)


def gaussian_pmp(points: FloatArray, release: GaussianRelease, delta: float) -> GaussianPmp:
    """Compute the parameter of practical membership privacy (PMP) for data drawn uniformly from the points.

    Parameters
    ----------
    points : array, shape (N, d)
        The population.
    release : GaussianRelease
        The mechanism.
    delta : float
        0 <= delta <= 1.

    Returns
    -------
    GaussianPmp
        Enclosure in nats. The upper bound is Proposition 12 of Lowy et al. 2023 or the worst case. The lower bound is
        attained by sets of outcomes on a line.

    Notes
    -----
    For delta = 0 the log ratio of the two mixtures is unbounded. The parameter is then infinite, unless copies of the
    outermost points hide each other.
    """
    placed = QueryPoints.of(points, release.clip_radius, release.scale)
    if placed.coincide or delta == 1:
        return GaussianPmp(Enclosure.point(0.0), 0, None)
    if delta == 0:
        return GaussianPmp(_without_delta(placed, release.data_size), int(np.argmax(placed.radii)), None)
    bound = exposure_upper_bound(placed, delta)
    known = exposure_lower_bound(placed, release.data_size, bound, delta)
    upper = min(bound.epsilon, worst_case_epsilon(release, delta).upper)
    return GaussianPmp(Enclosure(known.epsilon, upper, Evidence.CERTIFIED), bound.point, known)


def success_bound(epsilon: float, delta: float, prior: float) -> float:
    """Return the largest average probability to infer membership correctly under (epsilon, delta)-PMP, rounded up.

    PMP is practical membership privacy: the attacker does not know which records were drawn.

    Parameters
    ----------
    epsilon : float
        epsilon >= 0 in nats.
    delta, prior : float
        Numbers in [0, 1].

    Returns
    -------
    float
        Probability, an upper bound.

    Notes
    -----
    The bound is the largest of (e^epsilon + delta)/(1 + e^epsilon) and the success of two simple attacks. Each always
    gives one of the answers, or learns the correct answer with probability delta. For a prior of 1/2 this is Lemma 6 of
    Lowy et al. 2023. The rounding is below 1e-14 (tested).
    """
    tested = 1 - (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    largest = max(tested, prior + (1 - prior) * delta, 1 - prior + prior * delta)
    return min(1.0, largest * (1 + 8 * UNIT_ROUNDOFF))


def _without_delta(points: QueryPoints, data_size: int) -> Enclosure:
    """Return the PMP parameter for delta = 0: infinite, or in [0, infinity] if outermost points may hide each other.

    For delta = 0 the output reveals whether an outermost point is in the data, unless copies hide it. Hiding needs,
    for n = `data_size`, n + 1 copies of the outermost points on both sides, so at least 2 n + 2 points. The rounding of
    clipped points may create or separate copies. PMP is practical membership privacy: the attacker does not know which
    records were drawn.
    """
    differ = float(points.radii.max()) > 4 * points.centring_error
    distinct = points.moved == 0 and len(np.unique(points.positions, axis=0)) == points.count
    surely = distinct or (differ and 2 * data_size + 2 > points.count)
    return Enclosure(math.inf if surely else 0.0, math.inf, Evidence.CERTIFIED)
