"""The `saddlepoint` engine: Lugannani-Rice approximation of the tails of a run's total loss."""

from __future__ import annotations

import math
from functools import cached_property
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.composition.comparison.asymptotic.tails_curve import (
    FARTHEST_SCORE,
    ApproximateLogTails,
    ApproximateTails,
    ApproximateTradeOff,
    composed_loss,
    warnings_of,
)
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.losses.law import ComposedLoss, Hypothesis
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.trade_off.pair import TradeOffPair

SOURCE = "Lugannani, Rice 1980; Daniels 1987 (tail probability approximations)"
NEAR_MEAN = 5e-3
"""Largest standardised tilt at which the correction is its expansion at the mean."""
STANDARDISED = FARTHEST_SCORE * np.sinh(np.linspace(-6, 6, 241)) / math.sinh(6)
"""Tilts in units of the inverse standard deviation, denser near 0.

With distant jumps of the loss, thresholds grow faster than tilts.
"""


def saddlepoint_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Build the curves of the Lugannani-Rice tails P(S > c) = Phi(-w) + phi(w) (1/u - 1/w) of the loss S.

    Parameters
    ----------
    steps : Steps
        The run.
    options : EngineOptions
        Not used.

    Raises
    ------
    UnsupportedCombination
        With field `method`, for singular mass (outcomes that only one hypothesis has) or a loss of variance 0.

    Notes
    -----
    K(s) = ln E0 e^{sS} is the log-moment function of the loss, and P_s the law tilted by e^{sS}. The tilt s solves
    K'(s) = c for the threshold c. For H0, w^2/2 = s K' - K = KL(P_s, P0) and u = s sqrt(K''). For H1, s - 1 and P1
    replace s and P0. w and u have the sign of s (s - 1 for H1). At the mean, the limit -l3/6 of the standardised third
    cumulant l3 replaces the difference 1/u - 1/w. The tails are exact for Gaussian steps. The relative error is about
    1/N for N steps in the bulk and in the tails, with either sign. The tails are meaningless if the loss has few
    values.
    """
    del options
    loss = composed_loss(steps, "saddlepoint")
    tails = SaddlepointTails(loss)
    add = ApproximateTradeOff(loss, tails, "saddlepoint")
    reason = (
        "saddlepoint: Lugannani-Rice tails of the numerical generating function; the result is an "
        "approximation without bounds."
    )
    return TradeOffPair(add, add.reversed(), SOURCE, (reason, *warnings_of(tails, "saddlepoint")))


@final
class SaddlepointTails(ApproximateTails):
    """Lugannani-Rice tails of a loss S, indexed by the tilt s of the threshold K'(s).

    K(s) = ln E0 e^{sS} is the log-moment function of S.
    """

    def __init__(self, loss: ComposedLoss) -> None:
        super().__init__(loss)
        self._loss = loss
        skewness = [float(one[2]) / one[1] ** 1.5 for one in self.cumulants]
        excess = [float(one[3]) / one[1] ** 2 for one in self.cumulants]
        self._at_mean = tuple(-l3 / 6 for l3 in skewness)
        self._slope_at_mean = tuple(5 * l3**2 / 24 - l4 / 8 for l3, l4 in zip(skewness, excess, strict=True))

    @override
    def grid(self, hypothesis: Hypothesis) -> FloatArray:
        return hypothesis + STANDARDISED / self.deviations[hypothesis]

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Increasing tilts s that cover both hypotheses from far left to far right, and their thresholds K'(s).

        K is the log-moment function of the loss. Both arrays have one axis.
        """
        tilts = np.unique(np.concatenate((self.grid(0), self.grid(1))))
        return tilts, np.maximum.accumulate(self.thresholds(tilts))

    @override
    def thresholds(self, parameters: FloatArray) -> FloatArray:
        return self._loss.generating(parameters).first

    @override
    def parameters_of(self, thresholds: FloatArray) -> FloatArray:
        tilts, reached = self._table
        right = np.clip(np.searchsorted(reached, thresholds), 1, len(tilts) - 1)
        return bracketed_roots(lambda s: thresholds - self.thresholds(s), tilts[right - 1], tilts[right])

    @override
    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def log_tails(self, hypothesis: Hypothesis, parameters: FloatArray) -> ApproximateLogTails:
        found = self._loss.generating(parameters)
        tilt = parameters - hypothesis
        half_square = found.divergence_from_one if hypothesis else found.divergence
        w = np.copysign(np.sqrt(2 * np.maximum(half_square, 0.0)), tilt)
        standardised = tilt * self.deviations[hypothesis]
        correction = np.where(
            (np.abs(standardised) < NEAR_MEAN) | (w == 0),
            self._at_mean[hypothesis] + self._slope_at_mean[hypothesis] * standardised,
            1 / (tilt * np.sqrt(found.second)) - 1 / w,
        )
        return ApproximateLogTails.of_normal_form(w, correction)
