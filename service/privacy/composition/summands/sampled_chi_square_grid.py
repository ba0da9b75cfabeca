"""Nodes, losses and weights behind the moments of sampled steps with a chi-square statistic.

One step samples a share p of the records. The membership adversary (`threat_models/membership_step.py`) sees T ~
chi2'_d(m) under H0, a noncentral chi-square law with d degrees of freedom and noncentrality m. N is the effective batch
size, and the likelihood ratio with the record is:

    w(T) = 1 - p + p e^v,    v = v_0 - B (T - E T),    B = 1/(2 (N - 1)),   v_0 = E0 v < 0,    L = ln w.

The nodes use the map T = l ln(1 + e^s), where l is the standard deviation of T. The map is linear in s where T is
large, like e^s where T is small, and analytic where |Im s| < pi, or for Re s > 0 everywhere. Nodes are at s = E T/l -
x, x = (first + j) h, so that L increases with x. T - E T = l (-x + ln(1 + e^-s)) loses no digit.
`sampled_chi_square_strips.py` bounds the integrand off the real axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import Summand
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.trapezoid import TrapezoidNodes
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.chi_square.density import log_density
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF, sum_error

LINEAR = 3.0
"""Value of s from which strips may have any width."""

LEAST_S = -680.0
"""Smallest s, so that e^s stays in the range of doubles."""
_WIDEST_BENT = 1.45
"""Largest half-width of a strip with smaller s, below pi/2."""
_WIDEST = 12.0


@dataclass(frozen=True)
class ChiSquareSteps(Summand):
    """Equal steps, `count` of them, of noisy SGD on samples of the records, as the membership adversary sees them.

    The adversary's statistic T has a chi-square law with `dimension` degrees of freedom and the noncentrality
    `effective_batch_size` * `susceptibility`. The effective batch size is N = n + tau^2 n^2/C^2 > 1 for batches of n
    records, noise tau and clipping norm C (`conversions.py`). 0 < `sample_rate` < 1.
    """

    rank = 4
    dimension: int
    susceptibility: float
    effective_batch_size: Fraction
    sample_rate: float
    count: int

    @cached_property
    def law(self) -> ChiSquareStep:
        """Law of one step in doubles: the test statistic and its likelihood ratio, with rounded parameters."""
        return ChiSquareStep.of(self)

    @property
    @override
    def spread(self) -> float:
        return self.sample_rate * self.law.spread

    @property
    @override
    def loss_range(self) -> tuple[float, float]:
        return self.log_prob_never_sampled, self.count * self.law.largest_loss

    @property
    @override
    def log_prob_never_sampled(self) -> float:
        return self.count * math.log1p(-self.sample_rate)

    @classmethod
    @override
    def last_nodes_are_negligible(
        cls, groups: Sequence[tuple[Self, ...]], digits: FloatArray, theta: FloatArray
    ) -> BoolArray:
        """Return where the last node of each group has negligible weight at the tilt `theta`, shape (levels, groups).

        The result is that of a normal statistic of the same spread. It is a guess on which no bound depends. About
        10^-digits of the mass is truncated.
        """
        like = [
            tuple(SampledGaussianSteps(1 / each.law.spread, each.sample_rate, each.count) for each in group)
            for group in groups
        ]
        return SampledGaussianSteps.last_nodes_are_negligible(like, digits, theta)


@dataclass(frozen=True)
class ChiSquareStep:
    """Law of one step in doubles: likelihood ratio w = 1 - p + p e^v with the exponent v = v_0 - B (T - E T).

    T is the noncentral chi-square statistic, and p is `rate`. The noncentrality is the nearest double to N *
    susceptibility for the effective batch size N, and v_0 is that of this law. `degrees` is the number of degrees of
    freedom of T, `steepness` is B, `middle` is the mean v_0 under H0, and `largest` is v at T = 0. With the record, T
    is distributed like `shrink` times a noncentral chi-square variable.
    """

    degrees: int
    noncentrality: float
    steepness: float
    """Slope B of the exponent v."""
    middle: float
    """Mean v_0 of the exponent under H0."""
    rate: float
    largest: float
    """Exponent v at T = 0."""
    shrink: float
    """Ratio (N - 1)/N. With the record T is distributed like shrink chi2'_d(shrink m)."""

    @staticmethod
    def of(steps: ChiSquareSteps) -> ChiSquareStep:
        """Return the law of one of the steps."""
        size, known = steps.effective_batch_size, Fraction(steps.susceptibility)
        noncentrality = float(size * known)
        excess = 1 / (size - 1)
        half = Fraction(steps.dimension, 2)
        moved = float(known * excess / 2 + excess / 2 * (Fraction(noncentrality) - size * known))
        middle = -moved - float(half) * _less_log(excess)
        largest = float(known / 2) + float(half) * math.log1p(float(excess))
        shrink = float((size - 1) / size)
        return ChiSquareStep(
            steps.dimension, noncentrality, float(excess / 2), middle, steps.sample_rate, largest, shrink
        )

    @property
    def largest_loss(self) -> float:
        """Loss L = ln(1 - p + p e^v) at the statistic T = 0, which is the largest loss of a step, nats.

        p is the sampling rate, and v = ln of the likelihood ratio of T without sampling (`ChiSquareStep`).
        """
        if self.largest > 600.0:
            return self.largest + math.log(self.rate)
        return math.log1p(self.rate * math.expm1(self.largest))

    @property
    def mean(self) -> float:
        """Mean E T of the chi-square statistic T under H0."""
        return self.degrees + self.noncentrality

    @property
    def deviation(self) -> float:
        """Standard deviation l of the chi-square statistic T under H0."""
        return math.sqrt(2 * self.degrees + 4 * self.noncentrality)

    @property
    def spread(self) -> float:
        """Standard deviation B l of the exponent v = v_0 - B (T - E T) of a step (`ChiSquareStep`).

        l is the standard deviation of the statistic T. |dv/ds| is at most this value for the map T = l ln(1 + e^s).
        """
        return self.steepness * self.deviation

    @property
    def center(self) -> float:
        """Ratio E T/l of the mean and the standard deviation of the chi-square statistic T under H0."""
        return self.mean / self.deviation

    def log_tail(self, s: float, *, upper: bool = False, present: bool = False) -> float:
        """Return ln of a Chernoff bound of P(T <= T(s)), or of P(T > T(s)) with `upper`, for the statistic T.

        T(s) = l ln(1 + e^s) with the standard deviation l of T. The law is that of H0, or with `present` that of a step
        that sees the record. The result is 0 if the tail contains the mean of T.
        """
        t = self.deviation * (s + math.log1p(math.exp(-s)) if s > 0 else math.log1p(math.exp(s)))
        d, m = self.degrees, self.noncentrality
        if present:
            t, m = t / self.shrink, m * self.shrink
        if (t < d + m) == upper:
            return 0.0
        w = (d + math.sqrt(d * d + 4 * t * m)) / (2 * t)
        pole = 1 - 1 / w
        exponent = 0.5 * m * pole * pole + 0.5 * d * (math.log(w) - pole)
        return -max(exponent * (1 - 1e-9) - 1e-9 - 1e-15 * (d + m * abs(pole)), 0.0)


@dataclass(frozen=True, kw_only=True)
class ChiSquareGrid(TrapezoidNodes):
    """Nodes of the trapezoid sum in s with everything that does not depend on the tilt; shape (1, nodes).

    The statistic is T = l ln(1 + e^s) with its standard deviation l, and the loss increases along the nodes.
    `responsibility` is p e^v/w, the probability under H1 that the step used the record, for the likelihood ratio w = 1
    - p + p e^v. The cell of a node is the interval of half a node distance around it.
    """

    law: ChiSquareStep
    spacing: float
    """Distance h of the nodes."""
    responsibility: FloatArray
    kept: int
    """Number of nodes before the truncation of large losses; the rest has no weight."""
    log_slope: FloatArray
    """Upper bound of |d ln(density dT/ds)/ds| on the cell of each node."""
    density_slope: FloatArray
    """Upper bound of |d ln(density)/dT| dT/ds on the cell of each node."""

    @staticmethod
    def build(law: ChiSquareStep, low: float, high: float, step: float) -> ChiSquareGrid:
        """Return nodes for s from about `high` down to about `low`, both included.

        The statistic at a node is T = l ln(1 + e^s). T has the chi-square law `law` with the standard deviation l.
        `step` is the distance of the nodes, a short binary fraction.
        """
        first = math.floor((law.center - high) / step)
        kept = math.ceil((law.center - low) / step) - first + 1
        nodes = kept + -kept % SUM_BLOCK
        x = (first + np.arange(nodes, dtype=np.float64)) * step
        s = law.center - x
        s[kept:] = s[kept - 1]  # of no weight
        bend = np.logaddexp(0.0, -s)
        over = law.deviation * (bend - x)
        over[kept:] = over[kept - 1]
        statistic = np.where(s < 30.0, law.deviation * np.logaddexp(0.0, s), law.mean + over)
        log_density_, density_error, _ = log_density(law.degrees, law.noncentrality, statistic, over)
        log_weight = log_density_ + math.log(law.deviation * step) - bend
        log_weight[kept:] = -np.inf
        exponent = law.middle - law.steepness * over
        exponent_error = UNIT_ROUNDOFF * (100 * abs(law.middle) + 8 * law.steepness * np.abs(over)) + 1e-300
        loss, responsibility, loss_error = _losses(law.rate, exponent, exponent_error)
        # The error of the noncentrality moves ln f by m (q - 1)/2 = T d ln f/dT + (T - E T)/2 + 1 (q of `density.py`).
        relative = density_error + sum_error(nodes) + 4 * FUNCTION_ERROR + UNIT_ROUNDOFF * (np.abs(log_weight) + 8)
        relative[kept:] = 0.0
        slope, density_slope = _slopes(law, s, step)
        relative += UNIT_ROUNDOFF * (statistic * density_slope / law.deviation * (1 + np.exp(-s)) + np.abs(over) + 1)
        return ChiSquareGrid(
            law=law,
            spacing=step,
            step=np.array([[step]]),
            start=np.zeros(1, dtype=np.intp),
            stop=np.array([kept]),
            x=x[None],
            loss=loss[None],
            log_null_weight=log_weight[None],
            null_weight=np.exp(log_weight)[None],
            responsibility=responsibility[None],
            loss_error=loss_error[None],
            relative_error=relative[None],
            kept=kept,
            log_slope=slope[None],
            density_slope=density_slope[None],
        )

    @property
    def points(self) -> FloatArray:
        """Values of s at the nodes, shape (nodes,), where T = l ln(1 + e^s) is the statistic.

        l is the standard deviation of T. Nodes beyond the truncation have the s of the last node with weight.
        """
        s = self.law.center - self.x[0]
        return np.maximum(s, s[self.kept - 1])

    @property
    def is_bent(self) -> bool:
        """Whether T = l ln(1 + e^s) is far from linear at some node (s below `LINEAR`), so that strips are narrower.

        T is the statistic, and l its standard deviation.
        """
        return float(self.points[self.kept - 1]) - self.spacing < LINEAR

    @property
    def widest(self) -> float:
        """Largest half-width a of a strip between the real axis and the path s - ia, for any likelihood ratio."""
        return _WIDEST_BENT if self.is_bent else _WIDEST


def _less_log(x: Fraction) -> float:
    value = float(x)
    if value > 0.25:
        return value - math.log1p(value)
    total, power = 0.0, value
    for k in range(2, 40):
        power *= -value
        total -= power / k
    return total


def _losses(rate: float, exponent: FloatArray, exponent_error: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `(L, r, error)` at the exponents v, in the shape of `exponent`.

    L = ln(1 - p + p e^v) is the loss in nats for the sampling rate p. r = p e^v/(1 - p + p e^v) is the responsibility.
    `error` bounds the absolute error of L. `exponent_error` bounds the error of v.
    """
    loss = np.log1p(rate * np.expm1(np.minimum(exponent, 600.0)))
    split = (exponent < -1) & (rate > 0.5)
    loss = np.where(split, np.log((1 - rate) + rate * np.exp(np.minimum(exponent, 0.0))), loss)
    loss = np.where(exponent > 600.0, np.logaddexp(math.log1p(-rate), math.log(rate) + exponent), loss)
    responsibility = np.exp(np.minimum(math.log(rate) + exponent - loss, 0.0))
    loss_error = responsibility * exponent_error + 2 * FUNCTION_ERROR * np.abs(loss) + 12 * UNIT_ROUNDOFF * split
    # The rate is a rounded quotient, and dL/d ln p = (r - p)/(1 - p).
    loss_error += UNIT_ROUNDOFF * np.abs(responsibility - rate) / (1 - rate)
    return loss, responsibility, loss_error


def mean_slope(law: ChiSquareStep, statistic: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of (m/4) G'(m T/4) at the statistic T, in its shape.

    T has d degrees of freedom and the noncentrality m of `law`, and G = ln 0F1(; d/2; .) is the noncentral factor of
    its log-density. (m/4) G'(m T/4) = rho sqrt(m/T)/2 with the ratio rho = I_{nu+1}/I_nu of Bessel functions at sqrt(m
    T), nu = d/2 - 1. `sampled_chi_square_strips.py` has the bounds of rho.
    """
    m, nu = law.noncentrality, 0.5 * law.degrees - 1
    product = m * statistic
    low = 0.5 * m / (nu + 0.5 + np.sqrt(product + (nu + 1.5) ** 2))
    high = 0.5 * m / np.maximum(nu + 0.5 + np.sqrt(product + (nu + 0.5) ** 2), 1e-300)
    return low, high


def _slopes(law: ChiSquareStep, s: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds of |d ln(f dT/ds)/ds| and |d ln f/dT| dT/ds on the cells of the nodes s, (nodes,) each.

    f is the density of the statistic T = l ln(1 + e^s) with d degrees of freedom, noncentrality m and standard
    deviation l of `law`. `step` is the distance of the nodes. d ln f/dT = nu/T - 1/2 + (m/4) G'(m T/4), with nu = d/2 -
    1 and G = ln 0F1(; d/2; .). This slope falls with T for d >= 2, so that its values at both ends of a cell bound the
    slope inside. For d = 1 the term nu/T rises and is bounded separately.
    """
    nu = 0.5 * law.degrees - 1
    low, high = (law.deviation * np.logaddexp(0.0, s + side * 0.5 * step * (1 + 1e-9)) for side in (-1, 1))
    falling = max(nu, 0.0)
    at_low = falling / low - 0.5 + mean_slope(law, low)[1]
    at_high = falling / high - 0.5 + mean_slope(law, high)[0]
    speed = law.deviation / (1 + np.exp(-(s + 0.5 * step)))
    rising = max(-nu, 0.0) * speed / low
    slope = (np.maximum(np.abs(at_low), np.abs(at_high)) + 1e-15) * speed * (1 + 1e-9) + rising
    return (slope + 1 / (1 + np.exp(np.minimum(s - 0.5 * step, 700.0)))) * (1 + 1e-9), slope
