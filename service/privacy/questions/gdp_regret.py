"""How much the Gaussian curve that summarises a mechanism gives away: its regret."""

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
"""Equal parts of the rates that the curve is read at first, and parts that those next to the largest gap get."""
ROUNDING: Final = 1e-12
"""Outward, beside which the rounding of quantiles, tails and 60 halvings is nothing (each below 1e-15)."""


def regret(curve: AbstractTradeOff, mu: float) -> Enclosure:
    """How far the Gaussian curve g_mu lies below a curve f, along lines of slope 1 of the (alpha, beta) square:

        inf{k >= 0 : f(alpha + k) - k <= g_mu(alpha) for all alpha} = max(0, sup_t x_f(t) - x_g(t)),

    where h(x_h(t)) - x_h(t) = t for h = f, g_mu, t in [-1, 1]. In [0, 1], without a unit: both error rates of an attack
    on f have to be raised by no more than this to reach what g_mu allows, so that 0.001 means that mu says about all.
    What lies below g_mu (outside the range over which mu was found) counts as 0. The same for a curve and its inverse.

    The lower end is the largest gap at the rates that were read. Between two of them x_f lies below its chord and x_g
    above its tangents, since the inverse of a convex decreasing function is one: the upper end is the largest gap
    between chord and tangent. Width about 1e-4 (tested against the gap on fine grids, of runs, Laplace and mixtures).
    Raises NumericalFailure where the curve does.
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
    """The gap at every rate, from below, and the largest gap of every cell between two, from above."""
    least, most = read.lower - rates, read.upper - rates
    lower = rates - _on_gaussian(least, mu)
    # Both ends of a cell, by the tangent in its middle: the chord minus the tangent is linear.
    middle = (most[:-1] + most[1:]) / 2
    touched = _on_gaussian(middle, mu)
    slope = 1 / (-np.exp(-mu * mu / 2 - mu * special.ndtri(np.clip(touched, 1e-300, None))) - 1)
    ends = [rates[part] - touched - slope * (most[part] - middle) for part in (slice(None, -1), slice(1, None))]
    return lower, np.maximum(*ends)


def _on_gaussian(t: FloatArray, mu: float) -> FloatArray:
    """The alpha in [0, 1] with g_mu(alpha) - alpha = t, where g_mu(alpha) = Phi(-Phi^-1(alpha) - mu), by halving."""
    low, high = many_bisected(
        lambda alpha: ~(special.ndtr(-special.ndtri(alpha) - mu) - alpha > t), np.zeros_like(t), np.ones_like(t), 60
    )
    return (low + high) / 2
