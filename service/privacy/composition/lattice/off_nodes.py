"""Steps of two losses beside steps on a lattice: the two losses stay exact, between the nodes.

A step of two losses, an (eps, delta)-DP step, has the loss +eps or -eps. Moving these atoms to nodes would cause errors
of first order in the spacing h. The sum of these steps has few values s_i with H0-masses w_i. Tilted sums over the
whole run are therefore sums of tilted sums over the lattice, with its tilted masses m_k. Let theta be the tilt and

    s_i = n_i h + f_i with 0 < f_i <= h;    v_i = w_i e^{theta s_i}/sum w e^{theta s}.

Let A(j) = sum_{k >= j} m_k e^{-rate (k - j) h}. The sum over losses above j h of m e^{-rate (loss - j h)} is then sum_i
v_i e^{-rate f_i} A(j - n_i). Sums over losses below j h follow in the same manner. The law is symmetric under swapped
hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from service.privacy.mechanisms.abstract import TwoPointPart
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.mixture.shifted_mixture import Shifts

MOST_LOSSES: Final = 400
"""Largest number of losses between the nodes. Each costs a pass over the thresholds."""


@dataclass(frozen=True, slots=True)
class OffNodeLosses:
    """Law of the total loss s of steps with the losses +-eps; each step may also reveal everything.

    Attributes
    ----------
    losses : array
        Values s_i of the total loss in nats.
    log_masses : array
        ln of the H0-masses w_i, which add up to prod (1 - delta)^N.
    deltas : tuple of (delta, N)
        Probabilities of steps that reveal everything, and counts.
    loss_error, mass_error : float
        Absolute error of the losses, and relative error of the masses.
    """

    losses: FloatArray
    log_masses: FloatArray
    deltas: tuple[tuple[float, int], ...]
    loss_error: float
    mass_error: float

    @staticmethod
    def of(known: Sequence[tuple[TwoPointPart, int]]) -> OffNodeLosses | None:
        """Build the law of the total loss of steps with two losses each.

        `known` has pairs (description of a step, number of such steps). The result is None if it is empty.
        """
        if not known:
            return None
        shifts = Shifts.of(tuple((part.epsilon, count) for part, count in known if part.epsilon > 0))
        deltas = tuple((part.delta, count) for part, count in known if part.delta > 0)
        log_rest = math.fsum(count * math.log1p(-delta) for delta, count in deltas)
        error = shifts.mass_error + shifts.loss_error + 4 * FUNCTION_ERROR * (1 + abs(log_rest))
        log_masses = shifts.log_mass - shifts.loss + log_rest
        return OffNodeLosses(
            shifts.loss,
            log_masses,
            deltas,
            shifts.loss_error,
            error + 4 * UNIT_ROUNDOFF * float(np.abs(log_masses).max() + np.abs(shifts.loss).max()),
        )

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Return the log-moment K(tilt) = ln sum w_i e^{tilt s_i} and its first two derivatives.

        The s_i are the losses, and the w_i their H0-masses.
        """
        value, weights = self.tilted(tilt)
        mean = float(weights @ self.losses)
        return value, mean, float(weights @ (self.losses - mean) ** 2)

    def tilted(self, tilt: float) -> tuple[float, FloatArray]:
        """Return the log-moment K = ln sum w_i e^{tilt s_i} and the tilted masses w_i e^{tilt s_i - K}.

        The s_i are the losses, and the w_i their H0-masses. The masses have the shape (losses,).
        """
        exponents = self.log_masses + tilt * self.losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        return top + math.log(total), weights / total

    def rounding(self, tilt: float) -> float:
        """Return a bound of the relative error of w_i e^{tilt s_i}, for losses s_i of masses w_i."""
        largest = float(np.abs(self.log_masses).max() + abs(tilt) * np.abs(self.losses).max())
        return self.mass_error + 4 * FUNCTION_ERROR + UNIT_ROUNDOFF * (len(self.losses) + 8 * (1 + largest))

    @property
    def blur(self) -> float:
        """Bound in nats of rounding in the sum of a loss between nodes and a loss on the lattice."""
        return self.loss_error + 8 * UNIT_ROUNDOFF * float(np.abs(self.losses).max())


def select_few(known: Sequence[tuple[TwoPointPart, int]]) -> list[tuple[TwoPointPart, int]]:
    """Return as many kinds of steps, pairs (description, count), as have a total loss with at most 400 values.

    Each of the `known` steps has the losses +-epsilon. Kinds with the fewest steps come first.
    """
    taken: list[tuple[TwoPointPart, int]] = []
    losses = 1
    for part, count in sorted(known, key=lambda one: one[1]):
        losses *= count + 1 if part.epsilon > 0 else 1
        if losses > MOST_LOSSES:
            break
        taken.append((part, count))
    return taken


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Positions of `count` thresholds of the loss, one at every `stride`-th node of a lattice with spacing `step`."""

    count: int
    stride: int
    step: float


@dataclass(frozen=True, slots=True)
class Between:
    """Losses s_i = n_i h + f_i between the nodes of a lattice of spacing h, with tilted masses v_i of sum 1.

    `cells` has the integers n_i, `rest` the f_i in (0, h], and `weights` the v_i. If no step has losses between the
    nodes, the only loss is 0.
    """

    cells: tuple[int, ...]
    rest: tuple[float, ...]
    weights: tuple[float, ...]

    @staticmethod
    def of(off_nodes: OffNodeLosses | None, tilt: float, step: float) -> Between:
        """Return the losses between the nodes at a tilt, for the spacing `step`; `off_nodes` is None if there are none.

        A loss is n_i h + f_i with an integer n_i and h = `step`. The f_i have errors of at most `OffNodeLosses.blur`.
        """
        if off_nodes is None:
            return Between((-1,), (step,), (1.0,))
        cells = tuple(math.ceil(loss / step) - 1 for loss in off_nodes.losses)
        rest = tuple(
            min(max(loss - n * step, 0.0), step) for loss, n in zip(off_nodes.losses.tolist(), cells, strict=True)
        )
        return Between(cells, rest, tuple(off_nodes.tilted(tilt)[1].tolist()))

    def reflected(self, step: float) -> Between:
        """Return the losses for sums over losses at or below thresholds; `step` is the spacing h.

        A loss between the nodes is n_i h + f_i with 0 < f_i <= h. Together with a loss k h it is at most j h for k <= j
        - n_i - 1, at a distance h - f_i from a node. In the result, `cells` has -n_i - 1 and `rest` has h - f_i.
        """
        return Between(tuple(-n - 1 for n in self.cells), tuple(step - rest for rest in self.rest), self.weights)

    def summed(self, sums: FloatArray, begin: int, thresholds: Thresholds, rate: float) -> FloatArray:
        """Return sum_i v_i e^{-rate f_i} A(begin - n_i + k stride) at every threshold k, with A(j) = sums[j].

        n_i h + f_i are the losses between the nodes of spacing h, v_i their tilted masses, and A(j) is a sum e^{-rate
        distance} of masses from the node j on. The first threshold is the node `begin`. Before the first index A
        decays, as no mass is added. After the last index A is 0. The result has the shape (thresholds.count,).
        """
        stride, count = thresholds.stride, thresholds.count
        total = np.zeros(count)
        for cell, rest, weight in zip(self.cells, self.rest, self.weights, strict=True):
            first, share = begin - cell, weight * math.exp(-rate * rest)
            inside, end = (min(max(-((first - at) // stride), 0), count) for at in (0, len(sums)))
            if end > inside:
                total[inside:end] += share * sums[first + inside * stride :: stride][: end - inside]
            if inside > 0:
                distance = thresholds.step * (-first - stride * np.arange(inside))
                total[:inside] += share * sums[0] * np.exp(-rate * distance)
        return total
