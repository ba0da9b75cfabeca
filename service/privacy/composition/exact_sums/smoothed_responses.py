"""Curves of runs of many different eps-DP steps, bounded by curves of the run with a small additional Gaussian noise.

The law of losses of k different steps has 2^k atoms, and exact sums over it are #P-hard (Murtagh, Vadhan 2016). Let L
be the loss of the run, and D(c) = E0(e^L - e^c)_+ its profile. With an additional Gaussian step of shift tau, the loss
is L' = L + V with V ~ N(-tau^2/2, tau^2) under H0, and the profile is D'. The run then has a density, and one Fourier
transform evaluates it (`smoothed_contour.py`). The bounds are:

    D'(c) - tau^2 e^{tau^2/8} e^c density of L' at c <= D(c) <= D'(c).

Upper bound: ignoring a step makes no attack stronger. Lower bound: at a given loss L = c + u the profile increases by
e^c psi(u), where psi is the profile of the Gaussian step at -u less (e^u - 1)_+. Since d psi/d tau = phi(u/tau - tau/2)
with the normal density phi (the vega of an option):

    psi(u) = int_0^tau phi(u/w - w/2) dw <= tau e^{tau^2/8} phi(u/tau - tau/2).

The inequality holds because u^2/w^2 decreases with w and w^2/4 <= tau^2/4. The right side is tau^2 e^{tau^2/8} times
the density of u + V at 0. The expectation over L proves the lower bound. The gap is of second order in tau, but of
first order at an isolated atom of the loss.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np
from scipy.special import ndtri
from typing_extensions import override

from service.privacy.composition.exact_sums.abstract import AbstractExactSum
from service.privacy.composition.exact_sums.convex_nodes import Minimum
from service.privacy.composition.exact_sums.smoothed_contour import ResponseCumulants
from service.privacy.composition.exact_sums.smoothed_tilts import ResponseTilts, TiltedRun
from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import LogBounds, log

SLACK: Final = 4 * FUNCTION_ERROR


@final
class SmoothedResponses(AbstractExactSum):
    """Curve of a run of many different eps-DP steps, each with the worst-case loss +-eps. It is its own inverse.

    D(c) = E0(e^L - e^c)_+ is the profile of the run's loss L. The relative width of delta, power and type II error is a
    few 1e-7, unless a single atom of the loss decides. This holds for rates and deltas down to 1e-300. Source: Murtagh,
    Vadhan 2016, Theorem 1.5, for the run. The module docstring of `smoothed_responses.py` proves the bracket.
    """

    method = "contour"

    def __init__(self, kinds: tuple[tuple[float, int], ...]) -> None:
        """Store the kinds (epsilon > 0, number of steps) of the run."""
        cumulants = ResponseCumulants(kinds)
        self._tilts = ResponseTilts(cumulants)
        self._log_overlap = 2 * (cumulants.value(0.0) + cumulants.error(0.0))
        """Upper bound of 2 ln E0 e^{L/2}.

        The product of a rate alpha and an error beta is at most e^{_log_overlap}. E0 min(e^L, e^c) is at most
        e^{(_log_overlap + c)/2}. Both bounds need no contour.
        """
        most = math.fsum(epsilon * count for epsilon, count in kinds)
        rounding = 4 * UNIT_ROUNDOFF * most
        self._largest = Enclosure(most - rounding, most + rounding, Evidence.EXACT)
        top = math.fsum(-count * (epsilon + math.log1p(math.exp(-epsilon))) for epsilon, count in kinds)
        self._log_top = top * (1 + SLACK)
        """Lower bound of ln P0 of the largest loss."""

    @override
    def _points_of_half(self, rates: FloatArray, *, low: bool) -> FloatArray:
        rows = np.array([self._low(rate) if low else self._high(rate) for rate in rates.tolist()]).T
        for first in (0, 2):
            rows[first], rows[first + 1] = _below_one(rows[first], rows[first + 1])
        return rows

    def _low(self, alpha: float) -> list[float]:
        """Return bounds of ln power, ln type II error and the log slope c at the false positive rate `alpha` <= 1/2.

        The six numbers are the lower and the upper bound of ln power, then those of ln type II error, then those of c.
        The slope of the power is e^c.
        """
        log_alpha, most = math.log(alpha), self._largest.upper
        # The power is at least the rate, and e^largest times the rate for outcomes with the largest loss.
        least = max(log_alpha, min(log_alpha, self._log_top) + self._largest.lower)
        least = min(least - SLACK * (1 + abs(least) + abs(log_alpha)), 0.0)
        rows = [least, 0.0, -math.inf, 0.0, -most, most]
        # At rates below the probability of the largest loss these bounds are final.
        read = None
        if log_alpha > self._log_top:
            read = self._tilts.first_result(
                lambda tilted: tilted.score, -float(ndtri(alpha)), lambda tilted: tilted.profile.minimum(log_alpha)
            )
        if read is not None:
            tilted, found = read
            low, high = _rounded(found, tilted)
            other = _complement(high), _complement(low)
            rows[:4] = [low, high, *other] if tilted.r > 0.5 else [*other, low, high]
            rows[4:] = max(found.left, -most), min(found.right, most)
        rows[3] = min(rows[3], _complement(least), self._overlapping(log_alpha))
        rows[0] = max(rows[0], least, _complement(rows[3]))
        return rows

    def _overlapping(self, log_alpha: float) -> float:
        """Return an upper bound of ln of the type II error at the false positive rate e^`log_alpha`.

        The product of the false positive rate and the type II error is at most (E0 e^{L/2})^2 for the run's loss L.
        """
        return self._log_overlap - log_alpha + SLACK * (abs(self._log_overlap) + abs(log_alpha))

    def _high(self, rest: float) -> list[float]:
        """Return bounds of ln power, ln type II error and the log slope at the false positive rate 1 - `rest` > 1/2.

        The six numbers are the lower and the upper bound of ln power, then those of the other two. The type II error is
        max_c e^-c (rest - D(c)), with the profile D.
        """
        log_rest, most = math.log(rest), self._largest.upper
        rows = [-math.inf, 0.0, -math.inf, log_rest, -most, most]
        read = self._tilts.first_result(
            lambda tilted: tilted.other_score,
            -float(ndtri(rest)),
            lambda tilted: tilted.inverse.minimum(log_rest),
            swapped=True,
        )
        if read is not None:
            tilted, found = read
            low, high = _rounded(found, tilted)
            high = min(high, log_rest * (1 - SLACK))
            rows[:4] = [_complement(high), _complement(low), low, high]
            rows[4:] = max(found.left, -most), min(found.right, most)
        # Outcomes with the smallest loss are accepted last.
        if log_rest <= self._log_top + self._largest.lower:
            least = log_rest - self._largest.lower
            rows[3] = min(rows[3], least + SLACK * (1 + abs(log_rest) + abs(least)))
        rows[3] = min(rows[3], self._overlapping(math.log1p(-rest)))
        rows[0] = max(rows[0], _complement(rows[3]))
        return rows

    @override
    def _log_profile(self, epsilon: FloatArray) -> LogBounds:
        lower, upper = np.full_like(epsilon, -np.inf), np.zeros_like(epsilon)
        tilted_runs = [self._tilts.for_threshold(c) if c < self._largest.upper else None for c in epsilon.tolist()]
        for tilted in dict.fromkeys(tilted for tilted in tilted_runs if tilted is not None):
            which = np.array([chosen is tilted for chosen in tilted_runs])
            lower[which], upper[which] = self._log_delta(tilted, epsilon[which])
        upper = np.where(epsilon >= self._largest.upper, -np.inf, upper)
        overlap = 0.5 * (self._log_overlap + epsilon) + SLACK * (abs(self._log_overlap) + epsilon)
        lower = np.maximum(lower, log(-np.expm1(np.minimum(overlap, 0.0))) - SLACK)
        return _below_one(lower, upper)

    def _log_delta(self, tilted: TiltedRun, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of ln delta at the thresholds c of the loss (nats), in the shape of c.

        `tilted` is the tilted run whose contour covers the thresholds.
        """
        nodes = tilted.profile
        unit = nodes.unit(nodes.cell(c))
        bounds: list[FloatArray] = []
        for side, end in zip((-1, 1), nodes.between(c), strict=True):
            value = log(np.maximum(end if tilted.r > 0.5 else -end, 0.0)) + unit
            rounding = tilted.nodes.log_error + SLACK * (2 + np.abs(value) + abs(nodes.scale) + np.abs(nodes.slope * c))
            moved = value + (side if tilted.r > 0.5 else -side) * np.where(np.isfinite(value), rounding, 0.0)
            bounds.append(np.minimum(moved, 0.0) if tilted.r > 0.5 else np.log1p(-np.exp(np.minimum(moved, 0.0))))
        return bounds[0], bounds[1]

    @override
    def _epsilon_of_less(self, delta: float) -> Enclosure:
        low, high = 2 * math.log1p(-delta) - self._log_overlap, self._largest.upper
        low = max(low - SLACK * (abs(self._log_overlap) + 2 * abs(math.log1p(-delta))), 0.0)

        def read(tilted: TiltedRun) -> tuple[Enclosure | None, int]:
            nonlocal low, high
            left, right = self._crossing(tilted, delta)
            low, high = max(low, left), min(high, right)
            if left == -math.inf or right == math.inf:
                return None, int(left > -math.inf) - int(right < math.inf)
            return Enclosure(low, max(low, high), self.evidence), 0

        found = self._tilts.first_result(lambda tilted: -tilted.log_profile, -math.log(delta), read)
        return found[1] if found else Enclosure(low, max(low, high), self.evidence)

    def _crossing(self, tilted: TiltedRun, delta: float) -> tuple[float, float]:
        """Return thresholds of the loss (nats) at which the profile is proved to be above, and below, delta.

        Both thresholds come from one contour, that of `tilted`. They are -inf and inf if that contour proves nothing.
        """
        nodes = tilted.profile
        rounding = tilted.nodes.log_error + SLACK * (2 + abs(math.log(delta)) + abs(nodes.scale))
        rounding += SLACK * float(np.abs(nodes.slope * nodes.c).max())
        return nodes.crossing(delta if tilted.r > 0.5 else delta - 1, rounding)


def _rounded(found: Minimum, tilted: TiltedRun) -> tuple[float, float]:
    """Return a lower and an upper bound of ln of the minimum `found`, at most 0.

    The given bounds are widened by the rounding on the contour. `tilted` is the run whose contour gave the minimum.
    """
    bounds: list[float] = []
    for side, end in zip((-1, 1), found[:2], strict=True):
        size = abs(end) if math.isfinite(end) else 0.0
        rounding = tilted.nodes.log_error + SLACK * (2 + size + 2 * abs(tilted.profile.scale))
        rounding += SLACK * (abs(tilted.r) + 1) * max(abs(found.left), abs(found.right))
        bounds.append(min(end + side * rounding, 0.0))
    return bounds[0], bounds[1]


def _below_one(lower: FloatArray, upper: FloatArray) -> LogBounds:
    """Return the bounds `lower` and `upper` of logarithms of numbers below 1, widened by the smallest double."""
    return LogBounds(np.minimum(lower, 0.0) - SMALLEST, np.minimum(upper + SMALLEST, 0.0))


def _complement(end: float) -> float:
    if end > -math.log(2):
        return math.log(-math.expm1(end)) if end < 0 else -math.inf
    return math.log1p(-math.exp(end))
