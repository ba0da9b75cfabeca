"""Profile of a mean form (`mean_form.py`) by one contour integral, with bounds of every error.

Let S = X_1 + ... + X_n with independent terms that are x_i = alpha_i - E beta_i with probability w_i, so that n delta =
F = E S_+. Let U be an independent normal number of standard deviation h, and V = S + U. For s = s0 + i t, s0 > 0, let
M(s) = n ln sum_i w_i e^{s x_i} + h^2 s^2/2 = ln E e^{s V}.

**Formulas.** The integral of (v - y)_+ e^{s y} over y is e^{s v}/s^2. So C(y) = E (V - y)_+ and the density D of V
satisfy

    C(0) = (1/2 pi) int e^{M(s)}/s^2 dt,    D(0) = (1/2 pi) int e^{M(s)} dt.

**Smoothing.** Let r(x) = E (x + U)_+ - x_+ = h (phi(y) - |y| Phi(-|y|)) at x = h y. It lies between 0 and h phi(y),
which is h^2 times the density of U at -x. So C(0) - h^2 D(0) <= F <= C(0).

**Aliasing.** With nodes at distance eta and L = 2 pi/eta, Poisson's formula makes the trapezoidal sum of C(0) too large
by sum_{k != 0} C(k L) e^{s0 k L}. The sum of D(0) is too large by a sum of densities: upper bounds need no correction.
C(-y) <= y + C(0), and C(y) <= e^{M(s1) - s1 y}/(e s1) for s1 > s0, because v e^{-s1 v} <= 1/(e s1). The two geometric
series follow.

**Truncation.** |e^{M(s)}| <= e^{M(s0)} e^{-h^2 t^2/2}, whatever the law. The sums beyond T are at most the integrals of
this bound over t > T, e^{M(s0) - h^2 T^2/2}/(pi h^2) times 1/T^3 for C(0), and times 1/T for D(0).

**Skipped nodes.** |chi|^2 = 1 - 4 sum_{i < j} v_i v_j sin^2((x_i - x_j) t/2) for the characteristic function chi of the
tilted law below. So |chi|^n <= e^{-2 n v_i v_j sin^2((x_i - x_j) t/2)} for every pair. Nodes where this is below e^-Q
for some pair are left out: with many reports, that is most of them. Their sums are at most e^-Q/(2 s0) for C(0), and
e^-Q T/pi for D(0).

**Rounding.** The tilted law v_i = w_i e^{s0 x_i}/sum has the characteristic function chi = sum v_i e^{i t x_i} = 1 -
sum v_i 2 sin^2(t x_i/2) + i sum v_i sin(t x_i). Each term has an error of at most 60 u |t x_i| v_i, u = 2^-53, whatever
the argument: sine and cosine of an argument b with an error of 3 u |b|. So chi has an error of e = 60 u t sum v_i
|x_i|, and chi^n one of at most n e (|chi| + e)^{n-1}. Where |chi| >= 1/2, this is 2.1 n e |chi|^n as long as n e <
0.01; elsewhere it is at most n e 0.51^{n-1}. The exponent M(s0) sums terms w_i expm1(s0 x_i), whose absolute values
bound its rounding. E has 40 digits, so that the error of x_i is its rounding to a double.

The number of nodes determines h, and the width of the smoothing is about (9 L s0/(2 pi nodes))^2 relative to F.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, sum_error
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential
from service.privacy.trade_off.shuffled.steering import rough_mean, saddle

A_NODE, A_SKIPPED, A_CALL = 0.25, 0.02, 250.0
"""Work of a node, of a skipped node and of a contour, in microseconds."""
REACH: Final = 9.0
"""End of the contour, in units of 1/h: e^{-REACH^2/2} is below 3e-18."""
NATS: Final = 45.0
"""Nats by which aliases are smaller than the integral."""
LEAST_TILT: Final = 2.5
"""Smallest tilt s0, in units of 1 over the standard deviation of S."""
SHARES: Final = (1.0, 0.3, 0.1, 0.03)
"""Distances of tilts for the bound of aliases, in units of half the length over the variance."""
WIDE: Final = 1.0
"""Smoothing, in units of 1 over the tilt, above which a saddle point approximates better."""
NEGLIGIBLE: Final = 50.0
"""Q: nodes are skipped where |chi|^n is proved to be below e^-Q."""
WIDEST_SINE: Final = 0.9
"""Largest sine of half an angle for which a pair of terms rules out enough nodes."""
LARGEST_STEP: Final = 0.01
"""Largest n e for which the bound of the rounding of chi^n holds."""
OUT_OF_RANGE: Final = (-math.inf, 0.0, 0.0)
"""Bounds of ln delta where numbers leave the range of doubles."""

ComplexArray = NDArray[np.complex128]


@final
@dataclass(frozen=True, slots=True)
class _Tilt:
    """Numbers at the point s0 where a contour crosses the real axis: s0, M, M', M'' and the absolute error of M.

    M is the log-moment function, without the normal number that smooths the law. `weights` has the probabilities of the
    law tilted at s0.
    """

    at: float
    log_moment: float
    slope: float
    curvature: float
    error: float
    weights: list[float]


def _length(tilt: _Tilt, spread: float, nodes: int) -> float:
    """Return the period L of aliases for `nodes` nodes: 2 pi over their distance.

    `spread` is the standard deviation of the tilted law.
    """
    length = max((NATS - min(tilt.log_moment, 0.0)) / tilt.at, 14 * spread + 2 * max(tilt.slope, 0.0))
    # Noise that nodes of this distance need, and the length that it needs in turn.
    return max(length, 14 * math.hypot(spread, REACH * length / (2 * math.pi * nodes)))


@final
class MeanContour:
    """Enclosures of ln delta(eps) of laws of report counts (`MeanForm`), for eps below the largest log ratio."""

    def __init__(self, form: MeanForm) -> None:
        self.form = form
        self._weights = [float(each) for each in form.weights]
        self._ratios = [(float(one), float(other)) for one, other in zip(form.present, form.absent, strict=True)]

    def rough_log_delta(self, epsilon: float) -> float:
        """Return about ln delta at `epsilon` >= 0, by a saddle point of e^{M(s)}/s^2. No bound depends on it.

        M is the log-moment function of a sum over all reports, and delta the mean of its positive part over their
        number.
        """
        grown = math.exp(epsilon)
        terms = [one - grown * other for one, other in self._ratios]
        return rough_mean(self.form.reports, self._weights, terms)

    def log_delta(self, epsilon: float, nodes: int) -> tuple[float, float, float]:
        """Return lower bound, approximation and upper bound of ln delta at `epsilon` >= 0, from `nodes` nodes.

        The approximation subtracts half of the largest effect of the smoothing. All three are minus infinity from the
        largest log-likelihood ratio on, and `OUT_OF_RANGE` if doubles prove nothing.
        """
        terms = [float(each) for each in self.form.terms(exponential(epsilon))]
        if not max(terms) > 0:
            return -math.inf, -math.inf, -math.inf
        # A power of 2 as the unit of all terms changes no digits.
        scale = 2.0 ** math.floor(math.log2(max(map(abs, terms))))
        terms = [each / scale for each in terms]
        try:
            with np.errstate(all="ignore"):
                tilt = self._tilt(terms)
                log_low, approximate, log_high = self._integral(terms, tilt, nodes)
        except (ArithmeticError, ValueError):
            return OUT_OF_RANGE
        if not log_low <= log_high:
            return OUT_OF_RANGE
        log_n = math.log(self.form.reports) - math.log(scale)
        rounding = 8 * UNIT_ROUNDOFF * (abs(tilt.log_moment) + abs(log_n) + 1)
        return log_low - log_n - rounding, approximate - log_n, log_high - log_n + rounding

    def _log_moment(self, terms: list[float], s: float) -> tuple[float, float, list[float]]:
        """Return the log-moment M(s) of the sum of n independent `terms`, an error bound, and the tilted law of a term.

        The bound is that of the absolute error of M(s). The tilted law has the weights of all categories.
        """
        n, exponents = self.form.reports, [s * each for each in terms]
        top = max(max(exponents) - 600.0, 0.0)
        grown = [math.expm1(each) if top == 0 else math.exp(min(each - top, 700.0)) for each in exponents]
        parts = list(map(mul, self._weights, grown))
        total = math.fsum(parts)
        log_one = math.log1p(total) if top == 0 else math.log(total) + top
        tilted = [weight * math.exp(each - log_one) for weight, each in zip(self._weights, exponents, strict=True)]
        relative = math.fsum(map(abs, parts)) / ((1 + total) if top == 0 else total)
        sizes = math.fsum(weight * abs(each) for weight, each in zip(tilted, exponents, strict=True))
        error = n * (2 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF) * (relative + abs(log_one)) + 4 * n * UNIT_ROUNDOFF * sizes
        return n * log_one, error, tilted

    def _tilt(self, terms: list[float]) -> _Tilt:
        """Return the numbers at the s0 > 0 with M'(s0) = 2/s0, or at a larger s0 where the sum S has too little spread.

        M is the log-moment function of S, the sum of n independent `terms`.
        """
        # Steers only: any tilt gives valid bounds.
        n = self.form.reports
        mean = math.fsum(map(mul, self._weights, terms))
        deviation = math.sqrt(
            n * math.fsum(weight * (x - mean) ** 2 for weight, x in zip(self._weights, terms, strict=True))
        )
        low, most = LEAST_TILT / deviation, 1e3 / max(terms) * (1 + deviation)
        s = saddle(n, self._weights, terms, low, most, 1e-2)
        log_moment, error, tilted = self._log_moment(terms, s)
        total = math.fsum(tilted)
        weights = [each / total for each in tilted]
        mean = math.fsum(map(mul, weights, terms))
        spread = math.fsum(weight * (x - mean) ** 2 for weight, x in zip(weights, terms, strict=True))
        return _Tilt(s, log_moment, n * mean, n * spread, error, weights)

    def _integral(self, terms: list[float], tilt: _Tilt, nodes: int) -> tuple[float, float, float]:
        """Return lower bound, approximation and upper bound of ln E S_+ by a sum of `nodes` nodes.

        S is the sum of n independent `terms`, and `tilt` has the numbers at the point where the contour crosses the
        axis.
        """
        s0, spread = tilt.at, math.sqrt(max(tilt.curvature, 1e-300))
        length = _length(tilt, spread, nodes)
        step = 2 * math.pi / length
        end = step * nodes
        smooth = REACH / end
        square = smooth * smooth
        t = step * self._counted(terms, tilt.weights, step, nodes)
        count_work(A_NODE * len(t) + A_SKIPPED * nodes + A_CALL)
        value, real, error = self._transforms(terms, tilt, t, square)
        weight = np.full(len(t), step / math.pi)
        weight[0] *= 0.5
        # e^{M(s)} = e^{M(s0)} value, without the factor e^{M(s0)} from here on.
        point = s0 + 1j * t
        over = value / (point * point)
        size = np.abs(value)
        slack = sum_error(len(t)) + 16 * UNIT_ROUNDOFF
        norm = s0 * s0 + t * t
        call, density = float(weight @ over.real), float(weight @ real)
        call_error = float(weight @ ((error + slack * size) / norm))
        density_error = float(weight @ (error + slack * size))
        beyond = math.exp(-0.5 * square * end * end) / (math.pi * square)
        skipped = math.exp(1 - NEGLIGIBLE) if len(t) <= nodes else 0.0
        call_error += beyond / end**3 + skipped / (2 * s0)
        density_error += beyond / end + skipped * end / math.pi
        most = call + call_error
        log_total = tilt.log_moment + 0.5 * square * s0 * s0
        alias = self._aliases(terms, tilt, length, square, most, log_total)
        least = call - call_error - alias - square * max(density + density_error, 0.0)
        room = tilt.error + 8 * UNIT_ROUNDOFF * (abs(log_total) + 1)
        # v_+ <= e^{s0 v}/(e s0), without smoothing.
        cap = tilt.log_moment + tilt.error - math.log(s0) - 1 + 4 * UNIT_ROUNDOFF
        low = math.log(least) + log_total - room if least > 0 else -math.inf
        high = min(math.log(max(most, 5e-324)) + log_total + room, cap)
        middle = call - 0.5 * square * density
        if smooth * s0 > WIDE or middle <= 0:
            near_saddle = 0.5 * math.log(2 * math.pi * spread * spread + 13 / s0**2)
            return low, tilt.log_moment - 2 * math.log(s0) - near_saddle, high
        return low, math.log(middle) + log_total, high

    def _counted(self, terms: list[float], weights: list[float], step: float, nodes: int) -> FloatArray:
        """Return the nodes where |chi|^n may exceed e^-Q, in multiples of their distance `step`, from 0 to `nodes`.

        chi is the characteristic function of one of the `terms` with the probabilities `weights`.
        """
        found = np.arange(nodes + 1, dtype=np.float64)
        pairs = [
            (weights[i] * weights[j], abs(terms[i] - terms[j]), abs(terms[i]) + abs(terms[j]))
            for j in range(len(terms))
            for i in range(j)
        ]
        for product, distance, size in sorted(pairs, reverse=True):
            sine = math.sqrt(NEGLIGIBLE / (2 * self.form.reports * product)) if product > 0 else math.inf
            if not sine < WIDEST_SINE:
                break
            turns = found * (0.5 * step * distance / math.pi)
            margin = 1e-9 + 16 * UNIT_ROUNDOFF * size * step * nodes
            found = found[np.abs(turns - np.rint(turns)) <= math.asin(sine) / math.pi + margin]
        return found

    def _transforms(
        self, terms: list[float], tilt: _Tilt, t: FloatArray, square: float
    ) -> tuple[ComplexArray, FloatArray, FloatArray]:
        """Return e^{M(s0 + i t) - M(s0)} at the heights `t`, its real part, and a bound of its absolute error.

        M is the log-moment function of the smoothed sum V, and s0 the point at which the contour crosses the real axis.
        V is the sum of n independent terms, with the value terms[j] for a report in category j, and a normal number of
        the variance `square`. `tilt` has s0 and the tilted law of a term.
        """
        n = self.form.reports
        fall, sine = np.zeros_like(t), np.zeros_like(t)
        for term, weight in zip(terms, tilt.weights, strict=True):
            if term == 0:
                continue
            half = (0.5 * term) * t
            first, second = np.sin(half), np.cos(half)
            fall += (2 * weight) * first * first
            sine += (2 * weight) * first * second
        log_size = 0.5 * np.log1p(np.maximum(fall * (fall - 2) + sine * sine, -1 + 1e-300))
        angle = np.arctan2(sine, 1 - fall)
        phase = n * angle + (square * tilt.at) * t
        log_size = n * log_size - 0.5 * square * t * t
        size = np.exp(np.maximum(log_size, -745.0))
        value = size * np.exp(1j * phase)
        off = 60 * UNIT_ROUNDOFF * math.fsum(map(mul, tilt.weights, map(abs, terms))) * t
        relative = 2.1 * n * off + UNIT_ROUNDOFF * (16 + 8 * np.abs(phase) + 8 * np.abs(log_size))
        relative = np.where(n * off < LARGEST_STEP, relative, 2.0 + 2 * n * off)
        error = np.minimum(relative, 1e300) * size
        far = fall * (2 - fall) - sine * sine > 0.7  # |chi| may be below 1/2
        gaussian = np.exp(np.maximum(-0.5 * square * t * t, -745.0))
        absolute = np.minimum(n * (off + 8 * UNIT_ROUNDOFF) * math.exp((n - 1) * math.log(0.56)), 2.0) * gaussian
        error = error + np.where(far, absolute + 1e-300, 1e-300)
        return value, np.real(value), error

    def _aliases(
        self, terms: list[float], tilt: _Tilt, length: float, square: float, most: float, log_total: float
    ) -> float:
        """Return an upper bound of the aliases (errors of the trapezoidal rule) of C(0), divided by e^{M(s0)}.

        C(0) is the mean of V_+ for the smoothed sum V of n independent `terms`, and M its log-moment function.
        `length` is the period of the aliases, `square` the variance of the smoothing, `log_total` M(s0) at the point s0
        of `tilt`, and `most` an upper bound of C(0)/e^{M(s0)}.
        """
        s0 = tilt.at
        least = 0.5 * length / max(tilt.curvature + square, 1e-300)
        # Every s1 > s0 gives a bound.
        log_right = (
            min(self._alias_above(terms, s0 + least * share, s0, length, square) for share in SHARES) - log_total
        )
        q = math.exp(-s0 * length)
        log_left = math.log(length) - s0 * length - 2 * math.log1p(-q) - log_total
        right, left = (math.exp(min(each, 700.0)) for each in (log_right, log_left))
        return (right + left + most * q / (1 - q)) * (1 + 1e-6)

    def _alias_above(self, terms: list[float], s1: float, s0: float, length: float, square: float) -> float:
        """Return ln of a bound of the sum of C(k L) e^{s0 k L} over k >= 1, by the moment of V at `s1` > `s0`.

        C(y) is the mean of (V - y)_+ for the smoothed sum V of n independent `terms`, and L = `length` the period of
        the aliases. `square` is the variance of the smoothing.
        """
        drop = (s1 - s0) * length
        if drop <= 0:
            return math.inf
        value, error, _ = self._log_moment(terms, s1)
        log_moment = value + error + 0.5 * square * s1 * s1
        return log_moment - math.log(math.e * s1) - drop - math.log(-math.expm1(-drop))
