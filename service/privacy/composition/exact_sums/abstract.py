"""Common parts of the curves of exact sums: points above 1/2, profiles at negative epsilons, and epsilons of 0.

The profile is the function delta(epsilon), and a rate is a false positive rate.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import LogBounds, log
from service.privacy.trade_off.enclosed.weighted_sums import SLACK, log_sum
from service.privacy.trade_off.self_inverse import AbstractSelfInverse


class AbstractExactSum(AbstractSelfInverse):
    """Trade-off curve of a run of bounded losses that is symmetric under swapped hypotheses.

    Notes
    -----
    False positive rates above 1/2 are evaluated at their complements, which are exact. Negative epsilons follow from
    positive ones by delta(-e) = 1 - e^-e + e^-e delta(e).

    `_largest` is the largest loss of the run in nats. A result is the logarithm v <= 0 of a sum of positive terms. The
    logarithm of each term is v - x with x >= 0. A relative error r of a term's logarithm changes v by at most r |v - x|
    e^-x, which is at most r (|v| + 1/e). The slack of `log_sum`, relative to 1 + |v|, covers this change.

    A subclass sets `_largest` and supplies bounds of points (`_points_of_half`) and of the profile (`_log_profile`).
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"
    _largest: Enclosure
    """Sum of the largest losses of all steps."""

    @property
    @final
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._largest

    @final
    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        rows = np.empty((6, len(alpha)))
        with np.errstate(all="ignore"):
            for low in (True, False):
                which = np.flatnonzero((alpha <= 0.5) == low)
                if len(which):
                    rows[:, which] = self._points_of_half(alpha[which] if low else 1 - alpha[which], low=low)
        return CurvePoints(
            EnclosureArray.from_logs(rows[2], rows[3]),
            EnclosureArray.from_logs(rows[0], rows[1]),
            EnclosureArray(rows[4], rows[5]),
        )

    @abstractmethod
    def _points_of_half(self, rates: FloatArray, *, low: bool) -> FloatArray:
        """Return bounds of ln power, ln type II error and the log slope c, shape (6, n).

        The rows are the lower and the upper bound of ln power, then those of ln type II error, then those of c. The
        slope of the power in the false positive rate is e^c, so c is a loss in nats. The false positive rates are
        `rates` in (0, 1/2], shape (n,), with `low`, and 1 - `rates` otherwise.
        """

    @final
    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        with np.errstate(all="ignore"):
            positive = self._log_profile(np.abs(epsilon))
            e, negative = np.minimum(epsilon, 0.0), epsilon < 0
            start = np.where(e < -1, np.log1p(-np.exp(e)), log(-np.expm1(e)))  # within a relative SLACK
            lower, upper = (
                np.where(negative, log_sum(start, e + end, side), end)
                for side, end in zip((-1, 1), positive, strict=True)
            )
            lower = np.where(negative, np.maximum(lower, start * (1 + SLACK) - SMALLEST), lower)
            return EnclosureArray.from_logs(np.minimum(lower, 0.0), np.minimum(upper, 0.0))

    @abstractmethod
    def _log_profile(self, epsilon: FloatArray) -> LogBounds:
        """Return lower and upper bounds of ln delta(epsilon) at finite epsilon >= 0 (nats), in its shape."""

    @final
    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        if self.profile_at(0.0).upper <= delta:
            return Enclosure(0.0, 0.0, self.evidence)
        with np.errstate(all="ignore"):
            return self._epsilon_of_less(delta)

    def _epsilon_of_less(self, delta: float) -> Enclosure:
        """Return an enclosure of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta.

        The given delta is below the upper bound of delta(0), but perhaps not below delta(0) itself. By default the
        result is the root of the privacy profile in [0, largest loss].
        """
        return decreasing_root(self._profile_formula, delta, 0.0, self._largest.upper, self.evidence)
