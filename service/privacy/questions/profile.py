"""Epsilon and delta of a curve: the two questions about its privacy profile."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE = "Dong, Roth, Su 2022 (Gaussian differential privacy), Proposition 2.13 (profile as convex conjugate)"

NO_PURE_EPSILON: Final = "Infinite: likelihood ratios are unbounded. Send a delta above 0."
NO_EPSILON: Final = (
    "Infinite: outputs that are possible under only one of the two data sets have more "
    "probability than this delta. Send a larger delta."
)


def epsilon(curve: AbstractTradeOff, delta: float) -> Reading:
    """Return the smallest eps >= 0 (nats) at which a curve satisfies (eps, delta)-DP: delta(eps) <= delta.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    delta : float
        In [0, 1].

    Returns
    -------
    Reading
        The eps. It is infinite, with a note, if no finite eps satisfies the condition. The upper bound never overstates
        privacy.

    Raises
    ------
    OutOfDomain
        If delta is outside [0, 1].
    """
    found = curve.epsilon(delta)
    notes = () if found.lower < math.inf else (NO_PURE_EPSILON if delta == 0 else NO_EPSILON,)
    return Reading(found, "upper", SOURCE, notes)


def delta(curve: AbstractTradeOff, epsilon: float) -> Reading:
    """Return the smallest delta at which a curve satisfies (eps, delta)-DP.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    epsilon : float
        eps in nats, any double except NaN.

    Returns
    -------
    Reading
        delta(eps) = sup_alpha power(alpha) - e^eps alpha, in [0, 1]. The upper bound never overstates privacy.
    """
    return Reading(curve.profile_at(epsilon), "upper", SOURCE)
