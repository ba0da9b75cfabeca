"""Profile of a mean form (`mean_form.py`) at many thresholds by contour integrals, with bounds of every error.

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
e^-Q T/pi for D(0). Let i, j be the pair with the largest product v_i v_j. A node counts only where (x_i - x_j) t/(2 pi)
is next to an integer, and such nodes are listed directly. So a contour may have a hundred thousand nodes, of which a
few hundred are evaluated, and the smoothing is negligible.

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
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential
from service.privacy.trade_off.shuffled.steering import rough_mean

A_LIST, A_CALL, A_NODE, A_LISTED = 600.0, 50.0, 0.25, 0.05
"""Work of a list of thresholds, of a contour, of a node and of a listed node, in microseconds."""
REACH: Final = 9.0
"""End of the contour, in units of 1/h: e^{-REACH^2/2} is below 3e-18."""
NATS: Final = 45.0
"""Nats by which aliases are smaller than the integral."""
LEAST_TILT: Final = 2.5
"""Smallest tilt s0, in units of 1 over the standard deviation of S."""
SHARES: Final = (1.0, 0.3, 0.1, 0.03)
"""Distances of tilts for the bound of aliases, in units of half the length over the variance."""
NEGLIGIBLE: Final = 50.0
"""Q: nodes are skipped where |chi|^n is proved to be below e^-Q."""
WIDEST_SINE: Final = 0.9
"""Largest sine of half an angle for which a pair of terms rules out enough nodes."""
LARGEST_STEP: Final = 0.01
"""Largest n e for which the bound of the rounding of chi^n holds."""
SHORT, COUNTED, COUNTED_FINELY = 24, 400.0, 1500.0
"""Length of a short list, and number of listed nodes of each contour for long and for short lists. Most are skipped."""
SPREAD_OUT: Final = 1e4
"""Number of nodes of a contour by which two terms are chosen. Steers only."""
FEWEST_NODES, FEWEST_FINELY, MOST_NODES = 2048, 8192, 1 << 18
"""Smallest number of nodes of a contour for long and for short lists, and largest one, with those that are skipped."""
AT_ONCE: Final = 1 << 16
"""Largest number of evaluated nodes in an array, for more than one contour."""
MOVES, LONGEST_MOVE = 30, 1.5
"""Number of steps of Newton's method, and the largest step in ln s."""
LARGEST: Final = 600.0
"""Largest exponent of moments in doubles; larger ones are scaled."""

Bounds = tuple[FloatArray, FloatArray]
"""Lower and upper bounds, arrays of one shape."""


@final
class MeanContour:
    """Enclosures of ln delta(eps) of laws of report counts (`MeanForm`), for eps below the largest log ratio.

    Parameters
    ----------
    form : MeanForm
        Pair of laws.
    """

    def __init__(self, form: MeanForm) -> None:
        self.form = form
        self._weights = [float(each) for each in form.weights]
        pairs = zip(form.present, form.absent, strict=True)
        self._ratios = [(float(one - other), float(other)) for one, other in pairs]

    def rough_log_delta(self, epsilon: float) -> float:
        """Return about ln delta at `epsilon` >= 0, by a saddle point of e^{M(s)}/s^2. No bound depends on it.

        M is the log-moment function of a sum over all reports, and delta the mean of its positive part over their
        number.
        """
        grown = math.expm1(epsilon)
        terms = [change - grown * other for change, other in self._ratios]
        return rough_mean(self.form.reports, self._weights, terms)

    def log_deltas(self, epsilon: FloatArray) -> Bounds:
        """Return (lower, upper) bounds of ln delta at thresholds >= 0 (nats), shape (n,).

        The bounds are minus infinity and 0 where doubles prove nothing, and minus infinity from the largest loss on.
        """
        terms = np.array([[float(x) for x in self.form.terms(exponential(each))] for each in epsilon.tolist()])
        low, high = np.full_like(epsilon, -np.inf), np.full_like(epsilon, -np.inf)
        some = terms.max(axis=1) > 0  # elsewhere delta is 0
        if some.any():
            with np.errstate(all="ignore"):
                ends = _Contours(float(self.form.reports), np.array(self._weights), terms[some]).bounds()
            sound = ends[0] <= ends[1]
            low[some], high[some] = np.where(sound, ends[0], -np.inf), np.where(sound, ends[1], 0.0)
        return low, high


@final
class _Contours:
    """Contour integrals of mean forms with `terms`, shape (thresholds, categories), and n = `reports`.

    M is the log-moment function of the sum of n independent terms.
    """

    def __init__(self, reports: float, weights: FloatArray, terms: FloatArray) -> None:
        self.n, self.weights = reports, weights
        self.unit: FloatArray
        self.terms: FloatArray
        self.tilted: FloatArray
        self.slope: FloatArray
        self.curvature: FloatArray
        # A power of 2 as the unit of all terms changes no digits.
        self.unit = np.ldexp(1.0, np.frexp(np.abs(terms).max(axis=1))[1] - 1)
        self.terms = terms / self.unit[:, None]
        self.s0 = self._saddles()
        self.moment, self.error, tilted = self._log_moments(self.s0)
        self.tilted = tilted / tilted.sum(axis=1)[:, None]
        mean: FloatArray = (self.tilted * self.terms).sum(axis=1)
        self.slope = reports * mean
        self.curvature = reports * (self.tilted * (self.terms - mean[:, None]) ** 2).sum(axis=1)

    def _saddles(self) -> FloatArray:
        """Return about the s with s M'(s) = 2, or a larger s where the sum has too little spread; steers only."""
        average = self.terms @ self.weights
        deviation = np.sqrt(self.n * ((self.terms - average[:, None]) ** 2 @ self.weights))
        top: FloatArray = self.terms.max(axis=1)
        least: FloatArray = LEAST_TILT / deviation
        most = 1e3 / top * (1 + deviation)
        # The root for a normal sum of this mean and standard deviation.
        mean, square = self.n * average, deviation * deviation
        s = np.clip((np.sqrt(mean * mean + 8 * square) - mean) / (2 * square), least, most)
        low, high = least, most
        for _ in range(MOVES):
            masses = self.weights * np.exp(s[:, None] * (self.terms - top[:, None]))
            total: FloatArray = masses.sum(axis=1)
            mean: FloatArray = (masses * self.terms).sum(axis=1) / total
            spread: FloatArray = (masses * (self.terms - mean[:, None]) ** 2).sum(axis=1) / total
            value, slope = self.n * mean * s - 2, self.n * s * (mean + s * spread)
            low, high = np.where(value < 0, s, low), np.where(value < 0, high, s)
            step = np.where(slope > 0, -value / slope, LONGEST_MOVE)
            if ((np.abs(step) < 1e-2) | ((s <= least) & (value >= 0))).all():
                break
            following = s * np.exp(np.clip(step, -LONGEST_MOVE, LONGEST_MOVE))
            is_near = (np.abs(step) < LONGEST_MOVE) & (low < following) & (following < high)
            s = np.where(is_near, following, np.sqrt(low) * np.sqrt(high))
        return np.maximum(s, least)

    def _log_moments(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the log-moment M(s) of the sum of n terms, its error, and the law of one tilted term, for each s.

        The error is a bound of the absolute error.
        """
        n, exponents = self.n, s[:, None] * self.terms
        top: FloatArray = np.maximum(exponents.max(axis=1) - LARGEST, 0.0)
        flat = top == 0
        grown = np.where(flat[:, None], np.expm1(exponents), np.exp(exponents - top[:, None]))
        parts: FloatArray = self.weights * grown
        total: FloatArray = parts.sum(axis=1)
        log_one = np.where(flat, np.log1p(total), np.log(total) + top)
        tilted = self.weights * np.exp(exponents - log_one[:, None])
        relative: FloatArray = np.abs(parts).sum(axis=1) / np.where(flat, 1 + total, total)
        sizes = (tilted * np.abs(exponents)).sum(axis=1)
        terms = len(self.weights)
        error = n * (2 * FUNCTION_ERROR + (8 + terms) * UNIT_ROUNDOFF) * (relative + np.abs(log_one))
        return n * log_one, error + 4 * n * UNIT_ROUNDOFF * sizes, tilted

    def bounds(self) -> Bounds:
        """Return lower and upper bounds of ln delta at each threshold."""
        s0, spread = self.s0, np.sqrt(np.maximum(self.curvature, 1e-300))
        length = np.maximum((NATS - np.minimum(self.moment, 0.0)) / s0, 14 * spread + 2 * np.maximum(self.slope, 0.0))
        distance, width = self._pair(length)
        wide = width >= 0.5
        counted, fewest = (COUNTED_FINELY, FEWEST_FINELY) if len(width) <= SHORT else (COUNTED, FEWEST_NODES)
        nodes = np.clip(counted / (2 * width), fewest, MOST_NODES)
        nodes = np.where(wide, fewest, 2.0 ** np.floor(np.log2(nodes)))
        # Noise that nodes of this distance need, and the length that it needs in turn.
        length = np.maximum(length, 14 * np.hypot(spread, REACH * length / (2 * math.pi * nodes)))
        step = 2 * math.pi / length
        end = step * nodes
        square = (REACH / end) ** 2
        rate = step * distance / (2 * math.pi)
        size = np.abs(self.terms).max(axis=1)
        margin = 1e-9 + 32 * UNIT_ROUNDOFF * size * end
        width = np.where(wide, 1.0, width + margin)
        call, density, call_error, density_error = self._sums(step, nodes, rate, width, margin, square)
        beyond = np.exp(-0.5 * square * end * end) / (math.pi * square)
        skipped = math.exp(1 - NEGLIGIBLE)
        call_error = call_error + beyond / end**3 + skipped / (2 * s0)
        density_error = density_error + beyond / end + skipped * end / math.pi
        most = call + call_error
        log_total = self.moment + 0.5 * square * s0 * s0
        least = call - call_error - self._aliases(length, square, most, log_total)
        least = least - square * np.maximum(density + density_error, 0.0)
        room = self.error + 8 * UNIT_ROUNDOFF * (np.abs(log_total) + 1)
        # v_+ <= e^{s0 v}/(e s0), without smoothing.
        cap = self.moment + self.error - np.log(s0) - 1 + 8 * UNIT_ROUNDOFF
        low = np.where(least > 0, np.log(np.maximum(least, 5e-324)) + log_total - room, -np.inf)
        high = np.minimum(np.log(np.maximum(most, 5e-324)) + log_total + room, cap)
        log_n = math.log(self.n) - np.log(self.unit)
        rounding = 8 * UNIT_ROUNDOFF * (np.abs(self.moment) + np.abs(log_n) + 1)
        return low - log_n - rounding, high - log_n + rounding

    def _pair(self, length: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return |x_i - x_j| of the two terms that leave the fewest nodes of each contour, and a half-width.

        Only nodes t count for which |x_i - x_j| t/(2 pi) is within the half-width of an integer. If no two terms rule
        out enough nodes, the distance is 0 and the half-width 1. `length` is 2 pi over the distance of nodes.
        """
        best, widths = np.zeros_like(length), np.ones_like(length)
        fewest = np.full_like(length, np.inf)
        for j in range(self.terms.shape[1]):
            for i in range(j):
                sine = np.sqrt(NEGLIGIBLE / (2 * self.n * self.tilted[:, i] * self.tilted[:, j]))
                distance = np.abs(self.terms[:, i] - self.terms[:, j])
                width = np.where(sine < WIDEST_SINE, np.arcsin(np.minimum(sine, 1.0)) / math.pi, 1.0)
                # Nodes of the first lobe, and the share of nodes in all lobes.
                counted = width * (1 + length / np.maximum(distance, 1e-300) / SPREAD_OUT)
                better = (counted < fewest) & (width < 0.5)
                best, widths = np.where(better, distance, best), np.where(better, width, widths)
                fewest = np.where(better, counted, fewest)
        return best, widths

    def _sums(
        self,
        step: FloatArray,
        nodes: FloatArray,
        rate: FloatArray,
        width: FloatArray,
        margin: FloatArray,
        square: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the sums for C(0) and for D(0), divided by e^{M(s0)}, then bounds of their absolute rounding errors.

        C(0) is the mean of V_+, and D(0) the density at 0, of the smoothed sum V of n terms. `step`
        is the distance of nodes, and `nodes` their number. `rate` is the distance of nodes in turns of the pair of
        terms of `_pair`, `width` the half-width, `margin` the rounding error of turns, and `square` the variance of the
        smoothing.
        """
        counts = np.where(width < 0.5, 2 * width * nodes + nodes * rate + 2, nodes + 1)
        count_work(A_LIST)
        found: list[tuple[FloatArray, ...]] = []
        start = 0
        while start < len(step):
            total = np.cumsum(counts[start:])
            stop = start + max(int(np.searchsorted(total, AT_ONCE)), 1)
            rows = slice(start, stop)
            row, k = _counted(nodes[rows], rate[rows], width[rows])
            found.append(self._part(rows, row, k, step, margin, square))
            start = stop
        return tuple(np.concatenate(each) for each in zip(*found, strict=True))  # type: ignore[return-value]

    def _part(
        self, rows: slice, row: IndexArray, k: FloatArray, step: FloatArray, margin: FloatArray, square: FloatArray
    ) -> tuple[FloatArray, ...]:
        """Return the sums of `_sums` for some rows, from nodes `k` of the contours with the indices `row` in `rows`.

        The other arguments are those of `_sums`, and so are the four results, one number for each contour.
        """
        terms, tilted = self.terms[rows], self.tilted[rows]
        listed = len(k)
        for product, i, j in self._products(rows):
            sine = np.sqrt(NEGLIGIBLE / (2 * self.n * product))
            rules = sine < WIDEST_SINE
            if not rules.any():
                break
            widths = np.where(rules, np.arcsin(np.minimum(sine, 1.0)) / math.pi + margin[rows], 1.0)
            turns = k * (step[rows] * np.abs(terms[:, i] - terms[:, j]) / (2 * math.pi))[row]
            kept = np.abs(turns - np.rint(turns)) <= widths[row]
            row, k = row[kept], k[kept]
        count_work(A_NODE * len(k) + A_LISTED * listed + A_CALL * len(terms))
        t = k * step[rows][row]
        value, error = self._transforms(terms[row], tilted[row], t, square[rows][row], self.s0[rows][row])
        s0 = self.s0[rows][row]
        weight = np.where(k == 0, 0.5, 1.0) * (step[rows][row] / math.pi)
        # The real part of value/(s0 + i t)^2.
        norm = s0 * s0 + t * t
        over = (value.real * ((s0 * s0 - t * t) / norm) + value.imag * (2 * s0 * t / norm)) / norm
        starts = np.searchsorted(row, np.arange(len(terms)))
        lengths = np.diff(np.append(starts, len(row)))
        slack = (2 * lengths + 32) * UNIT_ROUNDOFF
        add: Any = np.add
        errors = weight * (error + slack[row] * np.abs(value))
        return tuple(add.reduceat(each, starts) for each in (weight * over, weight * value.real, errors / norm, errors))

    def _products(self, rows: slice) -> list[tuple[FloatArray, int, int]]:
        """Return the products of two probabilities of the tilted laws, with the indices of both; large ones first."""
        tilted = self.tilted[rows]
        found = [(tilted[:, i] * tilted[:, j], i, j) for j in range(tilted.shape[1]) for i in range(j)]
        return sorted(found, key=lambda each: -float(each[0].max()))

    def _transforms(
        self, terms: FloatArray, tilted: FloatArray, t: FloatArray, square: FloatArray, s0: FloatArray
    ) -> tuple[NDArray[np.complex128], FloatArray]:
        """Return e^{M(s0 + i t) - M(s0)} at the heights `t`, and a bound of its absolute error.

        M is the log-moment function of the sum of n terms and of the smoothing, whose variance is `square`. `terms` and
        `tilted` have one row for each height.
        """
        n = self.n
        half = 0.5 * terms * t[:, None]
        first, second = np.sin(half), np.cos(half)
        doubled = 2 * tilted * first
        fall, sine = (doubled * first).sum(axis=1), (doubled * second).sum(axis=1)
        log_size = 0.5 * np.log1p(np.maximum(fall * (fall - 2) + sine * sine, -1 + 1e-300))
        angle = np.arctan2(sine, 1 - fall)
        phase = n * angle + (square * s0) * t
        log_size = n * log_size - 0.5 * square * t * t
        size = np.exp(np.maximum(log_size, -745.0))
        off: FloatArray = 60 * UNIT_ROUNDOFF * (tilted * np.abs(terms)).sum(axis=1) * t
        relative = 2.1 * n * off + UNIT_ROUNDOFF * (16 + 8 * np.abs(phase) + 8 * np.abs(log_size))
        relative: FloatArray = np.where(n * off < LARGEST_STEP, relative, 2.0 + 2 * n * off)
        error = np.minimum(relative, 1e300) * size
        far = fall * (2 - fall) - sine * sine > 0.7  # |chi| may be below 1/2
        gaussian = np.exp(np.maximum(-0.5 * square * t * t, -745.0))
        absolute = np.minimum(n * (off + 8 * UNIT_ROUNDOFF) * math.exp((n - 1) * math.log(0.56)), 2.0) * gaussian
        error = error + np.where(far, absolute + 1e-300, 1e-300)
        return size * np.exp(1j * phase), error

    def _aliases(self, length: FloatArray, square: FloatArray, most: FloatArray, log_total: FloatArray) -> FloatArray:
        """Return upper bounds of the aliases of C(0), divided by e^{M(s0)}, for the periods `length` (see `_sums`).

        `square` is the variance of the smoothing, `most` an upper bound of C(0)/e^{M(s0)}, and `log_total` M(s0).
        """
        s0, log_right = self.s0, np.full_like(length, np.inf)
        least = 0.5 * length / np.maximum(self.curvature + square, 1e-300)
        for share in SHARES:  # every s1 > s0 gives a bound
            s1 = s0 + least * share
            drop = (s1 - s0) * length
            moment, error, _ = self._log_moments(s1)
            moment = moment + error + 0.5 * square * s1 * s1
            found = moment - np.log(math.e * s1) - drop - np.log(-np.expm1(-drop))
            log_right = np.fmin(log_right, np.where(drop > 0, found, np.inf))
        q = np.exp(-s0 * length)
        log_left = np.log(length) - s0 * length - 2 * np.log1p(-q) - log_total
        right, left = (np.exp(np.minimum(each, 700.0)) for each in (log_right - log_total, log_left))
        return (right + left + most * q / (1 - q)) * (1 + 1e-6)


def _counted(nodes: FloatArray, rate: FloatArray, width: FloatArray) -> tuple[IndexArray, FloatArray]:
    """Return (rows, k) of the nodes k from 0 to `nodes` of each row where k `rate` is within `width` of an integer.

    All nodes of a row are returned where the width is at least 1/2.
    """
    everything = width >= 0.5
    turns = np.where(everything, 0, np.floor(nodes * rate + width)).astype(np.int64) + 1
    rows = np.repeat(np.arange(len(nodes)), turns)
    turn = _ranges(turns)
    safe = np.maximum(rate[rows], 1e-300)
    # One more node on each side covers the rounding of the quotients.
    low = np.where(everything[rows], 0.0, np.ceil((turn - width[rows]) / safe) - 1)
    high = np.where(everything[rows], nodes[rows], np.floor((turn + width[rows]) / safe) + 1)
    # Neighbouring intervals share no node.
    previous = np.where(turn > 0, np.concatenate([[-1.0], high[:-1]]), -1.0)
    low, high = np.maximum(np.maximum(low, 0.0), previous + 1), np.minimum(high, nodes[rows])
    lengths = np.maximum(high - low + 1, 0.0).astype(np.int64)
    return np.repeat(rows, lengths), np.repeat(low, lengths) + _ranges(lengths)


def _ranges(lengths: IndexArray) -> FloatArray:
    """Return 0, 1, ..., m - 1 for each m of `lengths`, one after the other."""
    ends = np.cumsum(lengths)
    return (np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)).astype(np.float64)
