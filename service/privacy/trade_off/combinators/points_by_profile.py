"""Points of curves of which nothing but the profile is at hand, rate by rate; `profile_points.py` has the proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.profile_points import closed_in, proved_error, proved_power
from service.privacy.trade_off.enclosed.logs import with_logs

FARTHEST: Final = 700.0
"""Nats."""
LOOKS: Final = 17
ROUNDS: Final = 3
"""Thresholds among which a wide range of them is narrowed first, and how often."""

LogProfile = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@final
@dataclass(frozen=True, slots=True)
class ProfiledSide:
    """One direction of a curve: both ends of ln delta at thresholds, shape (n,) each; between which thresholds its
    points lie, and whether these are far apart, so that some are looked at before the least is sought; a lower end of
    its power at rate 0.
    """

    log_profile: LogProfile
    bottom: float
    top: float
    singular: float
    far_apart: bool = False

    @staticmethod
    def of(curve: AbstractTradeOff, log_profile: LogProfile, *, far_apart: bool = False) -> ProfiledSide:
        """With the thresholds that the curve's likelihood ratio takes."""
        top = min(curve.largest_log_ratio.upper, FARTHEST)
        bottom = min(max(curve.smallest_log_ratio.lower, -FARTHEST), top)
        return ProfiledSide(log_profile, bottom, top, curve.singular_power.lower, far_apart=far_apart)

    def narrowed(self, steer: Callable[[FloatArray], FloatArray]) -> ProfiledSide:
        """Around the least of `steer`, which falls, then rises: the neighbours of the least that was seen."""
        if not self.far_apart or is_spent():
            return self
        bottom, top = self.bottom, self.top
        for _ in range(ROUNDS):
            looks = np.linspace(bottom, top, LOOKS)
            seen = steer(looks)
            least = np.flatnonzero(seen == seen.min())
            bottom, top = float(looks[max(least[0] - 1, 0)]), float(looks[min(least[-1] + 1, LOOKS - 1)])
        return replace(self, bottom=bottom, top=top)


def points_by_profile(alpha: FloatArray, side: ProfiledSide, mirrored: ProfiledSide) -> CurvePoints:
    """Points at rates strictly between 0 and 1. `mirrored`: of the curve with the hypotheses exchanged."""
    found = np.array([_power(side, float(rate)) for rate in alpha])
    missed = np.array([_error(mirrored, 1 - float(rate)) for rate in alpha])
    # Each end as one form or the other proves it.
    low = np.maximum(found[:, 0], 1 - missed[:, 1] - UNIT_ROUNDOFF)
    high = np.minimum(found[:, 1], 1 - missed[:, 0] + UNIT_ROUNDOFF)
    error_low = np.maximum(missed[:, 0], 1 - found[:, 1] - UNIT_ROUNDOFF)
    error_high = np.minimum(missed[:, 1], 1 - found[:, 0] + UNIT_ROUNDOFF)
    error = with_logs(error_low, np.minimum(error_high, 1 - alpha + UNIT_ROUNDOFF * (alpha < 0.5)))
    return CurvePoints(error, with_logs(low, np.minimum(high, 1.0)), EnclosureArray(found[:, 2], found[:, 3]))


def _power(side: ProfiledSide, alpha: float) -> tuple[float, float, float, float]:
    """Both ends of the power at a rate, and of the level of the likelihood ratio there."""
    # At the best level k alpha <= 1.
    top = min(side.top, -math.log(alpha))
    side = replace(side, bottom=min(side.bottom, top), top=top)

    def phi(c: FloatArray) -> FloatArray:
        return np.exp(side.log_profile(c)[1]) + alpha * np.exp(c)

    side = side.narrowed(phi)
    return closed_in(
        lambda c: float(phi(np.array([c]))[0]),
        lambda c: proved_power(alpha, c, *side.log_profile(c)),
        side.bottom,
        side.top,
        (alpha, 1.0),
    )


def _error(side: ProfiledSide, power: float) -> tuple[float, float]:
    """Both ends of the rate at which this curve has a power: the type II error 1 - power of its reverse."""
    if power <= side.singular:
        return 0.0, 0.0

    def loss(c: FloatArray) -> FloatArray:
        left = power - np.exp(side.log_profile(c)[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(left > 0, c - np.log(left), FARTHEST + 1 - c + side.bottom - left)

    near = side.narrowed(loss)
    low, high, _, _ = closed_in(
        lambda c: float(loss(np.array([c]))[0]),
        lambda c: proved_error(power, c, *side.log_profile(c)),
        near.bottom,
        near.top,
        (0.0, power),
    )
    return low, high
