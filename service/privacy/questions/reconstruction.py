"""Reconstruction robustness: how much a release helps to reconstruct a record."""

from __future__ import annotations

from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE = "Kaissis et al. 2023 (ReRo), Theorem 1: gamma(kappa) = 1 - f(kappa)"


def gamma(curve: AbstractTradeOff, baseline_success: float) -> Reading:
    """gamma(kappa) = 1 - f(kappa): largest chance of reconstruction with the release, kappa in [0, 1] being the chance
    without it.

    The ends are those of the curve's power. Raises OutOfDomain for a kappa outside [0, 1].
    """
    return Reading(curve.power_at(baseline_success), "upper", SOURCE)
