"""Enclosed points of the trade-off curve of one run, at the rates between which selection bounds use cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff

ROUNDING: Final = 1e-12
"""Relative error of sums and differences of two enclosed numbers, with a wide margin."""


@final
@dataclass(frozen=True)
class Nodes:
    """Points of a trade-off curve at n rising rates from 0 to 1, and bounds of its slope between them.

    Attributes
    ----------
    score, rate, rest : array of shape (n,)
        Normal scores of the rates, the rates u, and their complements 1 - u, exact above 1/2.
    power, error : array of shape (2, n)
        Lower and upper bounds of the power T(u) and of the type II error 1 - T(u).
    log_slope : array of shape (2, n)
        Bounds of ln T' at the rates.
    cell_slopes : (array, array) or None
        Lower and upper bounds of T' between neighbouring rates, shape (n - 1,), if known from fewer rates.
    """

    score: FloatArray
    rate: FloatArray
    rest: FloatArray
    power: FloatArray
    error: FloatArray
    log_slope: FloatArray

    cell_slopes: tuple[FloatArray, FloatArray] | None = None
    """Bounds of T' in each cell if they are known from a coarser list of nodes."""

    @staticmethod
    def of(curve: AbstractTradeOff, scores: FloatArray) -> Nodes:
        """Return the points of `curve` at the rates with the normal `scores`, rising."""
        rate = special.ndtr(scores)
        points = curve.points(rate)
        power, error, slope = (
            np.stack((each.lower, each.upper)) for each in (points.power, points.type_two_error, points.log_slope)
        )
        return Nodes(scores, rate, 1 - rate, power, error, slope)

    def with_scores(self, curve: AbstractTradeOff, scores: FloatArray) -> Nodes:
        """Return these nodes and those at further `scores` of the same curve."""
        more = Nodes.of(curve, np.setdiff1d(scores, self.score))
        order = np.argsort(np.concatenate((self.score, more.score)), kind="stable")

        def joined(one: FloatArray, other: FloatArray) -> FloatArray:
            found: FloatArray = np.concatenate((one, other), axis=-1)[..., order]
            return found

        return Nodes(
            joined(self.score, more.score),
            joined(self.rate, more.rate),
            joined(self.rest, more.rest),
            joined(self.power, more.power),
            joined(self.error, more.error),
            joined(self.log_slope, more.log_slope),
        )

    def divided(self, parts: int) -> Nodes:
        """Return the nodes of `parts` times as many cells, between which T is bounded by its concavity.

        Between two rates T lies above the chord, below the steepest line through the left point, and below the flattest
        line through the right point.
        """
        ends = np.clip(self.score, -38.0, 9.0)
        share = np.arange(parts) / parts
        score = np.append((ends[:-1, None] + np.diff(ends)[:, None] * share).ravel(), np.inf)
        score[0] = -np.inf
        at = np.append(np.repeat(np.arange(len(ends) - 1), parts), len(ends) - 2)
        rate = special.ndtr(score)
        rate[::parts] = self.rate
        rate = np.clip(rate, self.rate[at], self.rate[at + 1])
        rest = 1 - rate
        rest[::parts] = self.rest
        flat, steep = self.slopes
        run = np.where(rate > 0.5, self.rest[at] - rest, rate - self.rate[at]) * (1 + ROUNDING)
        left = np.where(rate > 0.5, rest - self.rest[at + 1], self.rate[at + 1] - rate)
        with np.errstate(all="ignore"):
            share = np.nan_to_num(np.clip(run / (run + left), 0.0, 1.0))
            climb = np.nan_to_num(steep[at] * run, nan=np.inf, posinf=np.inf)
        fall = flat[at] * left * (1 - ROUNDING)
        power_up = np.minimum(self.power[1][at] + climb, self.power[1][at + 1] - fall) * (1 + ROUNDING)
        error_low = np.maximum(self.error[0][at] - climb, self.error[0][at + 1] + fall) * (1 - ROUNDING)
        power_low = ((1 - share) * self.power[0][at] + share * self.power[0][at + 1]) * (1 - ROUNDING)
        error_up = ((1 - share) * self.error[1][at] + share * self.error[1][at + 1]) * (1 + ROUNDING)
        power = np.stack((np.minimum(power_low, power_up), np.minimum(power_up, self.power[1][at + 1])))
        error = np.stack((np.maximum(error_low, self.error[0][at + 1]), np.maximum(error_low, error_up)))
        error = np.minimum(error, 1.0)
        for own, known in ((power, self.power), (error, self.error)):
            own[:, ::parts] = known
        slopes = flat[at[:-1]], steep[at[:-1]]
        return Nodes(score, rate, rest, power, error, np.zeros((2, 0)), slopes)

    @property
    def widths(self) -> FloatArray:
        """Differences of successive rates, shape (n - 1,), within one rounding."""
        return differences(self.rate, self.rest)

    @property
    def slopes(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of T' in each cell between two rates, each of shape (n - 1,).

        T is concave. So T' in a cell is at most the slope of the chord of the cell before, and at least that of the
        cell behind. T' also lies between the slopes at both rates of the cell, where the curve knows these slopes.
        """
        if self.cell_slopes is not None:
            return self.cell_slopes
        width, power, error = self.widths, self.power, self.error
        with np.errstate(all="ignore"):
            rises = np.fmin(power[1, 1:] - power[0, :-1], error[1, :-1] - error[0, 1:])
            falls = np.fmax(power[0, 1:] - power[1, :-1], error[0, :-1] - error[1, 1:])
            steepest = np.nan_to_num(rises / width, nan=np.inf, posinf=np.inf) * (1 + ROUNDING)
            flattest = np.nan_to_num(np.maximum(falls, 0.0) / width) * (1 - ROUNDING)
            upper = np.exp(self.log_slope[1, :-1]) * (1 + ROUNDING)
            lower = np.exp(self.log_slope[0, 1:]) * (1 - ROUNDING)
        upper[1:] = np.fmin(upper[1:], steepest[:-1])
        lower[:-1] = np.fmax(lower[:-1], flattest[1:])
        return np.minimum(lower, upper), upper


def differences(number: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the differences of successive numbers in [0, 1] without cancellation; `rest` has their complements."""
    return np.where(number[:-1] > 0.5, rest[:-1] - rest[1:], number[1:] - number[:-1])
