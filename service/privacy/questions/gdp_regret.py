"""Regret of the curve of mu-GDP that summarises a mechanism: its largest distance below the mechanism's curve."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import many_bisected
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE: Final = (
    "Kaissis, Kolek, Balle, Hayes, Rueckert 2024, Delta-divergence; as the regret of mu: Gomez et al. 2025, Section 4"
)
CELLS: Final = 24
"""Equal cells of the first grid of rates, and cells that refine the grid around the largest gap."""
ROUNDING: Final = 1e-12
"""Outward slack. It exceeds the rounding of quantiles, tails and 60 halvings, each below 1e-15."""


def regret(curve: AbstractTradeOff, mu: float) -> Enclosure:
    """Enclose the distance of a Gaussian curve below a curve, along lines of slope 1 of the (alpha, beta) square.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve f.
    mu : float
        Parameter of the Gaussian curve, >= 0.

    Returns
    -------
    Enclosure
        The regret, in [0, 1] without a unit. It is equal for a curve and its inverse.

    Raises
    ------
    NumericalFailure
        If the curve raises this error.

    Notes
    -----
    The regret is

        inf{k >= 0 : f(alpha + k) - k <= g_mu(alpha) for all alpha} = max(0, sup_t x_f(t) - x_g(t)),

    where h(x_h(t)) - x_h(t) = t for h = f, g_mu and t in [-1, 1]. Raising both error rates of an attack on f by the
    regret is enough to reach what g_mu allows. So with a regret of 0.001, mu describes the curve almost completely. A
    part of f below g_mu (outside the range over which mu was computed) counts as 0.

    The lower bound is the largest gap at the evaluated rates. The inverse of a convex decreasing function is convex and
    decreasing. Therefore x_f lies below its chord between two rates, and x_g lies above its tangents. The upper bound
    is the largest gap between chord and tangent. The width is about 1e-4, tested against the gap on fine grids for
    runs, Laplace noise and mixtures.
    """
    rates = np.linspace(0.0, 1.0, CELLS + 1)
    read = curve.points(rates).type_two_error
    for _ in range(2):
        lower, upper = _gaps(rates, read, mu)
        widest = int(upper.argmax())
        if upper[widest] - lower.max() < ROUNDING:
            break
        around = rates[max(widest - 1, 0) : widest + 3]
        new = np.setdiff1d(np.linspace(float(around[0]), float(around[-1]), CELLS + 1), rates)
        more = curve.points(new).type_two_error
        order = np.argsort(np.concatenate((rates, new)))
        rates = np.concatenate((rates, new))[order]
        read = EnclosureArray(
            np.concatenate((read.lower, more.lower))[order], np.concatenate((read.upper, more.upper))[order]
        )
    lower, upper = _gaps(rates, read, mu)
    low = max(float(lower.max()) - ROUNDING, 0.0)
    return Enclosure(low, min(max(float(upper.max()) + ROUNDING, low), 1.0), curve.evidence)


def _gaps(rates: FloatArray, read: EnclosureArray, mu: float) -> tuple[FloatArray, FloatArray]:
    """Return a lower bound of the regret at every rate, and an upper bound between each two rates.

    `read` are type II errors of the evaluated curve at the rates. The regret is the distance of the curve of mu-GDP
    below the evaluated curve, along lines of slope 1.
    """
    least, most = read.lower - rates, read.upper - rates
    lower = rates - _on_gaussian(least, mu)
    # The chord minus the tangent in the middle of a cell is linear, so that both endpoints suffice.
    middle = (most[:-1] + most[1:]) / 2
    touched = _on_gaussian(middle, mu)
    slope = 1 / (-np.exp(-mu * mu / 2 - mu * special.ndtri(np.clip(touched, 1e-300, None))) - 1)
    ends = [rates[part] - touched - slope * (most[part] - middle) for part in (slice(None, -1), slice(1, None))]
    return lower, np.maximum(*ends)


def _on_gaussian(t: FloatArray, mu: float) -> FloatArray:
    """Return the rates a in [0, 1] with g(a) - a = t, in the shape of t, by halving of intervals.

    g(a) = Phi(-Phi^-1(a) - mu) is the trade-off curve of mu-GDP.
    """
    low, high = many_bisected(
        lambda alpha: ~(special.ndtr(-special.ndtri(alpha) - mu) - alpha > t), np.zeros_like(t), np.ones_like(t), 60
    )
    return (low + high) / 2
