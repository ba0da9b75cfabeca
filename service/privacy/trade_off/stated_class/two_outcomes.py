"""Pairs of laws on two outcomes, (p, 1 - p) against (q, 1 - q), in double precision: guesses without a proof.

All formulas use D = logit p - logit q >= 0 and the cumulant generating function C(s) = ln(1 - q + q e^s):

    ln(p^a q^{1-a} + (1-p)^a (1-q)^{1-a}) = C(a D) - a C(D),     KL(p || q) = p D - C(D),     ln(p/q) = D - C(D).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from service.privacy.numerics.arrays import FloatArray

Fixed: TypeAlias = Literal["rate", "power", "middle"]
_ROUNDS = 400
_FAR = 40.0
"""Nats beyond which e^-x does not change 1 + e^-x or e^x - 1 within a guess."""


def log_mean_exp(log_p: float, log_rest: float, s: float) -> float:
    """Return ln(1 - p + p e^s) from ln p and ln(1 - p)."""
    if s == 0:
        return 0.0
    if s > 0:
        z = log_p + (s if s > _FAR else math.log(math.expm1(s)))
        return math.log1p(math.exp(z)) if z < _FAR else z
    fall = log_p + math.log(-math.expm1(s))
    return math.log1p(-math.exp(fall)) if fall < -0.7 else float(np.logaddexp(log_rest, log_p + s))


@dataclass(frozen=True, slots=True)
class RoughPair:
    """Pair of laws (q, 1 - q) under H0 and (p, 1 - p) under H1, as logarithms in double precision.

    Attributes
    ----------
    log_rate, log_power, log_error : float
        ln q, ln p and ln(1 - p).
    distance : float
        D = logit p - logit q.
    moved : float
        C(D) = ln(1 - q + q e^D).
    """

    log_rate: float
    log_power: float
    log_error: float
    distance: float
    moved: float

    def tilted(self, order: float) -> tuple[float, float, float]:
        """Return (psi, w, 1 - w): psi = C(a D) - a C(D) for the order a, and w = C'(a D).

        C(s) = ln(1 - q + q e^s) for the rate q, and D = logit p - logit q for the power p.
        """
        s = order * self.distance
        whole = log_mean_exp(self.log_rate, self._log_rate_rest, s)
        return (
            whole - order * self.moved,
            math.exp(min(self.log_rate + s - whole, 0.0)),
            math.exp(min(self._log_rate_rest - whole, 0.0)),
        )

    @property
    def _log_rate_rest(self) -> float:
        return self.log_error + self.moved

    @property
    def relative_entropy(self) -> float:
        """Kullback-Leibler divergence of (p, 1 - p) from (q, 1 - q), for the power p and the rate q, in nats."""
        return math.exp(self.log_power) * self.distance - self.moved

    def log_faint(self, orders: FloatArray) -> FloatArray:
        """Return ln D_a for the Renyi divergences of orders a >= 1 with a small a D, in the shape of `orders`.

        D_a is a q (1 - q) (D^2/2) (1 + (1 - 2 q) (a + 1) D/3) for the rate q, and D = logit p - logit q for the power
        p. The relative error is of the order (a D)^2. It replaces `many`, whose difference C(a D) - a C(D) cancels for
        a small a D.
        """
        skew = (math.exp(self._log_rate_rest) - math.exp(self.log_rate)) * (orders + 1) * self.distance / 3
        main = self.log_rate + self._log_rate_rest + 2 * math.log(self.distance)
        return main + np.log(orders / 2) + np.log1p(skew)

    def many(self, orders: FloatArray) -> FloatArray:
        """Return psi(a) = C(a D) - a C(D) for many orders a > 1, in the shape of `orders`.

        C(s) = ln(1 - q + q e^s) for the rate q, and D = logit p - logit q for the power p.
        """
        s = orders * self.distance
        z = self.log_rate + np.where(s > _FAR, s, np.log(np.expm1(np.minimum(s, _FAR))))
        return np.where(z < _FAR, np.log1p(np.exp(np.minimum(z, _FAR))), z) - orders * self.moved


@dataclass(frozen=True, slots=True)
class RoughBase:
    """Line of pairs (rate q, power p) in double precision: a fixed q, a fixed p, or p + q = 1.

    Attributes
    ----------
    log_value, log_rest : float
        Logarithms of the fixed number and of its complement.
    fixed : {"rate", "power", "middle"}
        What is fixed; "middle" stands for p + q = 1.
    """

    log_value: float
    log_rest: float
    fixed: Fixed

    @property
    def largest_divergence(self) -> float:
        """Largest Renyi divergence of any order on the line: ln(1/q) for a fixed rate q, otherwise infinite."""
        return -self.log_value if self.fixed == "rate" else math.inf

    def pair(self, distance: float) -> RoughPair:
        """Return the pair (rate q, power p) of the line with D = logit p - logit q equal to `distance`."""
        if self.fixed == "middle":
            low, high = -math.log1p(math.exp(-0.5 * distance)) - 0.5 * distance, -math.log1p(math.exp(-0.5 * distance))
            return RoughPair(low, high, low, distance, log_mean_exp(low, high, distance))
        if self.fixed == "power":
            moved = -log_mean_exp(self.log_value, self.log_rest, -distance)
            return RoughPair(self.log_value - distance + moved, self.log_value, self.log_rest, distance, moved)
        moved = log_mean_exp(self.log_value, self.log_rest, distance)
        return RoughPair(self.log_value, self.log_value + distance - moved, self.log_rest - moved, distance, moved)


def increasing_zero(function: Callable[[float], float], guess: float) -> float:
    """Return the zero x > 0 of an increasing function that is negative near 0, searched from a guess.

    Infinite if the function stays negative.
    """
    low = high = guess
    for _ in range(_ROUNDS):
        if function(high) >= 0:
            break
        low, high = high, 2 * high
    else:
        return math.inf
    for _ in range(_ROUNDS):
        if function(low) < 0:
            break
        low, high = 0.5 * low, low
    else:
        return low
    if low == high:
        return low
    from scipy.optimize import brentq

    found: Any = brentq(function, low, high, xtol=1e-323, rtol=1e-13, maxiter=_ROUNDS, disp=False)
    return float(found)
