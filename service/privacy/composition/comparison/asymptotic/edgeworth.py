"""The `edgeworth` engine: law of the total loss as a normal law with corrections from its cumulants."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from numpy.polynomial import hermite_e
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
from service.privacy.errors import OutOfDomain
from service.privacy.losses.law import ComposedLoss, Hypothesis
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.pair import TradeOffPair

LARGEST_ORDER = 4
STANDARDISED = np.linspace(-FARTHEST_SCORE, FARTHEST_SCORE, 1801)
SOURCE = "Kaissis et al. 2023 (ReRo), section 4; Petrov 1975, chapter VI (Edgeworth series)"


def edgeworth_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Build the curves of the Edgeworth series of `options.order` for the loss S of a run.

    Parameters
    ----------
    steps : Steps
        The run.
    options : EngineOptions
        `order` 0 means normal laws with the exact moments of H0 and H1. Each order adds the terms of the next power of
        N^-1/2, for N steps. Order 4 uses the sixth cumulant.

    Raises
    ------
    UnsupportedCombination
        With field `method`, for singular mass (outcomes that only one hypothesis has) or a loss of variance 0.
    OutOfDomain
        For an order outside 0 to 4.

    Notes
    -----
    Let x be the standardised threshold (c - E S)/sd(S), l_k the standardised cumulants of S, and He_j the Hermite
    polynomials. Then P(S > c) = Phi(-x) + phi(x) sum_j c_j He_j(x), with c_j from the l_k (`tail_series`). The series
    is exact for Gaussian steps. The error at fixed x is of the order N^{-(order + 1)/2} and has either sign. The series
    is useless if few steps carry the loss (sampled steps of rate p with N p below about 10) and in far tails. A note
    then says so.
    """
    if options.order not in range(LARGEST_ORDER + 1):
        raise OutOfDomain("order", options.order, f"an integer in [0, {LARGEST_ORDER}]")
    loss = composed_loss(steps, "edgeworth")
    tails = EdgeworthTails(loss, options.order)
    add = ApproximateTradeOff(loss, tails, "edgeworth")
    reason = (
        f"edgeworth: series of order {options.order} from numerical cumulants; the result is an "
        "approximation without bounds (/errata#rero-edgeworth)."
    )
    return TradeOffPair(add, add.reversed(), SOURCE, (reason, *warnings_of(tails, "edgeworth")))


@final
class EdgeworthTails(ApproximateTails):
    """Tail probabilities of the loss by the Edgeworth series.

    The parameter that indexes the tails is the threshold of the loss itself.
    """

    def __init__(self, loss: ComposedLoss, order: int) -> None:
        super().__init__(loss)
        self._series = tuple(tail_series(one, order) for one in self.cumulants)

    @override
    def grid(self, hypothesis: Hypothesis) -> FloatArray:
        return self.means[hypothesis] + self.deviations[hypothesis] * STANDARDISED

    @override
    def thresholds(self, parameters: FloatArray) -> FloatArray:
        return parameters

    @override
    def parameters_of(self, thresholds: FloatArray) -> FloatArray:
        return thresholds

    @override
    def log_tails(self, hypothesis: Hypothesis, parameters: FloatArray) -> ApproximateLogTails:
        x = (parameters - self.means[hypothesis]) / self.deviations[hypothesis]
        return ApproximateLogTails.of_normal_form(
            x, np.asarray(hermite_e.hermeval(x, self._series[hypothesis]), dtype=np.float64)
        )


def tail_series(cumulants: FloatArray, order: int) -> FloatArray:
    """Return the coefficients c_j of He_j(x), j = 0 to 11, in the Edgeworth series of a tail, shape (12,).

    The series is P(S > c) = Phi(-x) + phi(x) sum_j c_j He_j(x), with the standardised value x of the threshold c and
    the Hermite polynomials He_j. `cumulants` has the first six cumulants of S. Source: Petrov 1975. `order` is the
    highest power of 1/sqrt(number of steps) in the series.
    """
    deviation = math.sqrt(cumulants[1])
    # Two divisions: the square of the variance is a double, but its third power may be out of range.
    l3, l4, l5, l6 = (float(cumulants[k - 1]) / deviation**2 / deviation ** (k - 2) for k in range(3, 7))
    terms = (
        {2: l3 / 6},
        {3: l4 / 24, 5: l3**2 / 72},
        {4: l5 / 120, 6: l3 * l4 / 144, 8: l3**3 / 1296},
        {5: l6 / 720, 7: l4**2 / 1152 + l3 * l5 / 720, 9: l3**2 * l4 / 1728, 11: l3**4 / 31104},
    )
    series = np.zeros(12)
    for added in terms[:order]:
        for degree, coefficient in added.items():
            series[degree] += coefficient
    return series
