"""Tails of the loss of N Laplace steps of one scale, as sums of positive terms only.

A step with e = sensitivity/scale has the loss e (2 X - 1). Under H0, X = 0 with probability 1/2 and X = 1 with
probability e^-e/2. Between 0 and 1 its density is e/2 e^{-e x}. Under H1 the law is mirrored. The loss of a run is S =
e (2 V - N), where V in [0, N] is the sum of the X. Both laws P0 and P1 of V are an exponential times one measure W:

    dP0 = e^{-e v} dW;    dP1 = e^{e (v - N)} dW;
    W = 2^-N sum_j N!/(j! k! (N-j-k)!) e^j (point k) * (j uniforms).

W is symmetric about N/2. It has points at 0..N. On each cell [m, m + 1] it is a polynomial, a sum of cardinal
B-splines. Horner's rule gives the Bernstein coefficients, because every uniform is a further integral over [x - 1, x].
The integrals of exponentials and hyperbolic sines over tails have non-negative terms, so that no result cancels,
however small it is.

Splines of more than `uniforms` terms are truncated. Chernoff's bound at several tilts bounds them. The generating
function of W at a tilt l is (1/2 + e^l/2 + (e/2)(e^l - 1)/l)^N. The share of uniforms never exceeds c = e/(2 + e),
because tanh x <= x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from service.privacy.composition.exact_sums.laplace_reach import log_excess, uniforms_kept
from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.bernstein import hyperbolic_moments, moving_integrals, right_parts, series_length
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.enclosed.logs import LogBounds

_SMALL = 1e-290
_RANGE = 690.0
"""Approximate logarithm of the largest number in use."""
GRID = 2.0**52
"""Shares of a cell are multiples of 1/GRID, so that their distances to both endpoints are doubles."""
_A_PIECE, _A_RATIO = 0.01, 0.05
"""Work of a coefficient of a run, and of a term of an evaluation, in microseconds, roughly."""
_TILTS = np.array([[1.0], [1.5], [2.2], [3.0]])
"""Candidate tilts, relative to the tilt of a coin. A uniform has a third of the variance of a coin."""


@dataclass(frozen=True, slots=True)
class LatticeThreshold:
    """Tests V > v (or V >= v with `closed`) of the sum V in [0, N], with v = cell + share.

    V determines the loss of N Laplace steps. The share is in [0, 1), and 0 in cell N. `cell` and `share` have the shape
    (n,).
    """

    cell: IndexArray
    share: FloatArray
    closed: bool

    @staticmethod
    def of(cell: IndexArray, share: FloatArray, steps: int, *, closed: bool) -> LatticeThreshold:
        """Return the thresholds cell + share, share in [-1, 2], rounded down to multiples of 2^-52.

        A threshold is an integer (cell) plus a share. The result is limited to [0, N] with N = `steps`. `closed`
        includes sums equal to the threshold.
        """
        whole = np.floor(share)
        share = np.floor((share - whole) * GRID) / GRID
        over = share == 1
        cell, share = cell + whole.astype(np.intp) + over, np.where(over, 0.0, share)
        share = np.where((cell < 0) | (cell >= steps), 0.0, share)
        return LatticeThreshold(np.clip(cell, 0, steps), share, closed)

    def reflected(self, steps: int) -> LatticeThreshold:
        """Return the thresholds N - v, exactly, with open tests V > v and closed tests V >= v swapped; N = `steps`.

        v is a threshold of the sum V in [0, N], which determines the loss of N Laplace steps.
        """
        inner = self.share > 0
        return LatticeThreshold(
            np.where(inner, steps - 1, steps) - self.cell, np.where(inner, 1 - self.share, 0.0), not self.closed
        )


@dataclass(frozen=True, slots=True)
class _Rest:
    """Part of a cell [m, m + 1] right of a threshold, with the measure W on it; arrays of n thresholds.

    W is the measure whose exponential multiples are the laws of the run's loss, and e the largest loss of a step.
    `part` has the Bernstein coefficients of the density of W, shape (n, degree + 1), and `width` the length of the
    part. `cosh` and `sinh` are the integrals of cosh and sinh(e width t) times the Bernstein polynomials in t, in the
    shape of `part`.
    """

    part: FloatArray
    width: FloatArray
    cosh: FloatArray
    sinh: FloatArray


class LaplaceSums:
    """Measure W of a run of N Laplace steps, and the tails of both hypotheses at any threshold.

    `loss` is e = sensitivity/scale in nats, within a unit of rounding u. The loss of the run is e (2 V - N) with V in
    [0, N], whose laws are dP0 = e^{-e v} dW and dP1 = e^{e (v - N)} dW. W has points at 0..N and a polynomial density
    on the cells [m, m + 1]. All sums are scaled by a power of 2. The enclosures of the logarithms of tails have a width
    of about (J^2/2 + 16 J + 16 N) u for J uniforms, plus a few u per unit of the loss: 3e-13 for 100 steps of e = 0.1.
    """

    def __init__(self, steps: int, loss: float) -> None:
        self.steps, self.loss = steps, loss
        self._uniforms = uniforms_kept(steps, loss)
        self._log_omitted = log_excess(steps, self._uniforms, loss / (2 + loss))
        self._bits = math.floor((_RANGE - steps * loss) / math.log(2))
        self._terms = series_length(loss)
        self._build()
        j = self._uniforms
        self.error = UNIT_ROUNDOFF * (0.5 * j * j + 16 * j + 16 * steps + 8 * self._terms + 24 * steps * loss + 200)

    def _build(self) -> None:
        steps, loss = self.steps, self.loss
        count_work(_A_PIECE * steps * self._uniforms**2)
        rows = [self._point_masses()]
        for j in range(self._uniforms):
            # From k points and j uniforms of N steps, one of the N - j - k other steps becomes a uniform.
            left = np.arange(steps - j, 0, -1.0)
            rows.append(rows[-1][: steps - j] * (loss * left / (j + 1)))
        self.points = rows[0]
        pieces = np.zeros((steps, 1))
        pieces[: len(rows[-1]), 0] = rows[-1]
        for row in reversed(rows[1:-1]):
            pieces = moving_integrals(pieces)
            pieces[: len(row)] += row[:, None]
        self._pieces = np.vstack([pieces, np.zeros((1, pieces.shape[1]))])
        """Density of W on each cell [m, m + 1], and 0 on the cell that begins at N."""

    def _point_masses(self) -> FloatArray:
        """Return the masses C(N, k) 2^-N of the points k = 0..N of W, scaled, shape (N + 1,).

        W is the measure whose exponential multiples are the laws of the losses of N Laplace steps. All masses follow
        from the exact middle one by ratios.
        """
        steps = self.steps
        middle = steps // 2
        first = math.ldexp(float(Fraction(math.comb(steps, middle), 2**steps)), self._bits)
        k = np.arange(middle, steps)
        right = np.cumprod(np.concatenate([[first], (steps - k) / (k + 1)]))
        whole = np.empty(steps + 1)
        whole[middle:] = right
        whole[: steps - middle + 1] = right[::-1]
        return whole

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Integrals of cosh(e t) p, sinh(e t) p and e^{-e t} p over every cell, shape (cells,) each.

        p is the density of the measure W at m + t in the cell [m, m + 1], and e the largest loss of a Laplace step. The
        laws of the run are exponential multiples of W.
        """
        even, odd = hyperbolic_moments(self._pieces.shape[1] - 1, np.array([self.loss]), self._terms)
        falling = math.exp(-self.loss) * (even + odd)[0, ::-1]
        return self._pieces @ even[0], self._pieces @ odd[0], self._pieces @ falling

    @cached_property
    def _centred(self) -> FloatArray:
        """Exponents e (m - N/2) for m = 0..N, shape (N + 1,), for N steps of loss e.

        The losses are in nats.
        """
        return self.loss * (np.arange(self.steps + 1.0) - 0.5 * self.steps)

    @cached_property
    def _tails(self) -> tuple[FloatArray, FloatArray]:
        """Integrals of e^{-e (v - N/2)} dW (H0) and of e^{e (v - N/2)} dW (H1) over v >= m, for m = 0..N + 1.

        W is the measure whose exponential multiples are the laws of V under H0 and H1, and e (2 V - N) is the loss of N
        Laplace steps. Both arrays have the shape (N + 2,) and a common scale.
        """
        cosh, sinh, falling = self._moments
        found: list[FloatArray] = []
        for sign, cells in ((-1, falling), (1, cosh + sinh)):
            terms = np.exp(sign * self._centred) * (self.points + cells)
            found.append(np.append(np.cumsum(terms[::-1])[::-1], 0.0))
        return found[0], found[1]

    @cached_property
    def _hyperbolic_tails(self) -> tuple[FloatArray, FloatArray]:
        """Integrals of cosh(e (v - m)) dW and of sinh(e (v - m)) dW over v >= m, for m = 0..N + 1, shape (N + 2,) each.

        The addition formulas of cosh and sinh give them from right to left. W is the measure whose exponential
        multiples are the laws of the losses of N Laplace steps.
        """
        cosh_cells, sinh_cells, _ = self._moments
        cosh, sinh = math.cosh(self.loss), math.sinh(self.loss)
        rows = np.zeros((self.steps + 2, 2))
        even = odd = 0.0
        for m in range(self.steps, -1, -1):
            own_even, own_odd = float(self.points[m] + cosh_cells[m]), float(sinh_cells[m])
            even, odd = cosh * even + sinh * odd + own_even, cosh * odd + sinh * even + own_odd
            rows[m] = even, odd
        return rows[:, 0], rows[:, 1]

    def vertices(self, hypothesis: int) -> tuple[FloatArray, FloatArray]:
        """Return approximations of ln P(V >= m) and ln P(V > m), for m = 0..N, shape (N + 1,) each.

        The run's loss is e (2 V - N), with the largest loss e of each of N steps and a random V in [0, N]. `hypothesis`
        is 0 for H0 and 1 for H1.
        """
        closed = self._tails[hypothesis][:-1]
        opened = closed - np.exp((2 * hypothesis - 1) * self._centred) * self.points
        # The difference cancels if the atom has nearly all of the mass. The next tail is a lower bound.
        opened = np.maximum(opened, self._tails[hypothesis][1:])
        return self._log(closed), self._log(opened)

    def tails(self, at: LatticeThreshold) -> tuple[LogBounds, LogBounds]:
        """Return bounds of ln P(V > v), or of ln P(V >= v) for closed thresholds, under H0 and under H1.

        The run's loss is e (2 V - N), with the largest loss e of each of N steps and a random V in [0, N]. `at` holds
        the thresholds v, and the bounds have its shape (n,).
        """
        rest = self._rest(at)
        shift = np.zeros_like(at.share)
        growths = -self._centre(at), shift + 0.5 * self.steps * self.loss
        first, second = (
            self._ends(self._tail(at, rest, which), shift, self._underflow(growths[which]), self._omitted(at, which))
            for which in (0, 1)
        )
        return first, second

    def tail_and_slope(self, at: LatticeThreshold, hypothesis: int) -> tuple[FloatArray, FloatArray]:
        """Return approximations of ln P(V > v) and of its derivative in v, for root finding, shape (n,) each.

        The run's loss is e (2 V - N), with the largest loss e of each of N steps and a random V in [0, N]. `at` holds
        the thresholds v. `hypothesis` is 0 for H0 and 1 for H1.
        """
        rest = self._rest(at)
        tail = self._tail(at, rest, hypothesis)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._log(tail), -rest.part[:, 0] * np.exp((2 * hypothesis - 1) * self._centre(at)) / tail

    def _tail(self, at: LatticeThreshold, rest: _Rest, hypothesis: int) -> FloatArray:
        """Return the scaled integral of e^{-e (v - N/2)} dW (H0) or e^{e (v - N/2)} dW (H1) over a tail, shape (n,).

        W is the measure whose exponential multiples are the laws of the losses of N Laplace steps, and `rest` the part
        of a threshold's cell right of the threshold. `at` has the thresholds, and `hypothesis` is 0 or 1. The integral
        runs over v above the threshold, for steps of largest loss e.
        """
        sign = 2 * hypothesis - 1
        weights = rest.cosh + rest.sinh
        if sign < 0:  # int_0^1 e^{-x t} B_r(t) dt is e^-x int_0^1 e^{x t} B_{n-r}(t) dt
            weights = np.exp(-self.loss * rest.width)[:, None] * weights[:, ::-1]
        here = np.exp(sign * self._centre(at))
        total = self._tails[hypothesis][at.cell + 1] + rest.width * here * (rest.part * weights).sum(axis=1)
        return total + (at.share == 0) * self.points[at.cell] * here if at.closed else total

    def profile(self, at: LatticeThreshold) -> LogBounds:
        """Return bounds of ln delta at the thresholds e (2 v - N) of the loss, shape (n,).

        delta is twice the integral of e^{e (v - N/2)} sinh(e (w - v)) dW over w > v. The measure W gives the laws of
        the losses of N Laplace steps of largest loss e.
        """
        rest, centre = self._rest(at), self._centre(at)
        x = self.loss * rest.width
        cosh, sinh = (sums[at.cell + 1] for sums in self._hyperbolic_tails)
        inside = rest.width * (rest.part * rest.sinh).sum(axis=1)
        scaled = np.cosh(x) * sinh + np.sinh(x) * cosh + inside
        floor = self._underflow(0.5 * self.steps * self.loss - centre)
        return self._ends(scaled, centre + math.log(2), floor, self._omitted(at, 1))

    def _rest(self, at: LatticeThreshold) -> _Rest:
        count_work(_A_RATIO * at.share.size * (self._uniforms + self._terms))
        part = right_parts(self._pieces[at.cell], at.share)
        width = 1 - at.share
        return _Rest(part, width, *hyperbolic_moments(part.shape[1] - 1, self.loss * width, self._terms))

    def _centre(self, at: LatticeThreshold) -> FloatArray:
        return 0.5 * self.threshold(at)

    def threshold(self, at: LatticeThreshold) -> FloatArray:
        """Return the thresholds c = e (2 v - N) of the loss (nats), shape (n,), within 4 roundings relative to c.

        The run has N steps of largest loss e. `at` has v: the index of a cell of length 1, and the share of the cell
        left of v.
        """
        return self.loss * ((2 * at.cell - self.steps) + 2 * at.share)

    def _underflow(self, growth: FloatArray) -> FloatArray:
        """Bound from above the total of numbers below the smallest double, in a sum with weights of at most e^growth.

        The sum is one of the scaled sums over points and cells of W, the measure behind the laws of the losses. The
        terms of a point first increase with the number of uniforms, by e^{N e} in total at most, and then decrease. The
        total is larger only if the first terms are too small.
        """
        lost = SMALLEST * (self._uniforms + 10) ** 2 * (self.steps + 1)
        if self.points[-1] < _SMALL:
            growth = growth + self.steps * self.loss
        return lost * np.exp(np.minimum(growth, _RANGE))

    def _ends(self, scaled: FloatArray, shift: FloatArray, floor: FloatArray, omitted: FloatArray) -> LogBounds:
        """Return outward bounds of ln(`scaled` e^`shift`), shape (n,), for scaled sums of positive terms.

        `floor` bounds the error of `scaled` from underflow. e^`omitted`, a bound of the truncated terms, is added to
        the upper bound.
        """
        lower, upper = self._log(np.maximum(scaled - floor, 0.0)) + shift, self._log(scaled + floor) + shift
        rounding = self.error + 8 * UNIT_ROUNDOFF * np.where(np.isfinite(upper), np.abs(upper), 0.0)
        upper = np.logaddexp(upper + rounding, omitted)
        return LogBounds(np.minimum(lower - rounding, 0.0), np.minimum(upper + rounding, 0.0))

    def _log(self, scaled: FloatArray) -> FloatArray:
        """Return ln of sums without the common power of 2 by which all sums are scaled, in the shape of `scaled`.

        The power of 2 of each number is removed first, because logarithms of numbers near 1 have small errors.
        """
        mantissa, exponent = np.frexp(scaled)
        with np.errstate(divide="ignore"):
            log = np.log(mantissa) + (exponent - self._bits) * math.log(2) - 0.5 * self.steps * self.loss
        return np.asarray(log, dtype=np.float64)

    def _omitted(self, at: LatticeThreshold, hypothesis: int) -> FloatArray:
        """Return ln of an upper bound of the contribution of truncated splines to P(V > v), shape (n,).

        The law of N Laplace losses is a sum of splines, one for each number of uniform variables. Splines of many
        uniform variables are truncated. `hypothesis` is 0 for H0 and 1 for H1. The bound is Chernoff's at several
        tilts. The run's loss is e (2 V - N), with the largest loss e of each of N steps.
        """
        if self._log_omitted == -math.inf:
            return np.full(len(at.share), -np.inf)
        steps, own = self.steps, self.loss * (2 * hypothesis - 1)
        v = at.cell + at.share
        coin = np.log((v + 0.5) / (steps - v + 0.5))
        tilt = np.maximum(np.maximum(_TILTS * coin, own), -600.0)
        tilt = np.where(np.abs(tilt) < 1e-6, np.maximum(1e-6, own), tilt)
        uniform = np.expm1(tilt) / tilt
        log_total = steps * np.log(0.5 + 0.5 * np.exp(tilt) + 0.5 * self.loss * uniform)
        exponent = log_total - (tilt - own) * v - hypothesis * steps * self.loss
        # At N there is only a point.
        exponent = np.where(at.cell == steps, -np.inf, exponent.min(axis=0))
        return exponent + self._log_omitted + 1e-9 * (1 + steps)
