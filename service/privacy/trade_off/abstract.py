"""Abstract base class of trade-off curves, and the numbers that every trade-off curve provides.

H0 and H1 are the two hypotheses of an attacker, and L = ln dH1/dH0 is the log-likelihood ratio in nats. The curve is
f(alpha) = smallest type II error at false positive rate alpha. It is convex and non-increasing with f(alpha) <= 1 -
alpha. Its conjugate is the profile delta(eps) = sup_alpha power(alpha) - e^eps alpha = E_H0 (e^L - e^eps)_+ for every
real eps.

Public methods validate their arguments, settle edge values, call one `_..._formula` hook and return enclosures. Only
the hooks vary between curves. Methods that end in `_at` return one number; a curve may compute this number without
arrays.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias, final

import numpy as np

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import Argument, Result, count_work, within_time
from service.privacy.trade_off.bounded_tests import BoundedTests
from service.privacy.trade_off.enclosed import caps
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import log_number, placed

A_READING, A_NUMBER = 100.0, 0.3
"""Approximate work of an evaluation, and of every number in it, in microseconds. Closed forms count nothing else."""
STOPPABLE = (Evidence.PROVED, Evidence.CERTIFIED)
"""Evidence of curves whose evaluation ends when a request is out of time."""
CLOSED_FORM: Final = "closed_form"
"""Method of curves whose numbers cost little."""
LARGEST_EPSILON = 1e15
"""Largest epsilon of the search for an upper bound (nats)."""

Alternatives: TypeAlias = "Sequence[tuple[AbstractTradeOff, int]]"
"""Descriptions of one part of a composition: each gives a curve, and how many steps with that curve the part has."""


@dataclass(frozen=True, slots=True)
class CurvePoints:
    """Points of a trade-off curve at given false positive rates alpha.

    Attributes
    ----------
    type_two_error, power : EnclosureArray
        Type II error f(alpha) and power 1 - f(alpha). Neither is computed as one minus the other.
    log_slope : EnclosureArray
        ln(-f'(alpha)), the log-likelihood ratio at the threshold of the best test. At a kink the enclosure contains the
        logarithms of the subdifferential. Bounds may be infinite.
    """

    type_two_error: EnclosureArray
    power: EnclosureArray
    log_slope: EnclosureArray

    @staticmethod
    def without_slopes(type_two_error: EnclosureArray, power: EnclosureArray) -> CurvePoints:
        """Return points of a curve of which no bounds of the log slopes are known.

        Parameters
        ----------
        type_two_error, power : EnclosureArray
            Type II errors and powers, shape (n,).

        Returns
        -------
        CurvePoints
            Points whose log slopes have infinite bounds.
        """
        wide = np.full_like(power.lower, math.inf)
        return CurvePoints(type_two_error, power, EnclosureArray(-wide, wide))

    def __getitem__(self, at: IndexArray | BoolArray | slice) -> CurvePoints:
        """Return the points of the curve at the indices `at`."""
        return CurvePoints(self.type_two_error[at], self.power[at], self.log_slope[at])

    def replaced(self, at: BoolArray, others: CurvePoints) -> CurvePoints:
        """Return these points with others in place of some.

        Parameters
        ----------
        at : BoolArray
            Mask of the points to replace.
        others : CurvePoints
            One point for each true value of the mask.

        Returns
        -------
        CurvePoints
            New points; these stay unchanged.
        """
        slope = EnclosureArray(self.log_slope.lower.copy(), self.log_slope.upper.copy())
        slope.lower[at], slope.upper[at] = others.log_slope.lower, others.log_slope.upper
        errors = placed(self.type_two_error, at, others.type_two_error)
        return CurvePoints(errors, placed(self.power, at, others.power), slope)


class AbstractTradeOff(ABC):
    """Trade-off curve between H0 (in the add direction: the record is absent) and H1.

    Every method takes a one-dimensional float64 array and returns arrays of its shape. Results are enclosures with the
    `evidence` of the curve. Each curve documents the width of its enclosures. Methods raise OutOfDomain for rates and
    deltas outside [0, 1], for NaN and for empty lists. A subclass defines `_points_formula`, `_profile_formula`,
    `largest_log_ratio` and `reversed`; other methods are overridden where a curve knows more or costs less.

    Attributes
    ----------
    evidence : Evidence
        Evidence of all results.
    method : str
        Name of the engine behind the numbers, as in responses: `closed_form`, `contour`, ...
    searches_points : bool
        Whether every point costs a search of the profile, so that callers should prefer the profile.
    serves_lists : bool
        Whether a list of thresholds costs much less than its members, so that bounds of mu use lists of the profile.
    has_rough_lists : bool
        Whether the rough profile of a list costs much less than the profile.
    is_capped : bool
        Whether the formulas already respect the bounds from the extreme log-likelihood ratios.
    is_one_sided : bool
        Whether the curve serves as a bound from above alone. Its upper bounds of powers and deltas and its lower bounds
        of type II errors hold for a release; its other bounds may contradict them, because they belong to no curve.
    has_only_profile : bool
        Whether points come from a search of the profile, so that a mixture should mix profiles before the search.
    """

    evidence: Evidence
    method: str
    searches_points: bool = False
    serves_lists: bool = False
    has_rough_lists: bool = False
    is_capped: bool = False
    is_one_sided: bool = False
    has_only_profile: bool = False

    @final
    def points(self, false_positive_rates: FloatArray) -> CurvePoints:
        """Return type II error, power and slope at each false positive rate.

        Parameters
        ----------
        false_positive_rates : array, shape (n,)
            Rates in [0, 1].

        Returns
        -------
        CurvePoints
            Enclosures, shape (n,).
        """
        alpha, least, most = _checked("false_positive_rates", false_positive_rates, 0.0, 1.0)
        count_work(A_READING + A_NUMBER * alpha.size)
        if least > 0 and most < 1:
            return self._in_range(self._capped_points(alpha), alpha)
        inside = (alpha > 0) & (alpha < 1)
        within = np.where(inside, alpha, 0.5)
        points = self._in_range(self._capped_points(within), within)
        return self._with_ends(points, alpha)

    @final
    def power(self, false_positive_rates: FloatArray) -> EnclosureArray:
        """Return the largest true positive rate (power), one minus the type II error f(alpha), at each rate alpha.

        Parameters
        ----------
        false_positive_rates : array, shape (n,)
            Rates alpha in [0, 1].

        Returns
        -------
        EnclosureArray
            Power, shape (n,).
        """
        return self.points(false_positive_rates).power

    @final
    def type_two_error(self, false_positive_rates: FloatArray) -> EnclosureArray:
        """Return the smallest type II error f(alpha) at each false positive rate.

        Parameters
        ----------
        false_positive_rates : array, shape (n,)
            Rates alpha in [0, 1].

        Returns
        -------
        EnclosureArray
            Type II error, shape (n,).
        """
        return self.points(false_positive_rates).type_two_error

    @final
    def profile(self, epsilons: FloatArray) -> EnclosureArray:
        """Return the privacy profile delta(eps) = sup_alpha power(alpha) - e^eps alpha.

        Parameters
        ----------
        epsilons : array, shape (n,)
            Real or infinite eps, nats.

        Returns
        -------
        EnclosureArray
            delta in [0, 1], shape (n,).
        """
        epsilon, least, most = _checked("epsilons", epsilons, -math.inf, math.inf)
        count_work(A_READING + A_NUMBER * epsilon.size)
        if least > -math.inf and most < math.inf:
            return self._capped_profile(epsilon)
        finite = np.isfinite(epsilon)
        bounds = self._capped_profile(np.where(finite, epsilon, 0.0))
        bounds = _patched(bounds, epsilon == np.inf, self.singular_power)
        return _patched(bounds, epsilon == -np.inf, Enclosure.point(1.0))

    @final
    def rough_profile(self, epsilons: FloatArray, rate: float) -> EnclosureArray:
        """Return wide but inexpensive enclosures of the privacy profile delta(eps), for bounds that need few digits.

        Parameters
        ----------
        epsilons : array of shape (n,)
            Finite numbers of nats.
        rate : float
            A rate in (0, 1) whose log slope is about the largest epsilon, and whose point has been evaluated. Numbers
            that both evaluations share are not computed again.

        Returns
        -------
        EnclosureArray
            Valid enclosures of `profile`, possibly wide.
        """
        epsilon, _, _ = _checked("epsilons", epsilons, -sys.float_info.max, sys.float_info.max)
        if not 0 < rate < 1:
            raise OutOfDomain("rate", rate, "in (0, 1)")
        return self._rough_profile_formula(epsilon, rate)

    @final
    def power_at(self, false_positive_rate: float) -> Enclosure:
        """Return the power at one false positive rate.

        Parameters
        ----------
        false_positive_rate : float
            In [0, 1].

        Returns
        -------
        Enclosure
            The power, with logarithms of its bounds where it may underflow.
        """
        if 0 < false_positive_rate < 1:
            count_work(A_READING)
            power = self._capped_power(false_positive_rate)
            return caps.number_of_guess(power, false_positive_rate) if self.evidence.is_certain else power
        return self.power(np.array([false_positive_rate])).at(0, self.evidence)

    @final
    def profile_at(self, epsilon: float) -> Enclosure:
        """Return the privacy profile delta(eps) at one eps.

        Parameters
        ----------
        epsilon : float
            eps in nats, real or infinite.

        Returns
        -------
        Enclosure
            delta in [0, 1].
        """
        if math.isfinite(epsilon):
            count_work(A_READING)
            return self._capped_delta(epsilon)
        return self.profile(np.array([epsilon])).at(0, self.evidence)

    @final
    def epsilon(self, delta: float) -> Enclosure:
        """Return the smallest eps >= 0 (nats) at which the curve satisfies (eps, delta)-DP.

        Parameters
        ----------
        delta : float
            In [0, 1].

        Returns
        -------
        Enclosure
            The smallest eps with delta(eps) <= delta; infinite if no finite eps satisfies this.

        Raises
        ------
        OutOfDomain
            If delta is outside [0, 1].
        """
        if not 0 <= delta <= 1:
            raise OutOfDomain("delta", delta, "in [0, 1]")
        if delta == 1:
            return Enclosure.point(0.0)
        if delta < self.singular_power.lower:
            return Enclosure.point(math.inf)
        if delta == 0:
            largest = self.largest_log_ratio
            return Enclosure(max(largest.lower, 0.0), max(largest.upper, 0.0), largest.evidence)
        count_work(A_READING)
        return self._within_time(self._epsilon_formula, lambda _: Enclosure(0.0, math.inf, self.evidence), delta)

    def epsilon_cap(self, delta: float, enough: float = -math.inf) -> float:
        """Return an upper bound of `epsilon(delta)` at almost no cost.

        Parameters
        ----------
        delta : float
            In (0, 1).
        enough : float
            A value that is small enough: a search for a smaller upper bound is not needed.

        Returns
        -------
        float
            Upper bound in nats; infinity if none is known.
        """
        del delta, enough
        return math.inf

    def profile_cap(self, epsilon: float) -> float:
        """Return an upper bound of the privacy profile at one eps, at less cost than its value.

        Parameters
        ----------
        epsilon : float
            Finite eps, nats.

        Returns
        -------
        float
            Upper bound of delta(eps); 1 if none is known.
        """
        del epsilon
        return 1.0

    def is_settled(self, epsilon: float) -> bool:
        """Return whether a further evaluation of the profile at `epsilon` (nats) would give no narrower bounds.

        This holds if the profile was evaluated there before and no other engine can narrow its bounds.
        """
        del epsilon
        return False

    @property
    @abstractmethod
    def largest_log_ratio(self) -> Enclosure:
        """Largest log-likelihood ratio L under H1 (essential supremum, nats), the log slope as alpha -> 0.

        Infinite for unbounded L, and if H1 has mass outside H0.
        """

    @property
    def smallest_log_ratio(self) -> Enclosure:
        """Smallest log-likelihood ratio L under H0 (essential infimum, nats), the log slope as alpha -> 1.

        Minus infinity for unbounded L, and if H0 has mass outside H1. By default it is minus the largest ratio of the
        swapped hypotheses.
        """
        return -self.reversed().largest_log_ratio

    @property
    def singular_power(self) -> Enclosure:
        """H1-mass of the set where H0 vanishes: the power at alpha = 0, which is delta(+inf).

        The default is 0, for H1 absolutely continuous with respect to H0. Curves whose H1 has mass outside H0 override
        this property.
        """
        return Enclosure.point(0.0)

    @property
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for which the curve satisfies mu-GDP (f >= g_mu everywhere); None without a closed form.

        g_mu is the trade-off curve of N(0, 1) against N(mu, 1). A curve satisfies mu-GDP if its type II error f is
        nowhere smaller.
        """
        return None

    @property
    def global_gdp_mu_limit(self) -> float:
        """Upper bound of the smallest mu for which the curve satisfies mu-GDP, at no cost; by default infinity."""
        return math.inf

    @property
    def composed_of(self) -> Sequence[Alternatives]:
        """Parts whose composition is at least as easy to attack as this curve; by default none are known."""
        return ()

    @property
    def global_gdp_mu_error(self) -> float | None:
        """Number e such that a point with alpha >= e and f(alpha) >= e attains `global_gdp_mu`; None if unknown."""
        return None

    @property
    def hull_of(self) -> Sequence[AbstractTradeOff]:
        """Curves of which this curve is the largest convex function below all; by default this curve alone."""
        return (self,)

    @property
    def edge_slopes(self) -> FloatArray:
        """Log slopes >= 0 of the edges of a curve that is a polygon; by default none."""
        return np.zeros(0)

    def tests_near(self, log_slopes: FloatArray) -> BoundedTests | None:
        """Return tests next to the best ones at log slopes, or None if no tests are known.

        Parameters
        ----------
        log_slopes : array, shape (n,)
            Log-likelihood ratios >= 0 at which tests reject, nats.

        Returns
        -------
        BoundedTests or None
            Any number of tests that are no stronger than tests of the curve.
        """
        del log_slopes
        return None

    @abstractmethod
    def reversed(self) -> AbstractTradeOff:
        """Return the curve of swapped hypotheses (add <-> remove), the inverse function of this type II error f."""

    @final
    def _with_ends(self, points: CurvePoints, alpha: FloatArray) -> CurvePoints:
        singular = self.singular_power
        rest = Enclosure(max(0.0, 1 - singular.upper), 1 - singular.lower, singular.evidence)
        largest, smallest = self.largest_log_ratio, self.smallest_log_ratio
        zero, one = alpha == 0, alpha == 1
        return CurvePoints(
            _patched(_patched(points.type_two_error, zero, rest), one, Enclosure.point(0.0)),
            _patched(_patched(points.power, zero, singular), one, Enclosure.point(1.0)),
            _patched(_patched(points.log_slope, zero, largest), one, smallest),
        )

    @final
    def _in_range(self, points: CurvePoints, alpha: FloatArray) -> CurvePoints:
        """Limit points of the curve to those of guessing: power >= `alpha`, and type II error <= 1 - `alpha`.

        Only rounding can violate these limits. A wide power is limited by its type II error, and conversely. Points of
        approximations are returned unchanged.
        """
        if not self.evidence.is_certain:
            return points
        error, power = caps.error_of_guess(points.type_two_error, alpha), caps.power_of_guess(points.power, alpha)
        if self.evidence is not Evidence.EXACT:
            error, power = caps.exchanged(error, power)
        return CurvePoints(error, power, points.log_slope)

    @property
    def outer_log_ratios(self) -> tuple[float, float]:
        """Lower bound of `smallest_log_ratio` and upper bound of `largest_log_ratio`, in nats."""
        return self.smallest_log_ratio.lower, self.largest_log_ratio.upper

    @cached_property
    def _extremes(self) -> tuple[float, float] | None:
        """Outer bounds (nats) of the smallest and the largest log-likelihood ratio, or None without such bounds.

        The result is None for exact curves, which need no bounds, for approximations, and if each hypothesis has mass
        that the other excludes. At least one of the two bounds is finite.
        """
        if self.is_capped or self.evidence in (Evidence.EXACT, Evidence.ASYMPTOTIC) or self.singular_power.upper > 0:
            return None
        smallest, largest = self.outer_log_ratios
        return (smallest, largest) if largest < math.inf or smallest > -math.inf else None

    def _within_time(
        self, compute: Callable[[Argument], Result], guess: Callable[[Argument], Result], at: Argument
    ) -> Result:
        """Return `compute(at)`, or `guess(at)` for a curve with proved bounds in a request that is out of time.

        Exact curves are inexpensive, and approximations have no bounds.
        """
        return within_time(compute, guess, at) if self.evidence in STOPPABLE else compute(at)

    @final
    def _capped_points(self, alpha: FloatArray) -> CurvePoints:
        points, extremes = self._within_time(self._points_formula, guessed_points, alpha), self._extremes
        if extremes is None:
            return points
        return CurvePoints(
            caps.floored(points.type_two_error, caps.log_error_floor(alpha, *extremes), self.evidence.is_certain),
            caps.capped(points.power, caps.log_power_cap(alpha, *extremes), self.evidence.is_certain),
            points.log_slope,
        )

    @final
    def _capped_profile(self, epsilon: FloatArray) -> EnclosureArray:
        bounds, extremes = self._within_time(self._profile_formula, anything, epsilon), self._extremes
        if extremes is None or extremes[1] == math.inf:
            return bounds
        return caps.capped(bounds, caps.log_profile_cap(epsilon, extremes[1]), self.evidence.is_certain)

    @final
    def _capped_power(self, rate: float) -> Enclosure:
        power = self._within_time(self._power_at_formula, lambda least: Enclosure(least, 1.0, self.evidence), rate)
        extremes = self._extremes
        if extremes is None:
            return power
        return caps.capped_number(power, float(caps.log_power_cap(np.array([rate]), *extremes)[0]))

    @final
    def _capped_delta(self, epsilon: float) -> Enclosure:
        delta = self._within_time(self._profile_at_formula, lambda _: Enclosure(0.0, 1.0, self.evidence), epsilon)
        extremes = self._extremes
        if extremes is None or extremes[1] == math.inf:
            return delta
        return caps.capped_number(delta, float(caps.log_profile_cap(np.array([epsilon]), extremes[1])[0]))

    @abstractmethod
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        """Compute enclosures of points of the curve at false positive rates `alpha` in (0, 1), shape (n,)."""

    @abstractmethod
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        """Compute the privacy profile delta(epsilon) for finite epsilons in nats, shape (n,), as enclosures."""

    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> EnclosureArray:
        """Compute wide enclosures of the privacy profile at finite epsilons in nats, shape (n,).

        `rate` is a false positive rate near which the profile is used. Subclasses override the method if less precision
        costs less.
        """
        del rate
        return self._capped_profile(epsilon)

    def _power_at_formula(self, rate: float) -> Enclosure:
        """Compute the power at one false positive rate strictly between 0 and 1.

        Subclasses override the method to avoid arrays.
        """
        points = self._points_formula(np.array([rate]))
        if self.evidence is Evidence.EXACT or not self.evidence.is_certain:
            return points.power.at(0, self.evidence)
        return caps.exchanged(points.type_two_error, points.power)[1].at(0, self.evidence)

    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        """Compute the privacy profile delta(epsilon) at one finite epsilon in nats.

        Subclasses override the method to avoid arrays.
        """
        return self._profile_formula(np.array([epsilon])).at(0, self.evidence)

    def _epsilon_formula(self, delta: float) -> Enclosure:
        """Compute the epsilon (nats) at which the privacy profile is `delta`, strictly between 0 and 1.

        `delta` is at least the lower bound of the power at rate 0. The default is a root search up to the largest
        log-likelihood ratio. If this ratio is infinite, the search extends to the first power of 2 where the profile is
        proved to be at most delta. Curves override the method where less work is enough.
        """
        most = max(self.largest_log_ratio.upper, 0.0)
        if math.isinf(most):
            most = 1.0
            while self.profile_at(most).upper > delta:
                most *= 2
                if most > LARGEST_EPSILON:
                    return Enclosure(0.0, math.inf, self.evidence)
        return decreasing_root(self._profile_formula, delta, 0.0, most, self.evidence)


def _checked(name: str, values: FloatArray, low: float, high: float) -> tuple[FloatArray, float, float]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1 and array.size > 0:
        # A single value needs no reductions. They cost as much as the rest of the check.
        least, most = (array.min(), array.max()) if array.size > 1 else (array[0], array[0])
        # NaN makes a comparison false.
        if low <= least and most <= high:
            return array, float(least), float(most)
    raise OutOfDomain(name, values, f"a list of numbers in [{low:g}, {high:g}]")


def anything(like: FloatArray) -> EnclosureArray:
    """Return the enclosures [0, 1], with their logarithms, in the shape of `like`."""
    return EnclosureArray.from_logs(np.full_like(like, -math.inf), np.zeros_like(like))


def guessed_points(alpha: FloatArray) -> CurvePoints:
    """Return points of an unknown curve at the rates `alpha`: they are at least as good as those of a guess."""
    error = caps.error_of_guess(anything(alpha), alpha)
    return CurvePoints.without_slopes(error, caps.power_of_guess(anything(alpha), alpha))


def _patched(bounds: EnclosureArray, where: BoolArray, value: Enclosure) -> EnclosureArray:
    log_lower, log_upper = bounds.log_lower, bounds.log_upper
    if log_lower is not None and log_upper is not None:
        log_lower = np.where(where, log_number(value.lower), log_lower)
        log_upper = np.where(where, log_number(value.upper), log_upper)
    return EnclosureArray(
        np.where(where, value.lower, bounds.lower), np.where(where, value.upper, bounds.upper), log_lower, log_upper
    )
