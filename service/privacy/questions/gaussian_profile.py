"""Privacy profile of the Gaussian curve, solved for mu."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

PRECISION: Final = 160
"""Bits of the proof of an inner point."""
NEWTON_STEPS: Final = 40
CONVERGED: Final = 1e-8
"""Step of ln mu after which Newton's method has converged: its error is about the square."""
MARGIN: Final = 4e-14
"""Relative distance below an approximate mu at which a proof is tried first."""
MOST_PROOFS: Final = 6


def gaussian_mu(c: FloatArray, log_delta: FloatArray) -> FloatArray:
    """Return about the mu at which the profile of the Gaussian curve is delta, for each log slope c.

    `c` >= 0 (nats) and `log_delta` have the shape (n,), and so has the result; it is 0 where delta is 0. The
    relative error is about 1e-12.
    """
    # ln delta is concave and rises in ln mu, so that Newton's method converges from every start.
    mu = np.full_like(c, 1e-3) + c / 4
    with np.errstate(all="ignore"):
        for _ in range(NEWTON_STEPS):
            value, slope = _log_gaussian_delta(mu, c)
            step = (log_delta - value) / slope
            mu = mu * np.exp(np.clip(step, -2.0, 2.0))
            if not (np.abs(step) > CONVERGED).any():
                break
    return np.where(np.isfinite(mu) & (log_delta > -np.inf), mu, 0.0)


def _log_gaussian_delta(mu: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return about ln delta(c) of the Gaussian curve with the parameter mu, and its derivative in ln mu.

    With y = c/mu - mu/2 and the Mills ratio M, delta(c) = phi(y) (M(y) - M(y + mu)).
    """
    y = c / mu - 0.5 * mu
    difference = _mills(y) - _mills(y + mu)
    # Simpson's rule for the integral of -M'(x) = 1 - x M(x).
    points = [y, y + 0.5 * mu, y + mu]
    falls = [1 - each * _mills(each) for each in points]
    difference = np.where(mu < 1e-3, mu * (falls[0] + 4 * falls[1] + falls[2]) / 6, difference)
    return np.log(difference) - 0.5 * y * y - 0.5 * math.log(2 * math.pi), mu / difference


def _mills(y: FloatArray) -> FloatArray:
    return math.sqrt(0.5 * math.pi) * special.erfcx(y / math.sqrt(2))


def proved_mu(c: float, log_delta: float, mu: float) -> float:
    """Return a number near `mu` such that delta(c) of its Gaussian curve is proved to be at most e^`log_delta`.

    `c` is a log slope in nats, and `mu` about the mu at which delta(c) is e^`log_delta`, as from `gaussian_mu`. The
    result is a lower bound of that mu, mostly within a relative distance of 4e-14; 0 if there is no proof.
    """
    from flint import arb, ctx

    margin = MARGIN
    with ctx.workprec(PRECISION):
        for _ in range(MOST_PROOFS):
            tried = arb(mu * (1 - margin))
            y, root = arb(c) / tried - tried / 2, arb(2).sqrt()
            most = ((y / root).erfc() - arb(c).exp() * ((y + tried) / root).erfc()) / 2
            if most <= arb(log_delta).exp():
                return mu * (1 - margin) * (1 - UNIT_ROUNDOFF)
            margin *= 32
    return 0.0
