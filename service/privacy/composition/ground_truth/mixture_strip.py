"""Strip above the real axis where the density ratio of a mixture of shifted Gaussians is analytic, in ball arithmetic.

Let a(x) = sum w_i e^{d_i x - d_i^2/2}, where d_i >= 0 are the shifts in units of the noise. Consider the law of d that
is proportional to the terms of a at x, with mean m, variance V and an independent copy d'. Under this law A(x, q) =
a(x + iq)/a(x) = E e^{iqd}. With C = E (d + d')(d - d')^2:

    |A| <= 1;    |A| >= Re e^{-iqm} A = E cos(q(d - m)) >= 1 - q^2 V/2;
    |A|^2 d arg A/dq = E (d + d') cos(q(d - d'))/2 >= m - q^2 C/4.

Take the largest V and the smallest 4 m/C =: H^2 over all real x. For 0 <= q < H and q^2 V < 2, a has no zero. arg A
rises with q, from 0 at least as fast as m (1 - q^2/H^2), and is within pi/2 of q m. Cells cover all x. For |e| <= h/2
and g >= 0 (Jensen):

    E_{x+e} g = E_x g e^{(d - m) e}/E_x e^{(d - m) e} <= E_x g e^{(d - m) e}.

The right side is convex in e, and so at most the larger of its values at the endpoints of the cell. The same holds for
pairs (d, d') with e^{(d + d' - 2m) e}; m rises with x.

Below the first cell d - d_0, and (d - d_0)^3 relative to it, fall (monotone likelihood ratios). So V <= E (d - d_0)^2
and C <= 4 d_0 E (d - d_0)^2 + 2 E (d - d_0)^3. For d_0 = 0, C/m is at most 2 E (d - d_0)^3/E (d - d_0). Beyond the last
cell let D be the largest shift. There V <= E (D - d)^2 and C <= 2 E (d^2 - D^2)(d - D) <= 4 D E (D - d)^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar, final

import numpy as np
from flint import acb, acb_mat, arb, arb_mat, ctx
from typing_extensions import override

from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.nodes import out_of_reach
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.balls import GUARD_BITS, doubles, log_doubles
from service.privacy.numerics.roots import bisected

STRIP_BITS: Final = 2 * GUARD_BITS
MOST_CELLS: Final = 20_000
CELL: Final = 0.2
"""Width of a cell over the reciprocal of the largest deviation of d. Wider cells give weaker bounds."""
NEARLY: Final = 0.1
"""Variance at the last cell, as a share of the square of the gap to the next shift."""


Number = TypeVar("Number", arb, acb)


class AnalyticStrip:
    """Strip 0 <= Im y < `height` in which the density ratio a of a mixture has no zero and arg A >= 0.

    A(x, q) = a(x + iq)/a(x) at real x. Given x, the shift has the law with weights proportional to the terms of a(x),
    with mean m and variance V. This class serves any shifts, from exact bounds of moments of the shift given x. The
    module docstring proves them.

    Attributes
    ----------
    height : arb
        At most the height H up to which arg A(x, q) rises with q at every x, and stays away from zeros of a.
    variance : arb
        Upper bound of V.
    widest : arb
        Largest q with arg A(x, q + e) >= arg A(x, q - e) for all e >= 0 with q + e < `height`.
    """

    def __init__(self, height: arb, variance: arb, widest: arb | None = None) -> None:
        self.height, self.variance, self.widest = height, variance, widest or height

    def least_modulus(self, q: arb) -> arb:
        """Return a lower bound of |A(x, q)| = |a(x + iq)/a(x)| for all real x.

        a is the density of H1 at x over the normal density.
        """
        return 1 - q * q * self.variance / 2

    def least_turn(self, q: arb) -> arb:
        """Return a lower bound of arg A(x, q)/m(x) for all real x, with A(x, q) = a(x + iq)/a(x).

        a is the density of H1 at x over the normal density, and m the slope of ln a.
        """
        return q * (1 - (q / self.height) ** 2 / 3)

    def least_in_doubles(self, q: FloatArray) -> FloatArray:
        """Return an approximation of `least_modulus` at the heights q in doubles, in the shape of q.

        No proof relies on it.
        """
        return 1 - 0.5 * q**2 * float(self.variance)


@final
class PairStrip(AnalyticStrip):
    """Strip 0 <= Im y < height in which the density ratio a(y) of a mixture of two shifts has no zero.

    The shifts are 0 and d, in units of the noise. Write y = x + iq with the outcome x and the height q, and let e be a
    change of the height. A = a(x + iq)/a(x) = 1 - r + r e^{iqd} with the share r of the shift d given x, so that the
    mean shift is m = r d. Then:

        |A|^2 = 1 - 4 r (1 - r) sin^2(qd/2) >= cos^2(qd/2);    arg A >= sin arg A >= Im A = r sin(qd).

    arg A is in [0, pi) for 0 <= qd < pi. Let q d <= pi/2 and e d < pi. If q - e <= 0, then arg A(q - e) <= 0. Otherwise
    the sine of arg A(q + e) - arg A(q - e) has the sign of (1 - r) cos(qd) + r cos(ed) >= 0.
    """

    def __init__(self, distance: arb) -> None:
        self._distance, turn = distance, arb.pi() / distance
        super().__init__(turn.lower(), (distance * distance / 4).upper(), (turn / 2).lower())

    @override
    def least_modulus(self, q: arb) -> arb:
        return (q * self._distance / 2).cos()

    @override
    def least_turn(self, q: arb) -> arb:
        return (q * self._distance).sin() / self._distance

    @override
    def least_in_doubles(self, q: FloatArray) -> FloatArray:
        return np.cos(np.minimum(0.5 * q * float(self._distance), 1.57))


@lru_cache(maxsize=64)
def strip_of(mixture: ExactMixture) -> AnalyticStrip:
    """Return the strip of a mixture in which its density ratio has no zero.

    The strip is the set 0 <= Im y < height, in which error bounds of sums over nodes hold. Raises
    UnsupportedCombination if the shifts are too far apart.
    """
    if len(mixture.shifts) == 2 and mixture.shifts[0] == 0:
        with ctx.workprec(STRIP_BITS):
            return PairStrip(mixture.distances()[1])
    logs, distances = in_doubles(mixture)
    low, high = _ends(logs, distances)
    spread = float(np.sqrt(_variances(logs, distances, np.linspace(low, high, 2_000)).max()))
    cells = math.ceil((high - low) * max(spread, 1e-3 * float(distances[-1])) / CELL) + 1
    if cells > MOST_CELLS or len(logs) * cells > 50 * MOST_CELLS:
        raise out_of_reach("the shifts of a mixture are too far apart.")
    with ctx.workprec(STRIP_BITS):
        half = arb((high - low) / cells / 2)
        d = mixture.distances()
        terms = [w * (-x * x / 2).exp() for w, x in zip(mixture.weights(), d, strict=True)]
        sums = power_sums(terms, d, arb(low), half, 2 * cells + 1, 4)
        variance, least = _extremes(sums, d, half)
        # 1 - q^2 V/2 stays above 1/20.
        height = least.sqrt().min((arb(1.9) / variance).sqrt()).lower()
        return AnalyticStrip(height, variance.upper())


def _extremes(sums: list[list[arb]], d: list[arb], half: arb) -> tuple[arb, arb]:
    """Return the largest V and the smallest 4 m/C over all x, as bounds in balls.

    Given x, the shift d has the mean m and the variance V, and C = E (d + d')(d - d')^2 for an independent copy d'.
    `sums` has sum w_i e^{v_i} d_i^k, v_i = d_i x - d_i^2/2, at the ends (even indices) and middles (odd) of cells of
    half-width `half`, for k = 0..3.
    """
    zeroth, first, *_ = sums
    smallest, largest = d[0], d[-1]
    zero = smallest.is_zero()
    variance, ratio = arb(0), arb.pos_inf()
    for at in range(1, len(zeroth) - 1, 2):
        mean = first[at] / zeroth[at]
        bent = arb(0)
        for side in (-1, 1):
            p0, p1, p2, p3 = (each[at + side] for each in sums)
            scale = (-side * mean * half).exp() / zeroth[at]
            variance = variance.max(((p2 - 2 * mean * p1 + mean * mean * p0) * scale).upper())
            bent = bent.max((2 * (p3 * p0 - p2 * p1) * scale * scale).upper())
        ratio = ratio.min((4 * first[at - 1] / zeroth[at - 1] / bent).lower())
    p0, p1, p2, p3 = (each[0] for each in sums)
    near = p2 - 2 * smallest * p1 + smallest**2 * p0
    cube = p3 - 3 * smallest * p2 + 3 * smallest**2 * p1 - smallest**3 * p0
    below = 2 * p3 / p1 if zero else (4 * smallest * near + 2 * cube) / p0 / smallest
    p0, p1, p2, p3 = (each[-1] for each in sums)
    far = (p2 - 2 * largest * p1 + largest**2 * p0) / p0
    variance = variance.max((near / sums[0][0]).upper()).max(far.upper())
    return variance, ratio.min((4 / below).lower()).min((p1 / p0 / (largest * far)).lower())


def in_doubles(mixture: ExactMixture) -> tuple[FloatArray, FloatArray]:
    """Return approximations of ln w_i and d_i in doubles: weights and shifts (in units of the noise) of a mixture.

    Both arrays have the shape (shifts,).
    """
    with ctx.workprec(GUARD_BITS):
        logs = [log_doubles(weight)[1] for weight in mixture.weights()]
        return np.array(logs), np.array([doubles(d)[1] for d in mixture.distances()])


def _ends(logs: FloatArray, distances: FloatArray) -> tuple[float, float]:
    """Return approximate x beyond which all shifts but the smallest, and all but the largest, are negligible.

    `logs` are ln of the weights and `distances` the shifts in units of the noise.
    """

    def low(x: float) -> bool:
        gap = distances[1:] - distances[0]
        exponent = logs + distances * x - 0.5 * distances**2
        rest = np.logaddexp.reduce(exponent[1:] + 2 * np.log(gap)) - exponent[0]
        cubes = np.logaddexp.reduce(exponent[1:] + 3 * np.log(gap)) - exponent[1]
        return bool(rest < math.log(NEARLY * gap[0] ** 2) and cubes < math.log(1 + NEARLY) + 3 * math.log(gap[0]))

    def high(x: float) -> bool:
        gap = distances[-1] - distances[:-1]
        exponent = logs + distances * x - 0.5 * distances**2
        rest = np.logaddexp.reduce(exponent[:-1] + 2 * np.log(gap)) - exponent[-1]
        return bool(rest < math.log(NEARLY * gap[-1] ** 2))

    return _turn(low, -1.0), _turn(high, 1.0)


def _turn(holds: Callable[[float], bool], side: float) -> float:
    """Return about the x beyond which the condition `holds` is true, towards +inf (`side` 1) or -inf (-1).

    Raises UnsupportedCombination if there is no such x up to 1e18.
    """
    near, far = -side, side
    while holds(near):
        near, far = 4 * near, near
    while not holds(far):
        near, far = far, 4 * far
        if abs(far) > 1e18:
            raise out_of_reach("the shifts of a mixture are too close to each other.")
    return bisected(holds, near, far, 60)[1]


def _variances(logs: FloatArray, distances: FloatArray, x: FloatArray) -> FloatArray:
    """Return the variance of the shift given x at each position x, in the shape of x.

    The shift d has the weight e^{log + d x - d^2/2} given x, with `logs` and `distances` the lists of log and d.
    """
    exponent = logs + distances * x[:, None] - 0.5 * distances**2
    share = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    mean = share @ distances
    return share @ distances**2 - mean**2


def power_sums(
    terms: list[arb], d: list[arb], start: Number, step: arb, count: int, degrees: int = 1
) -> list[list[Number]]:
    """Return sum_i t_i d_i^k e^{d_i x} at x = start + j step, j < count, as a list for each k < degrees.

    `terms` has the t_i, and `d` the shifts d_i.
    """
    weights = [term * (distance * start).exp() for term, distance in zip(terms, d, strict=True)]
    listed = [weights]
    for _ in range(degrees - 1):
        listed.append([weight * distance for weight, distance in zip(listed[-1], d, strict=True)])
    return geometric_sums(listed, [(distance * step).exp() for distance in d], count)


def geometric_sums(weights: list[list[Number]], bases: list[Any], count: int) -> list[list[Number]]:
    """Return sum_i w_i b_i^j, j < count, for each list of weights w.

    The b_i are `bases`. With j = a columns + b the sums are one matrix product of w_i b_i^{a columns} and b_i^b.
    """
    rows = max(1, math.isqrt(count))
    columns = -(-count // rows)
    matrix: type[Any] = acb_mat if isinstance(weights[0][0], acb) else arb_mat
    low: list[Any] = []
    high: list[list[Any]] = []
    for base in bases:
        found = powers(base, columns + 1)
        low += found[:-1]
        high.append(powers(found[-1], rows))
    table = matrix(len(bases), columns, low)
    products = [
        matrix(len(bases), rows, [w * power for w, each in zip(one, high, strict=True) for power in each]).transpose()
        * table
        for one in weights
    ]
    return [[product[a, b] for a in range(rows) for b in range(columns)][:count] for product in products]


def powers(base: Number, length: int) -> list[Number]:
    """Return base^0, ..., base^{length - 1}, each a product of two halves; repeated products would widen the boxes."""
    found = [type(base)(1), base]
    for k in range(2, length):
        found.append(found[k // 2] * found[k - k // 2])
    return found[:length]
