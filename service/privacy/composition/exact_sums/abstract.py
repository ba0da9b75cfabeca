"""What the curves of exact sums share: points above 1/2, the profile at negative epsilons, and epsilons of 0."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.enclosed.logs import LogBounds, log
from service.privacy.trade_off.enclosed.weighted_sums import SLACK, log_sum
from service.privacy.trade_off.self_inverse import AbstractSelfInverse


class AbstractExactSum(AbstractSelfInverse):
    """The curve of a run of bounded losses whose hypotheses may be swapped.

    Rates above 1/2 are evaluated at their complements, which are exact. Negative epsilons follow from positive ones by
    delta(-e) = 1 - e^-e + e^-e delta(e).
    With v <= 0 the logarithm of this sum, each term's is v - x, x >= 0; its relative error times |v - x| e^-x, what it
    adds to v, is at most that error times |v| + 1/e. So the slack of `log_sum`, relative to 1 + |v|, covers it.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"
    _largest: Enclosure
    """The sum of the largest losses of all steps."""

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
    def _points_of_half(self, level: FloatArray, *, low: bool) -> FloatArray:
        """Return both bounds of ln power, of ln type II error and of the log slope, shape (6, n), at the rates `level`
        in (0, 1/2] where `low` is true, else at the rates 1 - `level`.
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
        """Return bounds of ln delta(epsilon) for finite epsilon >= 0."""

    @final
    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        if self.profile_at(0.0).upper <= delta:
            return Enclosure(0.0, 0.0, self.evidence)
        with np.errstate(all="ignore"):
            return self._epsilon_of_less(delta)

    @abstractmethod
    def _epsilon_of_less(self, delta: float) -> Enclosure:
        """Return the smallest epsilon >= 0 with a profile of at most delta, where delta may be below delta(0)."""
