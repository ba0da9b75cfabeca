"""Trade-off curve between two lists of supporting lines: upper bounds of a profile in both directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import with_logs
from service.privacy.trade_off.selection.hull import upper_hull

SLACK: Final = 1e-13
"""Relative error of a sum of few products of numbers that are given as doubles."""


@final
@dataclass(frozen=True)
class Lines:
    """Lines power <= delta_j + e^{eps_j} rate for epsilons eps_j >= 0 that rise, of which none is redundant.

    Attributes
    ----------
    epsilons, deltas, slopes : array of shape (m,)
        eps_j in nats, below 700, delta_j, which fall and are convex in e^eps, and e^{eps_j}.
    """

    epsilons: FloatArray
    deltas: FloatArray
    slopes: FloatArray

    @staticmethod
    def of(epsilons: FloatArray, deltas: FloatArray) -> Lines:
        """Return the lines with `epsilons`, rising from 0, and `deltas`, without those that are redundant."""
        slopes, deltas = np.exp(epsilons), np.minimum.accumulate(deltas)
        kept = upper_hull(slopes, -deltas)
        return Lines(epsilons[kept], deltas[kept], slopes[kept])

    def without_first(self) -> Lines:
        """Return the lines without the flattest line."""
        return Lines(self.epsilons[1:], self.deltas[1:], self.slopes[1:])

    @property
    def corners(self) -> FloatArray:
        """False positive rates at which successive lines meet, falling, shape (m - 1,)."""
        return -np.diff(self.deltas) / np.diff(self.slopes)

    def interpolated(self, epsilons: FloatArray) -> FloatArray:
        """Return the profile of the lines at epsilons >= 0 (nats): chords over e^eps, constant beyond the last line."""
        last = len(self.epsilons) - 1
        right = np.clip(np.searchsorted(self.epsilons, epsilons), 1, max(last, 1))
        if last == 0:
            return np.full_like(epsilons, self.deltas[0])
        left = right - 1
        gap = np.expm1(self.epsilons[right] - self.epsilons[left])
        with np.errstate(over="ignore"):  # beyond the last line the share is 1
            share = np.clip(np.expm1(np.minimum(epsilons - self.epsilons[left], 700.0)) / gap, 0.0, 1.0)
        return (1 - share) * self.deltas[left] + share * self.deltas[right]


@final
class BetweenLines(AbstractTradeOff):
    """Trade-off curve of the largest power that two lists of (eps, delta) guarantees allow at each rate.

    Parameters
    ----------
    ahead, back : Lines
        `ahead` states power <= delta + e^eps rate. `back` states 1 - rate <= delta + e^eps (type II error), the
        guarantees for swapped hypotheses. Both start at eps = 0.
    method : str
        Engine of the curve that the lines were read from.

    Notes
    -----
    Each line is a proved bound of the curve of a release. So the type II error of the release is at least that of this
    curve. Numbers of this curve have the error SLACK, relative to the larger term of the sum or difference that gives
    them. The rate where nearly parallel lines meet has a larger error, so that two lower bounds may contradict.
    """

    evidence = Evidence.CERTIFIED
    is_capped = True
    is_one_sided = True

    def __init__(self, ahead: Lines, back: Lines, method: str) -> None:
        """Set up the curve; `ahead` and `back` meet in a corner, and no line is redundant (`of` omits such lines)."""
        self.ahead, self.back, self.method = ahead, back, method
        first, second = float(ahead.deltas[0]), float(back.deltas[0])
        rise, fall = math.expm1(float(ahead.epsilons[0])), -math.expm1(-float(back.epsilons[0]))
        self._width = rise + fall
        """Difference of the slopes of the flattest line ahead and the flattest line back."""
        self._height = max(fall - first + (1 - fall) * second, 0.0)
        """`_width` times the rate of the corner, where both lines meet. The rate itself may underflow."""
        self._size = fall + first + second
        """Sum of the terms whose difference is `_height`."""

    @staticmethod
    def of(ahead: tuple[FloatArray, FloatArray], back: tuple[FloatArray, FloatArray], method: str) -> BetweenLines:
        """Return the curve of two lists of (epsilons, deltas), without the lines that others make redundant.

        `ahead` has the guarantees of the hypotheses in order, and `back` those of the swapped hypotheses, each with
        epsilons (nats) that rise from 0. `method` is the engine of the curve that the lines were read from.
        """
        up, down = Lines.of(*ahead), Lines.of(*back)
        while True:
            if len(up.epsilons) > 1 and _is_redundant(down, up):
                up = up.without_first()
            elif len(down.epsilons) > 1 and _is_redundant(up, down):
                down = down.without_first()
            else:
                return BetweenLines(up, down, method)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        last = float(self.ahead.epsilons[-1])
        return Enclosure(last, last, self.evidence) if self.ahead.deltas[-1] == 0 else Enclosure.point(math.inf)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.point(float(self.ahead.deltas[-1]))

    @override
    def reversed(self) -> BetweenLines:
        return BetweenLines(self.back, self.ahead, self.method)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        ahead, back, rest = self.ahead, self.back, 1 - alpha
        at = np.searchsorted(-ahead.corners, -alpha)
        power = ahead.deltas[at] + ahead.slopes[at] * alpha
        behind = np.searchsorted(-(back.deltas[:-1] + back.slopes[:-1] * back.corners), -rest)
        error = np.maximum(rest - back.deltas[behind], 0.0) / back.slopes[behind]
        # The curve is the larger error. Which one is larger is not read from the corner: lines that are nearly parallel
        # meet at a rate that rounding moves far.
        flat = error > 1 - power
        error, slack = np.where(flat, error, 1 - power), np.where(flat, SLACK * rest / back.slopes[behind], SLACK)
        power, loose = np.where(flat, 1 - error, power), np.where(flat, SLACK, SLACK * power + SMALLEST)
        low = np.where(
            flat, -_after(back.epsilons, behind), np.where(at > 0, ahead.epsilons[at - 1], -back.epsilons[0])
        )
        high = np.where(
            flat, np.where(behind > 0, -back.epsilons[behind - 1], ahead.epsilons[0]), _after(ahead.epsilons, at)
        )
        return CurvePoints(
            with_logs(np.clip(error - slack, 0.0, rest), np.clip(error + slack, 0.0, rest)),
            with_logs(np.clip(power - loose, alpha, 1.0), np.clip(power + loose, alpha, 1.0)),
            EnclosureArray(low, high),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        ahead = self.ahead.interpolated(np.maximum(epsilon, self.ahead.epsilons[0]))
        minus = np.minimum(epsilon, -self.back.epsilons[0])
        back = -np.expm1(minus) + np.exp(minus) * self.back.interpolated(-minus)
        # Between the flattest lines the profile is the line through the corner where they meet. Deltas far below 1 keep
        # their digits.
        beyond = -np.expm1(np.minimum(epsilon - self.ahead.epsilons[0], 0.0)) * self.ahead.slopes[0]
        middle = self.ahead.deltas[0] + beyond / (self._width or 1.0) * self._height
        value = np.where(epsilon >= self.ahead.epsilons[0], ahead, np.where(epsilon <= minus, back, middle))
        value = np.maximum(value, -np.expm1(np.minimum(epsilon, 0.0)))
        inside = (epsilon < self.ahead.epsilons[0]) & (epsilon > minus)
        slack = np.where(inside, 2 * SLACK * (value + self._size), SLACK * value)
        return with_logs(
            np.maximum(value - slack - SMALLEST, 0.0),
            np.where(value + slack > 0, np.minimum(value + slack + SMALLEST, 1.0), 0.0),
        )


def _after(epsilons: FloatArray, at: IndexArray) -> FloatArray:
    """Return the epsilon (nats) of the line after each index in `at`, infinity after the last line."""
    return np.append(epsilons, np.inf)[at + 1]


def _is_redundant(others: Lines, lines: Lines) -> bool:
    """Return whether the flattest of `lines` is redundant: at every rate one of two other lines is as low or lower.

    Each line is an upper bound delta + e^eps rate of the power. The two other lines are the next one of `lines`, and
    the flattest of `others`. `others` are lines for swapped hypotheses, in their own coordinates (rate and power are
    1 - power and 1 - rate), and the function converts them.
    """
    down = 1 / others.slopes[0]
    first, second = lines.slopes[:2]
    if down >= first:  # both slopes are 1: the lines are parallel
        return bool(lines.deltas[0] >= others.deltas[0])
    mirrored = 1 - down + down * others.deltas[0]
    share = (first - down) / (second - down)
    return bool(lines.deltas[0] >= mirrored + (lines.deltas[1] - mirrored) * share)
