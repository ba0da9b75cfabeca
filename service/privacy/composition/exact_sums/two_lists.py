"""Law of losses of a run of different randomised responses, as sums of two lists that meet in the middle.

Kind i has N_i steps with the loss +-eps_i each. If k_i of them have the loss +eps_i, the loss of the run is sum (2 k_i
- N_i) eps_i. Let w = prod C(N_i, k_i) 2^-N_i be the weight, and Z = prod cosh(eps_i/2)^-N_i. The masses are p = Z w
e^{-loss/2} under H0 and q = Z w e^{loss/2} under H1. All prod (N_i + 1) losses are sums a + b with a and b from two
lists, the values of independent A and B:

    P(A + B > c) = sum_a P(A = a) P(B > c - a).

Every a needs a search in a sorted list (Horowitz, Sahni 1974). The exact problem is #P-hard (Murtagh, Vadhan 2016), so
there must be a limit. All sums have positive terms within the range of doubles (limits: `exact_runs.py`).

Losses are rounded sums with errors of at most `loss_error`. A tail above c is the exact rate, with the relative error
`error`, of the set of outcomes whose computed losses are above c. This set is a valid test, though not exactly the best
one at that threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, final

import numpy as np

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.log_cosh import log_cosh
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.numerics.work import count_work

CHUNK: Final = 2**18
"""Largest count of numbers in memory."""
MOST_IN_A_LIST: Final = 2**16
"""Largest number of losses of a list, far more than in any supported run."""
A_READING, A_TERM = 35.0, 0.025
"""Work of an evaluation with its caller, and of a threshold per loss of the first list, in microseconds."""


class MergedSums(NamedTuple):
    """Sums of losses in increasing order with their weights, and a bound `moved` of the displacement by merging.

    Sums that differ only by rounding are merged. Both arrays have the shape (sums,).
    """

    loss: FloatArray
    weight: FloatArray
    moved: float


def summed_losses(kinds: Sequence[tuple[float, int]]) -> MergedSums:
    """Return the possible losses (nats) of a run of kinds (epsilon, count), each step with the loss +-epsilon.

    The weight of a loss is prod C(N, k) 2^-N over the kinds, with k of N = count losses +epsilon. Losses that coincide
    up to rounding are merged: n different multiples of one epsilon have about n^2 different sums, not 2^n. Raises
    NumericalFailure for more than `MOST_IN_A_LIST` losses.
    """
    loss, weight, moved = np.zeros(1), np.ones(1), 0.0
    nearly = (32 + 4 * len(kinds)) * UNIT_ROUNDOFF * math.fsum(epsilon * count for epsilon, count in kinds)
    for epsilon, count in kinds:
        own = (2.0 * np.arange(count + 1) - count) * epsilon
        coefficients = np.array([math.comb(count, k) / 2**count for k in range(count + 1)])
        loss = (loss[:, None] + own).reshape(-1)
        weight = (weight[:, None] * coefficients).reshape(-1)
        order = np.argsort(loss, kind="stable")
        joined = _joined(loss[order], weight[order], nearly)
        loss, weight, moved = joined.loss, joined.weight, moved + joined.moved
        if len(loss) > MOST_IN_A_LIST:
            raise NumericalFailure("the losses of a run in reach of exact sums are more than its description says")
    return MergedSums(loss, weight, moved)


def _joined(loss: FloatArray, weight: FloatArray, nearly: float) -> MergedSums:
    """Merge losses that are at most `nearly` above their predecessor into the middle of their group.

    `loss` is increasing, and the weights of a group (`weight`) are added. Nothing is merged if a group is longer than
    twice `nearly`. Losses that are symmetric about 0 stay exactly symmetric, so that both tails belong to one test.
    """
    starts = np.flatnonzero(np.diff(loss, prepend=-np.inf) > nearly)
    ends = np.append(starts[1:], len(loss)) - 1
    widest = float((loss[ends] - loss[starts]).max())
    if len(starts) == len(loss) or widest > 2 * nearly:
        return MergedSums(loss, weight, 0.0)
    return MergedSums(0.5 * (loss[starts] + loss[ends]), np.add.reduceat(weight, starts), widest)


@final
class LossList:
    """List of losses in increasing order with weights w, and sums over each loss and all larger losses.

    `masses` are w e^{-loss/2} for H0 and w e^{loss/2} for H1, and `tails` the sums over each loss and all larger ones,
    with a final 0.
    """

    def __init__(self, kinds: Sequence[tuple[float, int]]) -> None:
        self.loss, self.weight, self.moved = summed_losses(kinds)
        self.masses = tuple(self.weight * np.exp(side * self.loss) for side in (-0.5, 0.5))
        self.tails = tuple(np.append(running_sums(mass[::-1])[::-1], 0.0) for mass in self.masses)
        self.hyperbolic = self._hyperbolic()

    def _hyperbolic(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums of w_i cosh((loss_i - loss_j)/2) and of w_i sinh((loss_i - loss_j)/2) over i >= j.

        w_i are the weights. Both have the shape (losses + 1,), with a final 0. The addition formulas give them from
        right to left.
        """
        gaps = np.append(0.5 * np.diff(self.loss), 0.0)
        cosh, sinh = np.cosh(gaps).tolist(), np.sinh(gaps).tolist()
        weights, rows = self.weight.tolist(), np.zeros((len(gaps) + 1, 2))
        even = odd = 0.0
        for j in range(len(gaps) - 1, -1, -1):
            even, odd = cosh[j] * even + sinh[j] * odd + weights[j], cosh[j] * odd + sinh[j] * even
            rows[j] = even, odd
        return rows[:, 0], rows[:, 1]


@final
class TwoLists:
    """Law of the loss A + B of a run, where A and B take the losses of two lists: tails and profile.

    Every step has the loss +-epsilon, with epsilon > 0. The masses of all losses have the common factor e^{log_scale}.
    """

    def __init__(self, first: Sequence[tuple[float, int]], second: Sequence[tuple[float, int]]) -> None:
        kinds = (*first, *second)
        self.first, self.second = LossList(first), LossList(second)
        self.largest = math.fsum(epsilon * count for epsilon, count in kinds)
        moved = self.first.moved + self.second.moved
        self.loss_error = 2 * UNIT_ROUNDOFF * (len(kinds) + 3) * self.largest + moved * (1 + 4 * UNIT_ROUNDOFF)
        epsilons, counts = np.array(kinds, dtype=np.float64).reshape(-1, 2).T
        self.log_scale = -math.fsum((counts * log_cosh(0.5 * epsilons)).tolist())
        terms = max(len(self.first.loss), len(self.second.loss))
        # Errors of weights, exponentials of rounded losses, running sums, a blocked sum, and Z.
        self.error = (
            running_sum_error(terms)
            + UNIT_ROUNDOFF * (5 * len(kinds) + math.log2(terms) + 160)
            + self.loss_error
            + FUNCTION_ERROR * (8 + abs(self.log_scale))
        )
        """Relative error of tails."""
        self.profile_error = self.error + 32 * UNIT_ROUNDOFF * terms
        """Relative error of a profile by sums without differences."""

    def log_tails(self, thresholds: FloatArray, *, closed: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return ln P(loss > c), or ln P(loss >= c) with `closed`, under H0 and under H1 at each threshold c (nats).

        Both have the shape of `thresholds`. The logarithm of 0 is -inf.
        """
        found = np.empty((2, len(thresholds)))
        count_work(A_READING + A_TERM * len(thresholds) * len(self.first.loss))
        for rows, indices, _ in self._positions(thresholds, "left" if closed else "right"):
            for hypothesis in (0, 1):
                terms = self.second.tails[hypothesis][indices] * self.first.masses[hypothesis]
                with np.errstate(divide="ignore"):
                    found[hypothesis, rows] = np.log(terms.sum(axis=1)) + self.log_scale
        return found[0], found[1]

    def log_profile(self, epsilon: FloatArray) -> FloatArray:
        """Return ln delta(eps) within `profile_error`, in the shape of `epsilon` (nats).

        delta(eps) = 2 e^{eps/2} Z sum w sinh((loss - eps)/2) over losses above eps, with the weights w of the losses
        and their common factor Z. The caller must also allow for a change of eps by `loss_error`.
        """
        found = np.empty(len(epsilon))
        count_work(A_READING + A_TERM * len(epsilon) * len(self.first.loss))
        even, odd = self.second.hyperbolic
        losses = np.append(self.second.loss, np.inf)
        for rows, indices, rest in self._positions(epsilon, "right"):
            gap = 0.5 * np.where(indices < len(losses) - 1, losses[indices] - rest, 0.0)
            terms = (np.cosh(gap) * odd[indices] + np.sinh(gap) * even[indices]) * self.first.weight
            with np.errstate(divide="ignore"):
                found[rows] = np.log(terms.sum(axis=1)) + 0.5 * epsilon[rows] + math.log(2) + self.log_scale
        return found

    def _positions(
        self, thresholds: FloatArray, side: Literal["left", "right"]
    ) -> Iterator[tuple[slice, IndexArray, FloatArray]]:
        """Yield, for groups of thresholds c, the rows of the group, and indices and thresholds in a second list.

        The loss of a run is the sum of a loss from each of two lists. The thresholds of the second list are c less each
        loss of the first list, shape (rows, losses of the first list). The indices are those of its first losses above,
        in the same shape; `side` "left" includes a loss equal to the threshold, and "right" does not.
        """
        size = max(1, CHUNK // len(self.first.loss))
        for start in range(0, len(thresholds), size):
            rows = slice(start, start + size)
            rest = thresholds[rows, None] - self.first.loss
            yield rows, np.searchsorted(self.second.loss, rest, side=side), rest
