"""Laws with few values that bound the loss of short runs of sampled Gaussian steps.

Let P and Q be the laws of a run under H1 and H0, L = ln dP/dQ its loss, and D(x) = (P - x Q)_+ the mass of its positive
part, for x >= 0. D is convex. Cut the range of L into cells between bounds b_0 < b_1 < ..., and let P_c and Q_c be the
masses of a cell.

Lower law. Report the cell alone. This is a function of the outcome, so each test of the cell is a test of the run, and
the rates and powers of these tests are sums of masses. Masses of several cells may be added: this reports less.

Upper law. It has the values b_i, and the masses m_i >= 0 under Q and e^b_i m_i under P. Each cell gives the mass
(e^b' Q_c - P_c)/(e^b' - e^b) to its bound b, and (P_c - e^b Q_c)/(e^b' - e^b) to its bound b'. This keeps both masses
of the cell. So the function D' of the upper law has D'(e^b_i) = D(e^b_i), and is linear between these points. D is
convex, so D <= D' (Doroshenko et al. 2022, connect the dots). The equal law for swapped hypotheses is x D'(1/x) + 1 - x
>= x D(1/x) + 1 - x. Two changes only increase D' and the function of the swapped hypotheses. Masses are added, so that
total masses may exceed 1. Or a value is split: its H1 mass moves to the loss infinity, and its H0 mass to the smallest
value b_0, which is at most every loss of the run.

Composition. Let D_1 <= D_1' for all x. The composition with a second run has the function E_Q2 [l D_1(x/l)] + P2(l =
infinity) P1, with l the likelihood ratio of the second run. It is at most the same expression with D_1'. Exchange the
roles of both runs: the product of two upper laws bounds the composition of the runs (Zhu, Dong, Wang 2022, Theorem 10,
whose proof needs no total mass of 1). The product of two lower laws is a function of both outcomes.

A product has a mass for each pair of values. The pairs are collected in cells again. Values of the upper law are
integer multiples of a unit, so the sum of two values is in a cell exactly. All sums have positive terms.

Rounding. The upper law is defined by its values and its masses m_i as doubles; its masses under P follow from them. The
numbers P_c and Q_c of a cell with n pairs have the relative errors (n + 2 |L| + 32) u, with u = 2^-53. So the masses at
both bounds have an error of at most e^b' Q_c/(e^b' - e^b) (2 n + 4 |L| + 96) u, which is added to both. The masses of
a step have errors of few u in the normal distribution function and in the bounds, see `sampled_gaussian`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.composition.short_runs.reach import FARTHEST, MOST_UNITS
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

SMALLEST_MASS: Final = 1e-140
"""Smallest mass of a value, so that no product underflows."""
TRUNCATED: Final = 1e-34
"""H1 mass of the largest values, and H0 mass of the smallest ones, that are split."""
UNDERFLOW: Final = 1e-250
"""A number above all products that underflow."""
NEAR: Final = 9.0
"""Standard score up to which cells are equally fine."""
OUTSIDE: Final = 1e-32
"""Further mass of the largest and the smallest loss, above all masses beyond FARTHEST and absolute errors."""
UNITS_OF_SCALE: Final = 400
"""Number of units in the smaller one of the standard deviation of the loss of a step, and its sampling rate."""
BINS_OF_DEVIATION: Final = 100
"""Number of fine cells in a standard deviation."""
WIDEST_BIN: Final = 0.01
"""Largest width of a fine cell in nats."""
GROWTH: Final = 0.004
"""Width of a fine cell far from the mean, relative to the distance from the mean."""
CELLS: Final = 500
"""Number of cells by the rule of the least error of chords."""
TAIL_STEPS: Final = ((30.0, 0.1), (60.0, 0.6), (math.inf, 4.0))
"""Largest fall of ln of a tail mass within a cell, for masses down to e^-30, e^-60, and smaller ones."""
ROOM: Final = 1280
"""Number of values for which pairs are listed in advance."""
STEP_ERROR: Final = 1e-12
"""Relative error of the masses of a step, and of sums of them."""
BASE_ERRORS: Final = 96
"""Number of roundings in a mass of a cell, beside those of sums and of large losses."""


@final
@dataclass(frozen=True)
class LossValues:
    """Values of a loss with their masses under both hypotheses.

    Attributes
    ----------
    units : array of int, shape (n,)
        Losses in units, rising. Those of a `lower` law are rounded, and only serve to collect cells.
    p, q : array of shape (n,)
        Masses under H1 and under H0.
    infinite : float
        H1 mass of the loss infinity.
    """

    units: IndexArray
    p: FloatArray
    q: FloatArray
    infinite: float = 0.0

    @property
    def largest(self) -> int:
        """Largest absolute value of a loss, in units."""
        return int(max(-self.units[0], self.units[-1]))

    @property
    def total(self) -> float:
        """Total mass under H1, rounded up."""
        return (float(self.p.sum()) + self.infinite) * (1 + 1e-9)


@final
@dataclass(frozen=True)
class BoundingLaws:
    """Laws that bound the loss of a run: `upper` is no harder to attack than the run, and `lower` no easier.

    Attributes
    ----------
    unit : float
        Unit of losses in nats.
    upper, lower : LossValues
        The laws.
    error : float
        Relative error of the masses of `lower`, also of sums of them.
    """

    unit: float
    upper: LossValues
    lower: LossValues
    error: float

    def composed(self, other: BoundingLaws, finer: float = 1.0) -> BoundingLaws:
        """Return the laws of both runs together; `finer` is a factor of the number of cells."""
        u, v = self.upper, other.upper
        first, last = int(u.units[0] + v.units[0]), int(u.units[-1] + v.units[-1])
        low = int(u.units[1] + v.units[1])  # the smallest value has little mass, and may be far away
        (mean, deviation), (other_mean, other_deviation) = _moments(u), _moments(v)
        bounds = _fine(low, last, mean + other_mean, math.hypot(deviation, other_deviation), self.unit)
        table = np.append(0, np.repeat(np.arange(1, len(bounds), dtype=np.intp), np.diff(bounds)))
        bounds = np.append(first, bounds)
        p, q, pairs = _collected(u, v, table, low - 1, len(bounds) - 1)
        kept = _chosen(bounds, p, q, self.unit, finer)
        infinite = u.infinite * v.total + v.infinite * u.total + UNDERFLOW
        errors = 2.0 * pairs + (4 * self.unit * (u.largest + v.largest) + BASE_ERRORS)
        upper = _split(bounds, kept, (p, q, errors.astype(np.float64)), infinite, self.unit)
        p, q, pairs = _collected(self.lower, other.lower, table, low - 1, len(bounds) - 1)
        rounding = UNIT_ROUNDOFF * (float(pairs.max()) + 2 * len(bounds) + BASE_ERRORS)
        return BoundingLaws(self.unit, upper, _summed(kept, p, q, self.unit), self.error + other.error + rounding)


def sampled_gaussian(noise: float, rate: float) -> BoundingLaws:
    """Return the laws of one Poisson-sampled Gaussian step.

    Parameters
    ----------
    noise : float
        Noise multiplier from 0.3 to 2. The step has N(0, 1) under H0, and (1 - p) N(0, 1) + p N(mu, 1) under H1, with
        mu = 1/`noise`.
    rate : float
        Sampling rate p, from 1e-5 to 0.99.

    Returns
    -------
    BoundingLaws
        Laws of one step.

    Notes
    -----
    The loss L(z) = ln(1 - p + p e^(mu z - mu^2/2)) rises with z, so the cells are intervals of z.

    Rounding. D(x) = (1 - p - x) Q(z) + p R(z), with the tails Q and R of both normal laws beyond a score z. Relative
    errors e of the tails have the effect e (|1 - p - x| Q + p R), at most about 2 |z| e/mu times D(x). This is below
    4e-10 for |z| <= FARTHEST and e <= 1e-13, and so are the effects of rounded parameters. `SLACK` of `curves.py`
    covers these errors. The bound of a cell in z has a loss with an error of at most 96 u of e^L. The numbers 1 - p - x
    and P have errors of few u. BASE_ERRORS covers them for cells with mass. Other cells have a mass below OUTSIDE.
    """
    mu = 1 / noise
    points = (
        -np.geomspace(FARTHEST, NEAR, 8),
        np.linspace(-NEAR, NEAR + mu, 3000),
        np.geomspace(NEAR + mu, FARTHEST, 100),
    )
    z = np.unique(np.concatenate(points))
    losses = np.log1p(rate * np.expm1(mu * z - mu * mu / 2))
    masses: FloatArray = _between(np.append(-np.inf, z))
    mean = float((masses * losses).sum())
    deviation = math.sqrt(float((masses * (losses - mean) ** 2).sum()))
    least = math.log1p(-rate)
    scale = min(deviation, rate)
    unit = max(scale / UNITS_OF_SCALE, 2 * (float(losses[-1]) - least) / MOST_UNITS)
    smallest = -math.ceil(-least / unit)
    unit = least / smallest * (1 + 64 * UNIT_ROUNDOFF)  # the least loss is a multiple of the unit, rounded down
    inside = np.ceil(losses / unit)
    bounds = np.unique(np.append(inside[inside > smallest], smallest)).astype(np.intp)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.log((np.expm1(bounds[1:] * unit) + rate) / rate) / mu + mu / 2
    edges = np.maximum.accumulate(np.append(-np.inf, np.where(np.isnan(inner), -np.inf, inner)))
    top = float(edges[-1])
    p, q = (1 - rate) * _between(edges) + rate * _between(edges - mu), _between(edges)
    beyond = float((1 - rate) * special.ndtr(-top) + rate * special.ndtr(mu - top))
    kept = _chosen(bounds, p, q, unit, 1.0)
    errors = np.full(len(p), 4 * unit * float(max(-bounds[0], bounds[-1])) + BASE_ERRORS)
    upper = _split(bounds, kept, (p, q, errors), beyond + OUTSIDE, unit)
    q[-1] += special.ndtr(-top)
    p[-1] += beyond
    return BoundingLaws(unit, upper, _summed(kept, p, q, unit), STEP_ERROR)


def _between(edges: FloatArray) -> FloatArray:
    """Return the masses of N(0, 1) between successive `edges`, without cancellation."""
    low, high = edges[:-1], edges[1:]
    right = low > 0
    return np.where(right, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))


def _moments(law: LossValues) -> tuple[float, float]:
    """Return the mean and the standard deviation of the losses of a law under H0, in units."""
    total = float(law.q.sum())
    mean = float((law.q * law.units).sum()) / total
    return mean, math.sqrt(max(float((law.q * (law.units - mean) ** 2).sum()) / total, 0.0))


def _fine(first: int, last: int, mean: float, deviation: float, unit: float) -> IndexArray:
    """Return the bounds of fine cells from the loss `first` to beyond the loss `last`, in units, rising.

    `mean` and `deviation` are those of the loss, in units, and `unit` is the unit in nats.
    """
    least = max(deviation / BINS_OF_DEVIATION, 1.0)
    widest = max(WIDEST_BIN / unit, least)
    sides: list[FloatArray] = []
    for reach in (mean - first, last - mean):
        near = least / GROWTH
        points = [np.arange(0.0, min(near, reach) + least, least)]
        far = min(widest / GROWTH, reach)
        if far > near:
            points.append(near * np.exp(GROWTH * np.arange(1.0, math.log(far / near) / GROWTH + 2)))
        if reach > far:
            points.append(np.arange(max(far, near), reach + widest, widest))
        sides.append(np.concatenate(points))
    bounds = np.unique(np.rint(np.concatenate((mean - sides[0], mean + sides[1])))).astype(np.intp)
    bounds = bounds[(bounds > first) & (bounds < last + 1)]
    return np.concatenate(([first], bounds, [last + 1]))


def _collected(
    u: LossValues, v: LossValues, table: IndexArray, first: int, cells: int
) -> tuple[FloatArray, FloatArray, IndexArray]:
    """Return the masses (P, Q) of the products of both laws in each of the fine `cells`, and the number of pairs.

    `table` has the fine cell of each sum of losses, in units from `first` on. Smaller sums are in the first cell.
    """
    size = len(u.units)
    if u is v:
        rows, columns, factors = _pairs(_room(size))
        count = size * (size + 1) // 2
        row, column, factor = rows[:count], columns[:count], factors[:count]
        at: IndexArray = u.units[row] + u.units[column]
        p: FloatArray = u.p[row] * u.p[column] * factor
        q: FloatArray = u.q[row] * u.q[column] * factor
    else:
        at = np.add.outer(u.units, v.units).ravel()
        p, q = np.multiply.outer(u.p, v.p).ravel(), np.multiply.outer(u.q, v.q).ravel()
    cell = table[np.clip(at - first, 0, len(table) - 1)]
    sums = (np.bincount(cell, p, cells).astype(np.float64), np.bincount(cell, q, cells).astype(np.float64))
    return *sums, np.bincount(cell, minlength=cells)


def _room(size: int) -> int:
    """Return a number of values, at least `size`, for which pairs are listed: mostly the same number."""
    return max(-(-size // 256) * 256, ROOM)


@lru_cache(maxsize=1)
def _pairs(size: int) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return the indices i <= j of pairs of `size` values, in the order of j, and how often each pair counts."""
    found = np.tril_indices(size)
    row, column = found[0].astype(np.intp), found[1].astype(np.intp)
    return row, column, np.where(row == column, 1.0, 2.0)


def _chosen(bounds: IndexArray, p: FloatArray, q: FloatArray, unit: float, finer: float) -> IndexArray:
    """Return the indices of the bounds of cells to keep, from the masses (`p`, `q`) of fine cells.

    The error of chords of a convex function is least if the density of bounds is the cube root of the density of mass.
    In the tails each cell has a limited share of the mass beyond. `finer` is a factor of the number of cells.
    """
    density = np.cbrt((p + q) * (np.diff(bounds) * unit) ** 2)
    weight = density * (CELLS / density.sum())
    for tail in (np.cumsum(p[::-1])[::-1], np.cumsum(q)):
        logs = -np.log(np.maximum(tail, 1e-320))
        fall, depth = np.abs(np.diff(logs)), np.minimum(logs[:-1], logs[1:])
        step = np.select([depth <= limit for limit, _ in TAIL_STEPS], [step for _, step in TAIL_STEPS])
        weight[:-1] = np.maximum(weight[:-1], fall / step)
    kept = np.flatnonzero(np.diff(np.floor(np.cumsum(weight * finer))) > 0) + 1
    return np.unique(np.concatenate(([0], kept, [len(weight)])))


def _split(
    bounds: IndexArray,
    kept: IndexArray,
    fine: tuple[FloatArray, FloatArray, FloatArray],
    infinite: float,
    unit: float,
) -> LossValues:
    """Return the upper law: the masses of each cell between kept bounds, moved to both bounds and rounded up.

    `fine` are the masses (P, Q) of fine cells, and their errors relative to the masses, in units of 2^-53. `infinite`
    is the H1 mass of the loss infinity. Values with small masses are split between this loss and the smallest value.
    """
    p, q, errors = (np.add.reduceat(each, kept[:-1]) for each in fine)
    bounds = bounds[kept]
    ratio = np.exp(bounds * unit)
    low, gap = ratio[:-1], ratio[:-1] * np.expm1(np.diff(bounds) * unit)
    high = low + gap
    rounding = UNIT_ROUNDOFF * errors * high / gap * q
    mass = np.zeros(len(bounds))
    mass[:-1] += np.maximum((high * q - p) / gap, 0.0) + rounding
    mass[1:] += np.maximum((p - low * q) / gap, 0.0) + rounding
    some = (mass >= SMALLEST_MASS) & (np.cumsum((ratio * mass)[::-1])[::-1] > TRUNCATED) & (np.cumsum(mass) > TRUNCATED)
    dropped, lost = (float(each[~some].sum()) * (1 + 1e-9) for each in (mass, ratio * mass))
    mass[0] = (mass[0] if some[0] else 0.0) + dropped + OUTSIDE
    some[0] = True
    return LossValues(bounds[some], (ratio * mass)[some], mass[some], infinite + lost)


def _summed(kept: IndexArray, p: FloatArray, q: FloatArray, unit: float) -> LossValues:
    """Return the lower law: the masses (P, Q) of the fine cells between kept bounds, added.

    Cells with masses that are too small for products are added to the last of the others.
    """
    p, q = np.add.reduceat(p, kept[:-1]), np.add.reduceat(q, kept[:-1])
    some = (q >= SMALLEST_MASS) & (p >= SMALLEST_MASS)
    rest = p[~some].sum(), q[~some].sum()
    p, q = p[some], q[some]
    p[-1] += rest[0]
    q[-1] += rest[1]
    losses = np.log(p) - np.log(q)
    order = np.argsort(losses, kind="stable")
    return LossValues(np.rint(losses[order] / unit).astype(np.intp), p[order], q[order])
