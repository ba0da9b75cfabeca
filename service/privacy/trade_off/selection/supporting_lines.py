"""Trade-off curve between two lists of supporting lines: upper bounds of a profile in both directions."""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import with_logs
from service.privacy.trade_off.selection.hull import upper_hull

SLACK: Final = 1e-13
"""Relative error of a sum of few products of numbers that are given as doubles."""


@final
class Lines:
    """Lines power <= delta_j + e^{eps_j} rate for epsilons eps_j >= 0 that rise from 0, of which none is redundant.

    Attributes
    ----------
    epsilons, deltas : array of shape (m,)
        eps_j in nats, below 700, and delta_j, which fall and are convex in e^eps.
    """

    def __init__(self, epsilons: FloatArray, deltas: FloatArray) -> None:
        slopes = np.exp(epsilons)
        kept = upper_hull(slopes, -deltas)
        # A line that touches the others in one point, or nearly so, is redundant.
        self.epsilons, self.deltas = epsilons[kept], np.minimum.accumulate(deltas[kept])
        self.slopes = slopes[kept]

    @property
    def corners(self) -> FloatArray:
        """Rates at which successive lines meet, falling, shape (m - 1,)."""
        return -np.diff(self.deltas) / np.diff(self.slopes)

    def interpolated(self, epsilons: FloatArray) -> FloatArray:
        """Return the profile of the lines at epsilons >= 0: chords over e^eps, constant beyond the last line."""
        last = len(self.epsilons) - 1
        right = np.clip(np.searchsorted(self.epsilons, epsilons), 1, max(last, 1))
        if last == 0:
            return np.full_like(epsilons, self.deltas[0])
        left = right - 1
        gap = np.expm1(self.epsilons[right] - self.epsilons[left])
        share = np.clip(np.expm1(np.minimum(epsilons - self.epsilons[left], 700.0)) / gap, 0.0, 1.0)
        return (1 - share) * self.deltas[left] + share * self.deltas[right]


@final
class BetweenLines(AbstractTradeOff):
    """Convex curve that is the largest below given lines of its own and of the swapped direction.

    Parameters
    ----------
    ahead, back : Lines
        power <= delta + e^eps rate, and 1 - rate <= delta + e^eps (type II error). Both start at eps = 0.

    Notes
    -----
    Each line is a proved bound of the curve of a release. So this curve bounds the release from below, as type II
    error. Its own numbers are exact up to SLACK over the larger term of each sum.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"

    def __init__(self, ahead: Lines, back: Lines) -> None:
        self.ahead, self.back = ahead, back

    @staticmethod
    def of(ahead: tuple[FloatArray, FloatArray], back: tuple[FloatArray, FloatArray]) -> BetweenLines:
        """Return the curve of two lists of (epsilons, deltas). Both bound the total variation by their first delta."""
        least = min(float(ahead[1][0]), float(back[1][0]))
        lists: list[Lines] = []
        for epsilons, deltas in (ahead, back):
            lists.append(Lines(epsilons, np.minimum(deltas, least)))
        first = min(float(each.deltas[0]) for each in lists)
        for each in lists:
            each.deltas[0] = first
        return BetweenLines(*lists)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        last = float(self.ahead.epsilons[-1])
        return Enclosure(last, last if self.ahead.deltas[-1] == 0 else math.inf, self.evidence)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        last = -float(self.back.epsilons[-1])
        return Enclosure(last if self.back.deltas[-1] == 0 else -math.inf, last, self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure(0.0, float(self.ahead.deltas[-1]), self.evidence)

    @override
    def reversed(self) -> BetweenLines:
        return BetweenLines(self.back, self.ahead)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        power, own_slope, steep = self._half(self.ahead, alpha)
        rest = 1 - alpha
        corners = self.back.deltas[:-1] + self.back.slopes[:-1] * self.back.corners
        at = np.searchsorted(-corners, -rest)
        lost = rest - self.back.deltas[at]
        error = np.maximum(lost, 0.0) / self.back.slopes[at]
        slack = 4 * SLACK * rest / self.back.slopes[at]
        flat = (alpha > self.ahead.corners[0]) if len(self.ahead.corners) else np.ones_like(alpha, dtype=np.bool_)
        flat &= at > 0
        errors = np.where(flat, error, 1 - power), np.where(flat, slack, 4 * SLACK)
        powers = np.where(flat, 1 - error, power), np.where(flat, 4 * SLACK, SLACK * power + SMALLEST)
        back_eps = self.back.epsilons
        low = np.where(flat, -back_eps[np.minimum(at + 1, len(back_eps) - 1)], own_slope)
        low = np.where(flat & (at == len(back_eps) - 1), -np.inf, low)
        high = np.where(flat, -back_eps[np.maximum(at - 1, 0)], steep)
        low = np.where(~flat & (own_slope == 0), -back_eps[min(1, len(back_eps) - 1)], low)
        return CurvePoints(
            with_logs(np.maximum(errors[0] - errors[1], 0.0), np.clip(errors[0] + errors[1], 0.0, rest)),
            with_logs(np.clip(powers[0] - powers[1], alpha, 1.0), np.clip(powers[0] + powers[1], alpha, 1.0)),
            EnclosureArray(np.minimum(low, high), np.maximum(low, high)),
        )

    @staticmethod
    def _half(lines: Lines, alpha: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the least power on the lines at the rates `alpha`, and the epsilons of the lines around it."""
        corners, eps = lines.corners, lines.epsilons
        at = np.searchsorted(-corners, -alpha)
        power = np.minimum(lines.deltas[at] + lines.slopes[at] * alpha, 1.0)
        below = eps[np.maximum(at - 1, 0)]
        above = np.where(at == len(eps) - 1, np.inf, eps[np.minimum(at + 1, len(eps) - 1)])
        return power, below, above

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        ahead = self.ahead.interpolated(np.maximum(epsilon, 0.0))
        minus = np.minimum(epsilon, 0.0)
        back = -np.expm1(minus) + np.exp(minus) * self.back.interpolated(-minus)
        value = np.where(epsilon >= 0, ahead, back)
        return with_logs(
            np.maximum(value * (1 - SLACK) - SMALLEST, 0.0),
            np.where(value > 0, np.minimum(value * (1 + SLACK) + SMALLEST, 1.0), 0.0),
        )
