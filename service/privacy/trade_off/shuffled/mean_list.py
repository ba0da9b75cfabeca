"""Profile of a mean form at many thresholds at once, by the contour integrals of `mean_contour.py`.

The formulas and the bounds of all errors are those of `mean_contour.py`. This module evaluates all thresholds in
arrays, with two differences:

**Nodes.** Many nodes are skipped without being listed. Let i, j be the pair of terms with the largest product v_i v_j.
A node counts only where (x_i - x_j) t/(2 pi) is next to an integer, and such nodes are listed directly. So with many
reports a contour may have a hundred thousand nodes, of which a few hundred are evaluated, and the smoothing is
negligible.

**Terms.** E and the ratios alpha, beta are sums of two doubles, and so are X_i = alpha_i - E beta_i before they are
rounded. Their error is at most u |X_i| + 2^-98 (alpha_i + E beta_i). Let d be the largest second part. It changes M(s0)
by at most n s0 d, and chi by at most t d.
"""

from __future__ import annotations

import math
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.shuffled.mean_contour import (
    A_CALL,
    A_NODE,
    LARGEST_STEP,
    LEAST_TILT,
    NATS,
    NEGLIGIBLE,
    REACH,
    SHARES,
    WIDEST_SINE,
)
from service.privacy.trade_off.shuffled.mean_form import DIGITS, MeanForm

SHORT, COUNTED, COUNTED_FINELY = 24, 400.0, 1500.0
"""Length of a short list, and number of listed nodes of each contour for long and for short lists. Most are skipped."""
SPREAD_OUT: Final = 1e4
"""Number of nodes of a contour by which two terms are chosen. Steers only."""
FEWEST_NODES, MOST_NODES = 2048, 1 << 18
"""Smallest and largest number of nodes of a contour, including those that are skipped."""
AT_ONCE: Final = 1 << 16
"""Largest number of evaluated nodes in an array, for more than one contour."""
MOVES, LONGEST_MOVE = 30, 1.5
"""Number of steps of Newton's method, and the largest step in ln s."""
REST: Final = 2.0**-98
"""Error of a term before rounding, relative to the sum of its parts."""
LARGEST: Final = 600.0
"""Largest exponent of moments in doubles; larger ones are scaled."""
SPLIT: Final = 134217729.0
"""2^27 + 1, which splits a double into two halves."""

Bounds = tuple[FloatArray, FloatArray]
"""Lower and upper bounds, arrays of one shape."""


@final
class MeanList:
    """Enclosures of ln delta(eps) of a mean form at many thresholds.

    Parameters
    ----------
    form : MeanForm
        Pair of laws.
    """

    def __init__(self, form: MeanForm) -> None:
        self.form = form
        self._weights: FloatArray = np.array([float(each) for each in form.weights])
        self._ratios = [_in_two_parts(ratios) for ratios in (form.present, form.absent)]

    def log_deltas(self, epsilon: FloatArray) -> Bounds:
        """Return lower and upper bounds of ln delta.

        Parameters
        ----------
        epsilon : array, shape (n,)
            Thresholds >= 0 below the largest log-likelihood ratio, nats.

        Returns
        -------
        (array, array)
            Bounds, shape (n,); minus infinity and 0 where doubles prove nothing.
        """
        with np.errstate(all="ignore"):
            terms, sizes = self._terms(epsilon)
            contours = _Contours(float(self.form.reports), self._weights, terms, sizes)
            low, high = contours.bounds()
        sound = low <= high
        return np.where(sound, low, -np.inf), np.where(sound, high, 0.0)

    def _terms(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return X_i = alpha_i - E beta_i of each category, and the largest alpha_i + E beta_i of each threshold.

        The shapes are (thresholds, categories) and (thresholds,).
        """
        grown, rest = np.array([_exponential(each) for each in epsilon.tolist()]).T[:, :, None]
        (present, present_rest), (absent, absent_rest) = self._ratios
        product = grown * absent
        lost = _product_error(grown, absent, product) + grown * absent_rest + rest * absent
        difference = present - product
        part = difference - present
        missed = (present - (difference - part)) + (-product - part)
        return difference + (missed + present_rest - lost), (present + product).max(axis=1)


@final
class _Contours:
    """Contour integrals of mean forms with `terms`, shape (thresholds, categories), and n = `reports`.

    M is the log-moment function of the sum of n independent terms. `sizes` has the largest alpha_i + E beta_i for each
    threshold, where a term is alpha_i - E beta_i.
    """

    def __init__(self, reports: float, weights: FloatArray, terms: FloatArray, sizes: FloatArray) -> None:
        self.n, self.weights = reports, weights
        self.unit: FloatArray
        self.terms: FloatArray
        self.rest: FloatArray
        self.tilted: FloatArray
        self.slope: FloatArray
        self.curvature: FloatArray
        # A power of 2 as the unit of all terms changes no digits.
        self.unit = np.ldexp(1.0, np.frexp(np.abs(terms).max(axis=1))[1] - 1)
        self.terms, self.rest = terms / self.unit[:, None], REST * sizes / self.unit
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
            s = np.where((low < following) & (following < high), following, np.sqrt(low * high))
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
        return n * log_one, error + n * s * self.rest + 4 * n * UNIT_ROUNDOFF * sizes, tilted

    def bounds(self) -> Bounds:
        """Return lower and upper bounds of ln delta at each threshold."""
        s0, spread = self.s0, np.sqrt(np.maximum(self.curvature, 1e-300))
        length = np.maximum((NATS - np.minimum(self.moment, 0.0)) / s0, 14 * spread + 2 * np.maximum(self.slope, 0.0))
        distance, width = self._pair(length)
        wide = width >= 0.5
        counted = COUNTED_FINELY if len(width) <= SHORT else COUNTED
        nodes = np.clip(counted / (2 * width), FEWEST_NODES, MOST_NODES)
        nodes = np.where(wide, FEWEST_NODES, 2.0 ** np.floor(np.log2(nodes)))
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

        C(0) is the mean of V_+, and D(0) the density at 0, of the smoothed sum V of n terms (`mean_contour.py`). `step`
        is the distance of nodes, and `nodes` their number. `rate` is the distance of nodes in turns of the pair of
        terms of `_pair`, `width` the half-width, `margin` the rounding error of turns, and `square` the variance of the
        smoothing.
        """
        counts = np.where(width < 0.5, 2 * width * nodes + nodes * rate + 2, nodes + 1)
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
        count_work(A_NODE * len(k) + 0.05 * listed + 0.2 * A_CALL * len(terms))
        t = k * step[rows][row]
        value, error = self._transforms(terms[row], tilted[row], t, square[rows][row], self.s0[rows][row])
        s0 = self.s0[rows][row]
        weight = np.where(k == 0, 0.5, 1.0) * (step[rows][row] / math.pi)
        # The real part of value/(s0 + i t)^2.
        norm = s0 * s0 + t * t
        over = (value.real * (s0 * s0 - t * t) + 2 * value.imag * s0 * t) / (norm * norm)
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
        off: FloatArray = 60 * UNIT_ROUNDOFF * (tilted * np.abs(terms)).sum(axis=1) * t + float(self.rest.max()) * t
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


def _in_two_parts(ratios: tuple[Any, ...]) -> tuple[FloatArray, FloatArray]:
    """Return fractions `ratios` as the nearest doubles, and the doubles nearest to the remainders."""
    first = [float(each) for each in ratios]
    rest = [float(each - type(each)(part)) for each, part in zip(ratios, first, strict=True)]
    return np.array(first), np.array(rest)


def _exponential(exponent: float) -> tuple[float, float]:
    """Return e^`exponent` as the sum of two doubles."""
    import mpmath.libmp

    many_digits: Any = mpmath.libmp
    precision = many_digits.dps_to_prec(DIGITS)
    value = many_digits.mpf_exp(many_digits.from_float(exponent), precision)
    first = many_digits.to_float(value)
    rest = many_digits.mpf_sub(value, many_digits.from_float(first), precision)
    return first, many_digits.to_float(rest)


def _product_error(one: FloatArray, other: FloatArray, product: FloatArray) -> FloatArray:
    """Return `one` times `other` minus the rounded `product`, exactly (Dekker 1971)."""
    (high, low), (other_high, other_low) = (_halves(each) for each in (one, other))
    return low * other_low - (((product - high * other_high) - low * other_high) - high * other_low)


def _halves(number: FloatArray) -> tuple[FloatArray, FloatArray]:
    large = SPLIT * number
    high = large - (large - number)
    return high, number - high
