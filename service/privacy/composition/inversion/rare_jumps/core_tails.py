"""Tails of the sum of the losses of n steps in the core, bounded from above on a grid.

The *core* of a step is the event that the step has no far loss (jump). A step of the core is *moderate* if its loss
exceeds L1, and else *small*. L is the loss of one step, S is the sum of the losses, and P1 and E1 are under H1. Given
which j steps are moderate, their losses are rounded up to the multiples of h (the grid), and all other steps have a
Chernoff bound:

    P1(S > a; core) <= sum_{j < 4} binom(n, j) sum_i m^{*j}(i) C(a - i h) + rest,
    C(a) <= e^{-ka} E1[e^{kL}; small]^n  for every tilt k > 0,

where m(i) is the mass of moderate losses in (i h - h, i h], and m^{*j} is its j-fold convolution. Chernoff bounds of
the whole core serve sums with four moderate steps or more: e^{-ka} binom(n, 4) E1[e^{kL}; moderate]^4 E1[e^{kL};
core]^{n-4}. Moments below 1 are replaced by 1, so that fewer than n steps have the same bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammaln

from service.privacy.composition.inversion.rare_jumps.jump_law import TAIL_SLACK
from service.privacy.numerics.arrays import FloatArray

CELLS: Final = 240
"""Number of cells of the grid between 0 and epsilon."""

_TOGETHER = 4
"""Number of moderate steps from which Chernoff bounds serve."""

_SLACK = 1e-9
"""Relative slack, far above the rounding of sums of positive terms."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Upper bounds `logs` of ln E1[e^{kL}], shape (n,), at n real `tilts` k, for the loss L of one step under H1."""

    tilts: FloatArray
    logs: FloatArray

    def log_tails(self, thresholds: FloatArray, steps: int) -> FloatArray:
        """Return upper bounds of ln P1(S > a) at m thresholds a (nats), shape (m,), by Chernoff's inequality.

        S is the sum of the losses of this number of `steps`. If the tilts are negative, the bounds are those of ln P1(S
        < a).
        """
        grown = steps * np.maximum(self.logs, 0.0)
        exponents = grown - self.tilts * thresholds[:, None]
        size = 1 + grown + np.abs(self.tilts * thresholds[:, None])
        return np.minimum(np.fmin.reduce(exponents + 1e-12 * size, axis=1), 0.0)


@dataclass(frozen=True, slots=True)
class CoreTails:
    """Upper bounds of probabilities of sums of losses, on the 2 CELLS + 1 multiples of h from 0 to 2 epsilon.

    The *core* of a step is the event that it has no far loss (*jump*). A loss of the core is *moderate* above a limit,
    and else small.

    Attributes
    ----------
    grid : FloatArray
        The multiples of h, in nats.
    moderate, jump : FloatArray
        Upper bounds of the mass of one step's moderate losses, and of losses beyond the core, in the cell left of each
        point. The last cell of jumps has no end.
    most : float
        Largest loss of the core.
    whole, small : Growth
        Moments of the core, and of its steps that are not moderate, at positive tilts.
    """

    grid: FloatArray
    moderate: FloatArray
    jump: FloatArray
    most: float
    whole: Growth
    small: Growth

    @staticmethod
    def of(
        log_tail: Callable[[FloatArray], FloatArray],
        ends: tuple[float, float, float],
        whole: Growth,
        small: Growth,
    ) -> CoreTails:
        """Return the bounds for a run of equal steps, from the tail of the loss L of one step.

        Parameters
        ----------
        log_tail : callable
            Function that returns upper bounds of ln P1(L > l) of one step within `TAIL_SLACK` at losses l.
        ends : tuple of float
            Smallest moderate loss, largest loss of the core, and epsilon, in nats.
        whole, small : Growth
            Moments of the core, and of its steps that are not moderate, at positive tilts.
        """
        least, most, epsilon = ends
        grid: FloatArray = epsilon / CELLS * np.arange(2 * CELLS + 1, dtype=np.float64)
        moderate = _masses(log_tail, grid, least, most * (1 + _SLACK))
        jump = _masses(log_tail, grid, most * (1 - _SLACK), math.inf)
        return CoreTails(grid, moderate, jump, most * (1 + _SLACK), whole, small)

    def tails(self, steps: int) -> FloatArray:
        """Return upper bounds of P1(S > a; core) at the points a of the grid, shape (2 CELLS + 1,).

        S is the sum of the losses of `steps` steps, and the core is the event that none of them is a rare large loss.
        """
        bounded = np.exp(self.small.log_tails(self.grid, steps))
        total, power = bounded.copy(), np.array([1.0])
        for j in range(1, min(_TOGETHER, steps + 1)):
            power = np.convolve(power, self.moderate)
            total += _choices(steps, j) * _with_others(power, bounded)
        if steps >= _TOGETHER:
            tilts = self.whole.tilts
            moderate = np.log(np.exp(np.minimum(tilts[:, None] * self.grid, 690.0)) @ self.moderate)
            logs = _TOGETHER * moderate + steps * np.maximum(self.whole.logs, 0.0) - tilts * self.grid[:, None]
            logs = np.where((tilts * self.most < 690.0) & ~np.isnan(logs), logs, np.inf)
            total += _choices(steps, _TOGETHER) * np.exp(np.minimum(logs.min(axis=1), 100.0) + 100 * _SLACK)
        return np.minimum(np.minimum(total * (1 + _SLACK), np.exp(self.whole.log_tails(self.grid, steps))), 1.0)

    def profile_without_jumps(self, steps: int) -> float:
        """Return an upper bound of E1(1 - e^{epsilon - S})_+ on the event that none of `steps` steps jumps.

        S is the loss of the run. A jump is a rare large loss of one step, beyond a limit.
        """
        return self._integral(self.tails(steps))

    def profile_of_several(self, steps: int) -> float:
        """Return an upper bound of E1(1 - e^{epsilon - S})_+ on the event that two or more of `steps` steps jump.

        S is the loss of the run. A jump is a rare large loss of one step, beyond a limit.
        """
        two = _choices(steps, 2) * _with_others(np.convolve(self.jump, self.jump), self.tails(steps - 2))
        three = _choices(steps, 3) * float(self.jump.sum()) ** 3 if steps >= 3 else 0.0
        return self._integral(two) + three * (1 + _SLACK)

    def _integral(self, tails: FloatArray) -> float:
        """Return an upper bound of the integral of e^{epsilon - a} P1(S > a) over a > epsilon.

        `tails` has upper bounds of P1(S > a) at the points a of the grid, for a sum S of losses.
        """
        far = tails[CELLS:]
        return (float(far[:-1].sum()) * float(self.grid[1]) + float(far[-1])) * (1 + _SLACK) + 1e-300


def _masses(log_tail: Callable[[FloatArray], FloatArray], grid: FloatArray, least: float, most: float) -> FloatArray:
    """Return upper bounds of the masses of one step's losses L in (`least`, `most`], for each cell of the grid.

    The cell of a point of the grid lies left of the point. `log_tail` gives upper bounds of ln P1(L > l) at losses l.
    """
    logs = log_tail(np.clip(grid, least, most))
    mass = np.maximum(np.exp(logs[:-1]) - np.exp(logs[1:] - TAIL_SLACK), 0.0)
    mass[(grid[1:] <= least) | (grid[:-1] >= most)] = 0.0
    if most == math.inf:
        mass[-1] = math.exp(logs[-2])  # the last cell has no end
    return np.concatenate([[0.0], mass])


def _with_others(mass: FloatArray, bounded: FloatArray) -> FloatArray:
    """Return sum_i mass(i) bounded(a - i h) at the points a of the grid with spacing h.

    `mass` has the masses of losses rounded up to the multiples of h, and `bounded` has bounds of a tail at the grid
    points, which is at most 1 left of the grid. The result has the shape of `bounded`.
    """
    beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], np.zeros(len(bounded) + 1)])[1 : len(bounded) + 1]
    return np.convolve(mass, bounded)[: len(bounded)] + beyond


def _choices(steps: int, chosen: int) -> float:
    return math.exp(float(gammaln(steps + 1) - gammaln(chosen + 1) - gammaln(steps - chosen + 1))) * (1 + _SLACK)
