"""Trade-off curve of one mixture of shifted Gaussians against another, on both sides of 0, for a single step.

    H0 = sum_j v_j N(-d_j, 1),      H1 = sum_i w_i N(d'_i, 1),      d_j, d'_i >= 0.

ln dH1/dH0 increases in x. So the best tests reject above a threshold t, and rates and powers are sums of Phi at t. Let
delta_d be the Gaussian profile of N(0, 1) against N(d, 1). If ln dH1/dH0 is eps at t, the profile is a sum without any
cancellation:

    delta(eps) = sum_i w_i delta_{d'_i}(d'_i t - d'_i^2/2) + e^eps sum_j v_j e^{-g_j} delta_{d_j}(g_j),
    g_j = d_j t + d_j^2/2.

Proof: the first sum is H1(x > t) minus Phi(-t) sum_i w_i e^{d'_i t - d'_i^2/2}. The second sum is the term
Phi(-t) e^eps sum_j v_j e^{-g_j} minus e^eps H0(x > t). Both terms with Phi(-t) are equal, because e^eps is the ratio of
the densities at t. If the hypotheses are swapped and x is mirrored, the components of H0 and of H1 swap their roles. So
one class serves both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.increasing_inverse import certified_inverse, increasing_roots
from service.privacy.trade_off.shifted.gaussian import gaussian_log_profile
from service.privacy.trade_off.shifted.location_law import NORMAL
from service.privacy.trade_off.shifted.profile_table import ProfileTable

CHUNK: Final = 1 << 18
"""Largest count of thresholds times components in one array."""
FARTHEST: Final = 2.0**100
"""Largest threshold of a search. Beyond it a loss has reached its limit, or overflows."""
FAINT: Final = 80.0
"""Distance in nats below the largest bound from which the part of a component is only bounded."""
FEW_COMPONENTS: Final = 8
"""Count of components up to which all of them are evaluated."""
FEW: Final = 64
"""Count of thresholds up to which each has its own search."""
GRID, NEWTON_STEPS = 4096, 3
POWERS: Final[FloatArray] = np.ldexp(1.0, 2 * np.arange(51)).astype(np.float64)
"""Powers of 4 up to FARTHEST."""
REACHED: Final = 1e4
"""Largest threshold of the grid of guesses, times the smallest distance."""
SIDES: Final = np.array([-1.0, 1.0])[:, np.newaxis, np.newaxis]
SPREAD: Final = 100.0
"""Largest distance for which the search for the threshold of a rate extends over all components."""
TABLE_REACH: Final = 40.0
"""Distance beyond all components to which the table extends."""

Ends = tuple[FloatArray, FloatArray]


A_COMPONENT, A_SUM = 0.02, 60.0
"""Approximate work of one component at one threshold, in microseconds, and the fixed work of a sum over components."""


@final
@dataclass(frozen=True)
class NormalComponents:
    """Components of a mixture of m normal laws of variance 1 on one side of 0, with weights whose sum is at most 1.

    Attributes
    ----------
    distances : array of shape (2, m)
        Lower and upper bounds of the distances of the means from 0.
    weights : array of shape (m,)
        The weights, each with a relative error of at most `weight_error`.
    """

    distances: FloatArray
    weights: FloatArray
    weight_error: float

    @cached_property
    def log_weights(self) -> FloatArray:
        """Bounds of the logarithms of the weights of the components, shape (2, m, 1)."""
        value = np.log(self.weights)
        error = FUNCTION_ERROR * np.abs(value) + 2 * self.weight_error
        return np.stack((value - error, value + error))[:, :, np.newaxis]

    @property
    def shifted_weight(self) -> float:
        """Upper bound of the total weight of all normal components of the mixture whose mean is not 0."""
        apart = self.weights[self.distances[1] > 0]
        return math.fsum(apart) * (1 + 2 * self.weight_error + 4 * UNIT_ROUNDOFF)

    @property
    def is_at_zero(self) -> bool:
        """Whether all normal components of the mixture have the mean 0."""
        return float(self.distances[1].max()) == 0

    @property
    def weight_at_zero(self) -> Enclosure | None:
        """Weight of the normal component of the mixture with the mean 0, or None without such a component."""
        zero = self.distances[1] == 0
        if not zero.any():
            return None
        weight = float(self.weights[zero].sum())
        error = 2 * self.weight_error * weight
        return Enclosure(weight - error, min(weight + error, 1.0), Evidence.EXACT)

    def log_mass(self, x: FloatArray, sign: int) -> Ends:
        """Return (lower, upper) bounds of ln sum w Phi(x + sign d) over components with weights w and distances d.

        x may be infinite. Both bounds have the shape of x. `sign` is 1 for components on the right of 0, and -1 on the
        left.
        """
        low, high = self.distances[:, :, np.newaxis] if sign > 0 else -self.distances[::-1, :, np.newaxis]
        count_work(A_COMPONENT * x.size * len(self.weights))
        requested, x = x, np.clip(x, -FARTHEST, FARTHEST)
        wobble = 2 * UNIT_ROUNDOFF * (np.abs(x) + np.abs(low))
        points = np.stack((x + low - wobble, x + high + wobble))
        logs, error = NORMAL.log_cdf(points)
        below, above = log_sums(np.minimum(logs + SIDES * error, 0.0) + self.log_weights)
        above = np.where(requested > FARTHEST, 0.0, np.minimum(above, 0.0))
        return np.where(requested < -FARTHEST, -np.inf, below), above

    def log_density(self, t: FloatArray, sign: int) -> Ends:
        """Return (lower, upper) bounds of ln sum w e^{sign d t - d^2/2} at thresholds t.

        The sum is the density of the mixture over that of N(0, 1). w and d are weights and distances of the components.
        Both bounds have the shape of t.
        """
        seen, rest = self.relevant(t, sign)
        count_work(A_SUM + A_COMPONENT * t.size * len(seen.weights))
        return log_sums(_append_bound(seen.exponents(t, sign) + seen.log_weights, rest))

    def relevant(self, t: FloatArray, sign: int) -> tuple[NormalComponents, float]:
        """Return the components whose density is not negligible at some of the thresholds.

        Parameters
        ----------
        t : array, shape (T,)
            Thresholds.
        sign : int
            1 for components on the right of 0, -1 on the left.

        Returns
        -------
        (NormalComponents, float)
            The components, and ln of an upper bound of the sum of the weighted densities, over that of N(0, 1), of all
            others. The others are below e^-80 of one component at all thresholds. Up to 8 components are all returned.
        """
        if len(self.weights) <= FEW_COMPONENTS or t.size == 0:
            return self, -math.inf
        # Exponents are affine in t.
        logs = self.exponents(np.array([t.min(), t.max()]), sign) + self.log_weights
        return self._drop(logs[1].max(axis=1), float(logs[0].min(axis=1).max()))

    def relevant_to_tails(self, t: FloatArray) -> tuple[NormalComponents, float]:
        """Return the components whose mass to the right of some of the thresholds is not negligible.

        Parameters
        ----------
        t : array, shape (T,)
            Thresholds.

        Returns
        -------
        (NormalComponents, float)
            The components, and ln of an upper bound of the sum of the tails of all others.

        Notes
        -----
        The components are on the right, where Phi(d - t) <= e^{-(t - d)^2/2} for t >= d.
        """
        if len(self.weights) <= FEW_COMPONENTS or t.size == 0:
            return self, -math.inf
        ends = np.array([t.min(), t.max()])
        beyond = np.maximum((ends - self.distances[1][:, np.newaxis]) * (1 - 1e-12) - 1e-12 * np.abs(ends), 0.0)
        logs = self.log_weights[1] - 0.5 * beyond**2 * (1 - 1e-12)
        return self._drop(logs[:, 0], float(logs[:, 1].max()))

    def _drop(self, most: FloatArray, largest: float) -> tuple[NormalComponents, float]:
        """Return the components without those whose largest possible term, e^most, is below e^{`largest` - 80}.

        The second result is ln of an upper bound of the sum over the dropped components.
        """
        seen = ~(most < largest - FAINT)
        if seen.all():
            return self, -math.inf
        rest = float(np.logaddexp.reduce(most[~seen])) * (1 - 1e-12) + 1e-9
        return NormalComponents(self.distances[:, seen], self.weights[seen], self.weight_error), rest

    def exponents(self, t: FloatArray, sign: int) -> FloatArray:
        """Return bounds of the exponents sign d t - d^2/2 of the relative densities.

        Parameters
        ----------
        t : array, shape (T,)
            Thresholds.
        sign : int
            1 for components on the right of 0, -1 on the left.

        Returns
        -------
        array, shape (2, m, T)
            Lower and upper bounds.
        """
        d = self.distances[:, :, np.newaxis]
        moved, square = sign * d * t, 0.5 * d * d
        slack = 4 * UNIT_ROUNDOFF * (np.abs(moved) + square)
        low = moved.min(axis=0) - square[1] - slack.max(axis=0)
        high = moved.max(axis=0) - square[0] + slack.max(axis=0)
        return np.stack((low, high))


@final
class GaussianMixtureTradeOff(AbstractTradeOff):
    """Trade-off curve of two normal mixtures: `absent`, mirrored to the left of 0, against `present` on the right.

    At least one mixture has a component away from 0. u = 2^-53 is the unit of rounding.

    Notes
    -----
    Points and profiles have relative errors of about 1e-13, plus the change t^2 u of a density that the rounding of a
    threshold t causes.
    """

    evidence = Evidence.EXACT
    method = "closed_form"

    def __init__(self, absent: NormalComponents, present: NormalComponents) -> None:
        self.absent, self.present = absent, present
        self._grids: dict[tuple[float, float], Ends] = {}
        self._chunk = max(CHUNK // (len(absent.weights) + len(present.weights)), 1)

    @override
    def reversed(self) -> AbstractTradeOff:
        return self if self.absent is self.present else GaussianMixtureTradeOff(self.present, self.absent)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Largest log-likelihood ratio in nats: infinite, except if H1 is N(0, 1) and H0 has a component at 0.

        For a component of weight w at 0 the ratio is at most -ln w, and approaches this number.
        """
        limit = _limit(self.present, self.absent)
        return Enclosure.point(math.inf) if limit is None else -limit

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """mu of the largest Gaussian curve below this curve, if one hypothesis is N(0, 1); None for two mixtures.

        It is the largest distance, whatever its weight. N(d, 1) has at least the power of a mixture of nearer
        components, and equal behaviour in the limit alpha -> 0.
        """
        if not (self.absent.is_at_zero or self.present.is_at_zero):
            return None
        ends = np.maximum(self.absent.distances.max(axis=1), self.present.distances.max(axis=1))
        return Enclosure(float(ends[0]), float(ends[1]), Evidence.EXACT)

    def log_ratio(self, t: FloatArray) -> Ends:
        """Return (lower, upper) bounds of the log-likelihood ratio ln dH1/dH0 (nats) at thresholds t, shape (n,).

        The thresholds are finite or infinite.
        """
        requested, t = t, np.clip(t, -FARTHEST, FARTHEST)
        (present_low, present_high), (absent_low, absent_high) = (
            self.present.log_density(t, 1),
            self.absent.log_density(t, -1),
        )
        slack = 2 * UNIT_ROUNDOFF * (np.abs(present_low) + np.abs(absent_high))
        low, high = present_low - absent_high - slack, present_high - absent_low + slack
        return np.where(requested < -FARTHEST, -np.inf, low), np.where(requested > FARTHEST, np.inf, high)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        # For rates above 1/2 solve for the complement, which is exact.
        low = alpha <= 0.5
        left, right = np.empty_like(alpha), np.empty_like(alpha)
        for chosen, places in ((1, low), (-1, ~low)):
            rates = alpha[places] if chosen > 0 else 1 - alpha[places]
            for part in _parts(np.flatnonzero(places), self._chunk):
                target = rates[np.searchsorted(np.flatnonzero(places), part)]
                left[part], right[part] = self._thresholds(target, chosen)
        return self._read(left, right)

    def _thresholds(self, rates: FloatArray, side: int) -> Ends:
        """Return (lower, upper) bounds of t with P(x > t) = rate (`side` 1) or P(x < t) = rate (-1) under H0.

        x is the outcome, in standard deviations of the noise. `rates` are in (0, 1/2].
        """

        def log_rates(t: FloatArray) -> Ends:
            below, above = self.absent.log_mass(-side * t, -side)
            return (-above, -below) if side > 0 else (below, above)

        target = -side * np.log(rates)
        guess = increasing_roots(log_rates, target, *self._around(rates, side))
        return certified_inverse(log_rates, target, guess)

    def _around(self, rates: FloatArray, side: int) -> Ends:
        """Return approximate intervals that contain the thresholds at which H0 has tails of the given `rates`.

        `side` is 1 for upper tails and -1 for lower tails.

        For distant components the interval over all components is too wide for a search. Two facts narrow it. Take the
        outermost components whose weights add up to more than the rate. They reach the rate no later than a single
        component with their weight at the innermost of their means. Next drop the outermost components whose weights
        add up to less than the rate. The others reach the remaining rate no sooner than a component at the outermost of
        their means.
        """
        z, distances = NORMAL.quantile(rates)[0], self.absent.distances[1]
        farthest = float(distances.max())
        low, high = -side * z - farthest, -side * z
        if farthest <= SPREAD or len(distances) == 1:
            slack = 1e-9 * (1 + np.abs(z) + farthest)
            return low - slack, high + slack
        order = np.argsort(side * distances)
        weights, places = self.absent.weights[order, np.newaxis], -distances[order, np.newaxis]
        within = np.cumsum(weights, axis=0)
        before = within - weights
        # Half or twice the share, because a difference may have few digits. The interval need not be exact.
        with np.errstate(divide="ignore", invalid="ignore"):
            of_heavy = np.where(within > rates, 2 * rates / within, np.nan)
            of_rest = np.where(before < rates, 0.5 * (rates - before) / (1 - before), np.nan)
        heavy, rest = (
            places - side * NORMAL.quantile(np.clip(share, 1e-300, 1 - UNIT_ROUNDOFF))[0]
            for share in (of_heavy, of_rest)
        )
        nearer, further = (heavy, rest) if side > 0 else (rest, heavy)
        low, high = np.fmax(low, np.fmax.reduce(nearer)), np.fmin(high, np.fmin.reduce(further))
        return low - 1e-9 * (1 + np.abs(low)), high + 1e-9 * (1 + np.abs(high))

    def _read(self, left: FloatArray, right: FloatArray) -> CurvePoints:
        read: list[FloatArray] = []
        for part in _parts(np.arange(len(left)), self._chunk):
            at, to = left[part], right[part]
            power = self.present.log_mass(-to, 1)[0], self.present.log_mass(-at, 1)[1]
            error = self.present.log_mass(at, -1)[0], self.present.log_mass(to, -1)[1]
            slope = self.log_ratio(at)[0], self.log_ratio(to)[1]
            read.append(np.stack((*power, *error, *slope)))
        power_low, power_high, error_low, error_high, slope_low, slope_high = np.concatenate(read, axis=1)
        return CurvePoints(
            EnclosureArray.from_logs(error_low, error_high),
            EnclosureArray.from_logs(power_low, power_high),
            EnclosureArray(slope_low, slope_high),
        )

    @override
    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        read = [self._profile(epsilon[part]) for part in _parts(np.arange(len(epsilon)), self._chunk)]
        low, high = np.concatenate(read, axis=1)
        return EnclosureArray.from_logs(low, high)

    def _profile(self, epsilon: FloatArray) -> FloatArray:
        """Return lower and upper bounds of ln of the profile delta(`epsilon`), shape (2, n) for n epsilons.

        delta falls as the threshold rises. delta is at least 1 - e^eps, and equal to this number below the smallest
        ratio.
        """
        left, right = self._at_losses(epsilon)
        low, high = self._log_delta(right)[0], self._log_delta(left)[1]
        nothing = np.where(epsilon < 0, np.log(-np.expm1(np.minimum(epsilon, -5e-324))), -np.inf)
        margin = 2 * FUNCTION_ERROR * (1 + np.where(np.isfinite(nothing), np.abs(nothing), 0.0))
        low = np.maximum(np.where(np.isfinite(right), low, -np.inf), nothing - margin)
        smallest = self.smallest_log_ratio.lower
        limit = math.log(-math.expm1(smallest)) * (1 - 4 * FUNCTION_ERROR) if smallest < 0 else 0.0
        high = np.where(np.isfinite(left), high, np.maximum(limit, nothing + margin))
        largest = self.largest_log_ratio.upper
        return np.stack((low, np.where(epsilon >= largest, -np.inf, np.minimum(np.maximum(high, low), 0.0))))

    def _at_losses(self, epsilon: FloatArray) -> Ends:
        """Return (lower, upper) bounds of the thresholds of x at which the log-likelihood ratio is `epsilon` (nats).

        For two mirrored mixtures the loss is odd and has the sign of the threshold. Near 0, where no other component
        counts, the loss is too flat for rounding to distinguish it from 0. So the sign of the loss gives the bound
        there.
        """
        left, right = self._found_losses(epsilon)
        if self.absent is self.present:
            left = np.where(epsilon >= 0, np.maximum(left, 0.0), left)
            right = np.where(epsilon <= 0, np.minimum(right, 0.0), right)
        return left, right

    def _found_losses(self, epsilon: FloatArray) -> Ends:
        """Return bounds of the thresholds of the outcome x at which the log-likelihood ratio is `epsilon` (nats).

        A threshold is a value of x, in standard deviations of the noise. The bounds are found by a search, which works
        for any components. Lists of more than 64 epsilons start from guesses on a grid. A bound is infinite where no
        point proves it.
        """
        if len(epsilon) <= FEW:
            guess = increasing_roots(self.log_ratio, epsilon, *self._far_ends(epsilon))
            return certified_inverse(self.log_ratio, epsilon, guess)
        first, last = self._far_ends(np.array([epsilon.min(), epsilon.max()]))
        # If a loss has a limit, the far end of the grid is where doubles reach this limit.
        grid, known = self._grid(
            max(float(first.min()), -REACHED / self._nearest), min(float(last.max()), REACHED / self._nearest)
        )
        t = np.interp(epsilon, known, grid)
        slope = np.ones_like(t)
        for _ in range(NEWTON_STEPS):
            value, slope = self._plain(t)
            step = (value - epsilon) / slope
            t = np.where(np.isfinite(step), np.clip(t - step, grid[0], grid[-1]), t)
        below, above = self.log_ratio(t)
        off = (np.abs(epsilon - below) + np.abs(above - epsilon)) / slope
        return certified_inverse(self.log_ratio, epsilon, t, np.where(np.isfinite(off), off, 0.0))

    def _grid(self, first: float, last: float) -> Ends:
        """Return thresholds between `first` and `last`, and approximate log-likelihood ratios there."""
        if (first, last) not in self._grids:
            grid: FloatArray = np.sinh(np.linspace(math.asinh(first), math.asinh(last), GRID))
            self._grids[first, last] = grid, np.maximum.accumulate(self._plain(grid)[0])
        return self._grids[first, last]

    @cached_property
    def _nearest(self) -> float:
        """Smallest positive distance of the mean of a component from 0, in standard deviations."""
        both = np.concatenate((self.absent.distances[0], self.present.distances[0]))
        return float(both[both > 0].min())

    def _plain(self, t: FloatArray) -> Ends:
        """Return approximate log-likelihood ratios ln dH1/dH0 (nats) at thresholds t, and their slopes.

        They have no error bounds.
        """
        value, slope = np.zeros_like(t), np.zeros_like(t)
        for all_components, sign in ((self.present, 1), (self.absent, -1)):
            if all_components.is_at_zero:
                continue
            components, _ = all_components.relevant(t, sign)
            d = components.distances[0][:, np.newaxis]
            exponents = sign * d * t + (np.log(components.weights)[:, np.newaxis] - 0.5 * d * d)
            top = exponents.max(axis=0)
            shares = np.exp(exponents - top)
            total = shares.sum(axis=0)
            value += sign * (top + np.log(total))
            slope += components.distances[0] @ shares / total
        return value, slope

    @cached_property
    def table(self) -> ProfileTable:
        """Table of approximate ln delta(eps) by eps (nats), which searches evaluate instead of the profile."""
        low = -float(self.absent.distances[1].max()) - TABLE_REACH
        return ProfileTable(self._entries, low, float(self.present.distances[1].max()) + TABLE_REACH)

    @np.errstate(all="ignore")
    def _entries(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return approximate eps = ln dH1/dH0, ln delta(eps) and its slope at thresholds t, in the shape of t.

        The slope of ln delta is -e^eps P(x > t)/delta, with the probability under H0.
        """
        epsilon = self._plain(t)[0]
        low, high = self._log_delta(t)
        log_delta = 0.5 * (low + high)
        return epsilon, log_delta, -np.exp(epsilon + self.absent.log_mass(-t, -1)[0] - log_delta)

    def _far_ends(self, epsilon: FloatArray) -> Ends:
        """Return intervals of thresholds, between powers of 4, in which the log-likelihood ratio reaches `epsilon`.

        `epsilon` is in nats. FARTHEST is the endpoint if no power of 4 reaches epsilon.
        """
        left, right = self._losses_afar
        at = np.searchsorted(-left, -epsilon, side="left"), np.searchsorted(right, epsilon, side="left")
        return -POWERS[np.minimum(at[0], len(POWERS) - 1)], POWERS[np.minimum(at[1], len(POWERS) - 1)]

    @cached_property
    def _losses_afar(self) -> Ends:
        """Approximate log-likelihood ratios at minus and plus POWERS.

        POWERS are increasing thresholds. The ratios in the first array (at negative thresholds) decrease, and those in
        the second array increase.
        """
        left, right = (0.5 * sum(self.log_ratio(side * POWERS)) for side in (-1, 1))
        return np.minimum.accumulate(left), np.maximum.accumulate(right)

    def _log_delta(self, t: FloatArray) -> Ends:
        """Return (lower, upper) bounds of ln delta(eps), where eps is the log-likelihood ratio at the threshold t."""
        t = np.where(np.isfinite(t), t, np.copysign(FARTHEST, t))
        present, rest = self.present.relevant_to_tails(t)
        terms = [_tails(present, present.exponents(t, 1), None)]
        if not self.absent.is_at_zero:
            shrunk = self.absent.exponents(t, -1)
            terms.append(_tails(self.absent, -shrunk[::-1], shrunk + np.stack(self.log_ratio(t))[:, np.newaxis]))
        known = np.concatenate([term for term in terms if term is not None], axis=1)
        below, above = log_sums(_append_bound(known, rest))
        return below, np.minimum(above, 0.0)

    @override
    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        zero = np.zeros(1)
        # Both laws are N(0, 1) except for the shifted weights, which bound their distance.
        if max(self.present.shifted_weight, self.absent.shifted_weight) <= delta:
            return Enclosure.point(0.0)
        if self._profile(zero)[1, 0] <= math.log(delta) * (1 + 4 * UNIT_ROUNDOFF):
            return Enclosure.point(0.0)
        low = float(self._at_losses(zero)[0][0])
        if not math.isfinite(low):  # the losses are too small to show their sign; left of all shifts they are negative
            low = -float(self.absent.distances[1].max())
        high, step = low, 1.0
        while self._log_delta(np.array([high]))[1][0] > math.log(delta) * (1 + 4 * UNIT_ROUNDOFF):
            high, step = high + step, 2 * step

        def profile_at_threshold(t: FloatArray) -> EnclosureArray:
            below, above = self._log_delta(t)
            return EnclosureArray.from_logs(below, above)

        root = decreasing_root(profile_at_threshold, delta, low, high)
        below, above = self.log_ratio(np.array([root.lower, root.upper]))
        return Enclosure(max(float(below[0]), 0.0), max(float(above[1]), 0.0), self.evidence)


def _append_bound(logs: FloatArray, rest: float) -> FloatArray:
    """Return `logs` with one more term, of which only the upper bound `rest` is known."""
    if rest == -math.inf:
        return logs
    known = np.stack((np.full_like(logs[0, :1], -np.inf), np.full_like(logs[0, :1], rest)))
    return np.concatenate((logs, known), axis=1)


def log_sums(logs: FloatArray) -> Ends:
    """Return ln sum_m e^logs for bounds of shape (2, m, T), rounded outwards, as two arrays of shape (T,)."""
    top = logs.max(axis=1)
    nothing = top == -np.inf
    top = np.where(nothing, 0.0, top)
    value = np.log(np.where(nothing, 1.0, np.exp(logs - top[:, np.newaxis]).sum(axis=1)))
    error = (logs.shape[1] + 16) * UNIT_ROUNDOFF + 2 * FUNCTION_ERROR * (2 + np.abs(value))
    error = error + 4 * UNIT_ROUNDOFF * np.abs(top)
    low, high = top[0] + value[0] - error[0], top[1] + value[1] + error[1]
    return np.where(nothing[0], -np.inf, low), np.where(nothing[1], -np.inf, high)


def _tails(components: NormalComponents, epsilon: FloatArray, factor: FloatArray | None) -> FloatArray | None:
    """Return bounds of ln of w e^factor delta(epsilon), the terms of a profile, for the components not at 0.

    w is the weight of a component at the distance d, and delta the profile of N(0, 1) against N(d, 1). `epsilon` and
    `factor` have bounds of shape (2, m, T) for m components; without `factor`, e^factor is 1. The result has shape
    (2, m', T) for the m' components not at 0, and is None if all are at 0.
    """
    count_work(2 * A_COMPONENT * epsilon.size * len(components.weights))
    apart = components.distances[1] > 0
    if not apart.any():
        return None
    here = epsilon[:, apart]
    distances = np.broadcast_to(components.distances[:, apart, np.newaxis], here.shape)
    scale = components.log_weights[:, apart] if factor is None else components.log_weights[:, apart] + factor[:, apart]
    # A profile falls with eps, and is at most Phi(-a) <= e^{-a^2/2} for a = eps/d - d/2 >= 0.
    beyond = np.maximum((here[0] / distances[1] - 0.5 * distances[1]) * (1 - 1e-12) - 1e-12 * distances[1], 0.0)
    most = scale[1] - 0.5 * beyond**2 * (1 - 1e-12)
    seen = ~(most < most.max(axis=0) - FAINT)
    logs = np.stack((np.full_like(most, -np.inf), most))
    logs[:, seen] = gaussian_log_profile(here[::-1][:, seen], distances[:, seen])
    logs[:, seen] += np.broadcast_to(scale, here.shape)[:, seen]
    return logs


def _limit(still: NormalComponents, mixed: NormalComponents) -> Enclosure | None:
    """Return the infimum (nats) of the log-likelihood ratio of `mixed` over `still` = N(0, 1).

    It is ln of the weight of `mixed` at 0. The result is None if `still` has components that are not at 0, or if
    `mixed` has none at 0.
    """
    weight = mixed.weight_at_zero
    if not still.is_at_zero or weight is None:
        return None
    low, high = (math.log(end) * (1 - side * FUNCTION_ERROR) for side, end in ((-1, weight.lower), (1, weight.upper)))
    return Enclosure(low, min(high, 0.0), Evidence.EXACT)


def _parts(places: np.ndarray, size: int) -> list[np.ndarray]:
    return [places[at : at + size] for at in range(0, len(places), size)]
