"""Curves of runs of many different eps-DP steps: between those of the run with and without a little Gaussian noise.

The law of losses of k different steps has 2^k atoms; exact sums over it are #P-hard (Murtagh, Vadhan 2016). Beside one
Gaussian step of shift tau, with L' = L + V for V ~ N(-tau^2/2, tau^2) under H0, the run has a density that one Fourier
transform reads (`smoothed_line.py`), and

    D'(c) - tau^2 e^{tau^2/8} e^c density of L' at c <= D(c) <= D'(c).

Right: forgetting a step makes no attack stronger. Left: at a given loss L = c + u the profile grows by e^c psi(u), psi
that of the Gaussian step at -u less (e^u - 1)_+. d psi/d tau = phi(u/tau - tau/2) (the vega of an option), hence

    psi(u) = int_0^tau phi(u/w - w/2) dw <= tau e^{tau^2/8} phi(u/tau - tau/2),

for u^2/w^2 falls with w and w^2/4 <= tau^2/4: that is tau^2 e^{tau^2/8} times the density of u + V at 0, and an
expectation over L proves it. The gap is of second order in tau, but of first at an atom of the loss that stands alone.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np
from scipy.special import ndtri
from typing_extensions import override

from service.privacy.composition.exact_sums.abstract import AbstractExactSum
from service.privacy.composition.exact_sums.convex_readings import Minimum
from service.privacy.composition.exact_sums.smoothed_ladder import ResponseLadder, Rung
from service.privacy.composition.exact_sums.smoothed_line import ResponseCumulants
from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import LogBounds, log

SLACK: Final = 4 * FUNCTION_ERROR


@final
class SmoothedResponses(AbstractExactSum):
    """The curve of a run of many different randomised responses, its own inverse.

    Relative width of a few 1e-7 where no atom of the loss decides alone: delta, power and type II error alike, at rates
    and deltas down to 1e-300. Source: Murtagh, Vadhan 2016, Theorem 1.5, for the run; the bracket is proved above.
    """

    method = "contour"

    def __init__(self, kinds: tuple[tuple[float, int], ...]) -> None:
        """Kinds (epsilon > 0, count)."""
        cumulants = ResponseCumulants(kinds)
        self._ladder = ResponseLadder(cumulants)
        self._log_overlap = 2 * (cumulants.value(0.0) + cumulants.error(0.0))
        """An upper end of 2 ln E0 e^{L/2}: rates alpha and errors beta multiply to no more than e^this, and
        E0 min(e^L, e^c) is at most e^{(this + c)/2}, also where lines have nothing to say.
        """
        most = math.fsum(epsilon * count for epsilon, count in kinds)
        rounding = 4 * UNIT_ROUNDOFF * most
        self._largest = Enclosure(most - rounding, most + rounding, Evidence.EXACT)
        top = math.fsum(-count * (epsilon + math.log1p(math.exp(-epsilon))) for epsilon, count in kinds)
        self._log_top = top * (1 + SLACK)
        """A lower end of ln P0 of the largest loss."""

    @override
    def _points_of_half(self, level: FloatArray, *, low: bool) -> FloatArray:
        rows = np.array([self._low(rate) if low else self._high(rate) for rate in level.tolist()]).T
        for first in (0, 2):
            rows[first], rows[first + 1] = _below_one(rows[first], rows[first + 1])
        return rows

    def _low(self, alpha: float) -> list[float]:
        """Both ends of ln power, ln type II error and the slope at a rate of at most 1/2."""
        log_alpha, most = math.log(alpha), self._largest.upper
        # Power is at least the rate, and e^largest times it for outcomes that have the largest loss.
        least = max(log_alpha, min(log_alpha, self._log_top) + self._largest.lower)
        least = min(least - SLACK * (1 + abs(least) + abs(log_alpha)), 0.0)
        rows = [least, 0.0, -math.inf, 0.0, -most, most]
        # At smaller rates than that of the largest loss nothing else is to be read.
        read = None
        if log_alpha > self._log_top:
            read = self._ladder.first_reading(
                lambda rung: rung.score, -float(ndtri(alpha)), lambda rung: rung.profile.minimum(log_alpha)
            )
        if read is not None:
            rung, found = read
            low, high = _rounded(found, rung)
            other = _complement(high), _complement(low)
            rows[:4] = [low, high, *other] if rung.r > 0.5 else [*other, low, high]
            rows[4:] = max(found.left, -most), min(found.right, most)
        rows[3] = min(rows[3], _complement(least), self._overlapping(log_alpha))
        rows[0] = max(rows[0], least, _complement(rows[3]))
        return rows

    def _overlapping(self, log_alpha: float) -> float:
        """An upper end of the logarithm of the type II error."""
        return self._log_overlap - log_alpha + SLACK * (abs(self._log_overlap) + abs(log_alpha))

    def _high(self, rest: float) -> list[float]:
        """Return the numbers of `_low` at the rate 1 - rest, above 1/2: beta = max_c e^-c (rest - D(c))."""
        log_rest, most = math.log(rest), self._largest.upper
        rows = [-math.inf, 0.0, -math.inf, log_rest, -most, most]
        read = self._ladder.first_reading(
            lambda rung: rung.other_score,
            -float(ndtri(rest)),
            lambda rung: rung.inverse.minimum(log_rest),
            swapped=True,
        )
        if read is not None:
            rung, found = read
            low, high = _rounded(found, rung)
            high = min(high, log_rest * (1 - SLACK))
            rows[:4] = [_complement(high), _complement(low), low, high]
            rows[4:] = max(found.left, -most), min(found.right, most)
        # Outcomes with the smallest loss alone are accepted last.
        if log_rest <= self._log_top + self._largest.lower:
            least = log_rest - self._largest.lower
            rows[3] = min(rows[3], least + SLACK * (1 + abs(log_rest) + abs(least)))
        rows[3] = min(rows[3], self._overlapping(math.log1p(-rest)))
        rows[0] = max(rows[0], _complement(rows[3]))
        return rows

    @override
    def _log_profile(self, epsilon: FloatArray) -> LogBounds:
        lower, upper = np.full_like(epsilon, -np.inf), np.zeros_like(epsilon)
        rungs = [self._ladder.for_threshold(c) if c < self._largest.upper else None for c in epsilon.tolist()]
        for rung in dict.fromkeys(rung for rung in rungs if rung is not None):
            which = np.array([chosen is rung for chosen in rungs])
            lower[which], upper[which] = self._log_delta(rung, epsilon[which])
        upper = np.where(epsilon >= self._largest.upper, -np.inf, upper)
        overlap = 0.5 * (self._log_overlap + epsilon) + SLACK * (abs(self._log_overlap) + epsilon)
        lower = np.maximum(lower, log(-np.expm1(np.minimum(overlap, 0.0))) - SLACK)
        return _below_one(lower, upper)

    def _log_delta(self, rung: Rung, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both ends of ln delta at thresholds that the rung reads."""
        nodes = rung.profile
        unit = nodes.unit(nodes.cell(c))
        ends: list[FloatArray] = []
        for side, end in zip((-1, 1), nodes.between(c), strict=True):
            value = log(np.maximum(end if rung.r > 0.5 else -end, 0.0)) + unit
            rounding = rung.nodes.log_error + SLACK * (2 + np.abs(value) + abs(nodes.scale) + np.abs(nodes.slope * c))
            moved = value + (side if rung.r > 0.5 else -side) * np.where(np.isfinite(value), rounding, 0.0)
            ends.append(np.minimum(moved, 0.0) if rung.r > 0.5 else np.log1p(-np.exp(np.minimum(moved, 0.0))))
        return ends[0], ends[1]

    @override
    def _epsilon_of_less(self, delta: float) -> Enclosure:
        low, high = 2 * math.log1p(-delta) - self._log_overlap, self._largest.upper
        low = max(low - SLACK * (abs(self._log_overlap) + 2 * abs(math.log1p(-delta))), 0.0)

        def read(rung: Rung) -> tuple[Enclosure | None, int]:
            nonlocal low, high
            left, right = self._crossing(rung, delta)
            low, high = max(low, left), min(high, right)
            if left == -math.inf or right == math.inf:
                return None, int(left > -math.inf) - int(right < math.inf)
            return Enclosure(low, max(low, high), self.evidence), 0

        found = self._ladder.first_reading(lambda rung: -rung.log_profile, -math.log(delta), read)
        return found[1] if found else Enclosure(low, max(low, high), self.evidence)

    def _crossing(self, rung: Rung, delta: float) -> tuple[float, float]:
        """Thresholds of a rung at which the profile is surely above and surely below delta; infinite for none."""
        nodes = rung.profile
        rounding = rung.nodes.log_error + SLACK * (2 + abs(math.log(delta)) + abs(nodes.scale))
        rounding += SLACK * float(np.abs(nodes.slope * nodes.c).max())
        return nodes.crossing(delta if rung.r > 0.5 else delta - 1, rounding)


def _rounded(found: Minimum, rung: Rung) -> tuple[float, float]:
    """Both ends of the logarithm, at most 0."""
    ends: list[float] = []
    for side, end in zip((-1, 1), found[:2], strict=True):
        size = abs(end) if math.isfinite(end) else 0.0
        rounding = rung.nodes.log_error + SLACK * (2 + size + 2 * abs(rung.profile.scale))
        rounding += SLACK * (abs(rung.r) + 1) * max(abs(found.left), abs(found.right))
        ends.append(min(end + side * rounding, 0.0))
    return ends[0], ends[1]


def _below_one(lower: FloatArray, upper: FloatArray) -> LogBounds:
    """Return bounds of the logarithms of numbers that are below 1."""
    return LogBounds(np.minimum(lower, 0.0) - SMALLEST, np.minimum(upper + SMALLEST, 0.0))


def _complement(end: float) -> float:
    """ln(1 - e^end)."""
    if end > -math.log(2):
        return math.log(-math.expm1(end)) if end < 0 else -math.inf
    return math.log1p(-math.exp(end))
