"""Bounds of the integrand off the real axis, for sampled steps with a chi-square statistic.

T = l ln(1 + e^s) is the statistic, with d degrees of freedom, noncentrality m and standard deviation l. w = 1 - p + p
e^v is the likelihood ratio, and -B is the slope of v in T. At s - iq, 0 <= q <= a, write T = tau - ic. With E = e^s, S
= E/(1 + E), X = 4 S (1 - S) sin^2(q/2):

    tau = T(s) + (l/2) ln(1 - X) > 0,     c = l arg(1 + E e^{iq}),     |dT/ds| = l S/sqrt(1 - X).

These formulas hold for q <= pi/2, or for any q where s >= `LINEAR`. There arg(1 + E e^{iq}) <= k q, k = max(E/(1 + E),
E^2/(1 + E^2)) or E/(E - 1), because the derivative in q is Re(1/(1 + e^{-s-iq})). The density is C T^{d/2-1} e^{-T/2}
0F1(; d/2; m T/4). |0F1(; d/2; m T/4)| <= 0F1(; d/2; m (Re sqrt T)^2/4), because 0F1 is the mean of e^{sqrt(m T) U} over
the first coordinate U of a random direction. (Re sqrt T)^2 = (|T| + tau)/2, G = ln 0F1 is concave with slope G', and
|T| - tau <= c^2/(2 tau). So |density dT/ds| grows from the real axis by at most e^{Q q^2}, with tau at q = a:

    Q = (d/2 - 1)_+ l^2 k^2/(2 tau^2) + m G' l^2 k^2/(16 tau) + D (1/2 + 1/l + [d = 1]/(2 tau));
    D = (l/2) S (1 - S)/(1 - X(a)),      T(s) - tau <= D q^2.

Q is about 1/2 where T is nearly normal. The likelihood ratio turns as that of a sampled Gaussian does, by phi = B c:

    w(T) = w(tau) (1 - r + r e^{i phi}),    r = p e^{v(tau)}/w(tau),
    w(tau) = w(T(s)) (1 + r(s) (e^{B (T(s) - tau)} - 1)).

Hence 0 <= arg w <= phi, |w| <= w(tau) and |w| >= w(tau) max(cos(phi/2), 1 - 2 r sin^2(phi/2)) while phi < pi. G'(z) = 2
rho/sqrt(m T) at z = m T/4. Here rho is the ratio I_{nu+1}/I_nu of Bessel functions at y = sqrt(m T), and nu = d/2 - 1.
It is between y/(nu + 1/2 + sqrt(y^2 + (nu + 3/2)^2)) and y/(nu + 1/2 + sqrt(y^2 + (nu + 1/2)^2)) (Amos 1974; Segura
2011, for nu >= -1/2), and rho/y falls in y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.sampled_chi_square_grid import ChiSquareGrid, mean_slope
from service.privacy.numerics.arrays import FloatArray

_MOST = 1 + 1e-9
"""Factor above the rounding of bounds over cells."""


@dataclass(frozen=True)
class ChiSquareStrip:
    """Bounds on the strip between the real axis and the path s - ia; arrays of shape (nodes,).

    s is the node variable. The statistic is T = l ln(1 + e^s), and l is its standard deviation. w is the likelihood
    ratio of a step at T, and tau the real part of T. Unless stated otherwise, a bound holds over the cells, half a node
    distance around each node, and for all points s - iq with 0 <= q <= a. `valid` is whether the bounds hold: w turns
    by less than pi.
    """

    a: float
    log_modulus: FloatArray
    """ln |w| on the path minus its value on the real axis, at the nodes."""
    argument: FloatArray
    """arg w on the path, at the nodes."""
    density_growth: FloatArray
    """Bound Q: the density of T under H0, times dT/ds, is at most e^{Q q^2} times its value on the real axis."""
    near: FloatArray
    """Upper bound of |d ln w/ds|."""
    log_least: FloatArray
    """Lower bound of ln |w| - ln w(tau), where w(tau) is at least its value on the real axis."""
    log_raise: FloatArray
    """Upper bound of ln |w| minus its value on the real axis."""
    valid: bool


def strip_at(grid: ChiSquareGrid, a: float) -> ChiSquareStrip:
    """Return bounds of the integrand of any tilt on the path s - ia and between this path and the real axis.

    The grid has the nodes s of the statistic T = l ln(1 + e^s), with its standard deviation l, and a is a height.
    """
    s = grid.points
    return ChiSquareStrip(a, *_on_path(grid, s, a), *_over_cells(grid, s, a))


def _on_path(grid: ChiSquareGrid, s: FloatArray, a: float) -> tuple[FloatArray, FloatArray]:
    """Return ln |w(s - ia)| - ln w(s) and arg w(s - ia) at the nodes s of `grid`, shape (nodes,) each.

    a is the distance from the real axis, and w the likelihood ratio.
    """
    law = grid.law
    turned = 4 * _both(s) * math.sin(0.5 * a) ** 2
    raised = np.minimum(-0.5 * law.spread * np.log1p(-turned), 700.0)  # B (T - tau)
    angle = (
        np.arctan2(math.sin(a), np.exp(-s) + math.cos(a))
        if grid.is_bent
        else a - np.arctan2(np.exp(-s) * math.sin(a), 1 + np.exp(-s) * math.cos(a))
    )
    phi = law.spread * angle
    grown, log_grown = _raised(grid.responsibility[0], raised)
    half = np.sin(0.5 * phi) ** 2
    log_modulus = log_grown + 0.5 * np.log1p(-4 * grown * (1 - grown) * half)
    argument = np.arctan2(grown * np.sin(phi), 1 - 2 * grown * half)
    return log_modulus, argument


def _over_cells(
    grid: ChiSquareGrid, s: FloatArray, a: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, bool]:
    """Return the fields `density_growth`, `near`, `log_least`, `log_raise` and `valid` of `ChiSquareStrip`.

    These bounds hold for every path s - iq with 0 <= q <= a, within half a node distance of each node s of `grid`.
    """
    law, h, bent = grid.law, grid.spacing, grid.is_bent
    square = math.sin(0.5 * min(a, math.pi)) ** 2
    low, high = s - 0.5 * h * (1 + 1e-9), s + 0.5 * h * (1 + 1e-9)
    product = np.where((low < 0) & (high > 0), 0.25, np.maximum(_both(low), _both(high)))
    rest = 1 - np.minimum(4 * product * square, 1 - 1e-9)
    upper = np.exp(np.minimum(high, 340.0))
    small = np.exp(-np.maximum(low, 0.0))
    speed = upper / np.hypot(1.0, upper) if bent else 1 / (1 - small)
    turn = np.where(upper < 1, upper / (1 + upper), speed**2) if bent else speed
    tau = law.deviation * (np.logaddexp(0.0, low) + 0.5 * np.log(rest))
    tau = np.maximum(tau, law.deviation * 0.5 * np.log1p(np.exp(low) * (np.exp(low) + 2 * math.cos(a))) if bent else 0)
    statistic = law.deviation * np.logaddexp(0.0, low)
    lost = 0.5 * law.deviation * product / rest
    square_rate = (law.deviation * turn / tau) ** 2
    grows = max(0.5 * law.degrees - 1, 0.0) * square_rate / 2
    grows = grows + lost * (0.5 + 1 / law.deviation + (0.5 / tau if law.degrees == 1 else 0.0))
    grows = grows + mean_slope(law, statistic)[1] * square_rate * tau / 4
    near_r = np.minimum(1.0, grid.responsibility[0] * np.exp(0.5 * h * law.spread * speed))
    raised_most = np.minimum(law.spread * 2 * product * square / rest, 700.0)
    near_grown, log_raise = _raised(near_r, raised_most)
    widest = np.minimum(law.spread * a * turn * _MOST, math.pi)
    cosine = np.cos(0.5 * widest)
    near = near_grown * law.spread * speed * _MOST**2 / np.maximum(cosine, 1e-9)
    least = np.log(np.maximum(np.maximum(1 - 2 * near_grown * np.sin(0.5 * widest) ** 2, cosine), 1e-12))
    valid = bool((widest[: grid.kept] < 0.99 * math.pi).all())
    return grows * _MOST, near, least, log_raise, valid


def _both(s: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(s))
    return small / (1 + small) ** 2


def _raised(r: FloatArray, raised: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `(r', gain)`: the responsibility where the exponent v is larger by `raised`, and the increase of ln w.

    w = 1 - p + p e^v is the likelihood ratio with the sampling rate p, and r = p e^v/w the responsibility. All arrays
    have one shape.
    """
    with np.errstate(over="ignore"):
        gain = r * np.expm1(raised)
        grown = np.where(np.isfinite(gain), (r + gain) / (1 + gain), 1.0)
    return np.minimum(grown, 1.0), np.minimum(np.log1p(gain), raised)
