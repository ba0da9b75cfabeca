"""Reconstruction robustness: the help that a release gives to reconstruct a record."""

from __future__ import annotations

from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE = "Kaissis et al. 2023 (ReRo), Theorem 1: gamma(kappa) = 1 - f(kappa)"


def gamma(curve: AbstractTradeOff, baseline_success: float) -> Reading:
    """Return the largest probability of reconstructing a record with the release, gamma(kappa) = 1 - f(kappa).

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve f.
    baseline_success : float
        Chance kappa of reconstruction without the release, in [0, 1].

    Returns
    -------
    Reading
        The enclosure of the power of the curve at kappa. The upper bound never overstates privacy.

    Raises
    ------
    OutOfDomain
        If kappa is outside [0, 1].
    """
    return Reading(curve.power_at(baseline_success), "upper", SOURCE)
