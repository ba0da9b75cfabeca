"""Laws of listed losses around shuffled binary responses: their masses sum to 1 and have digits, and they are near."""

from __future__ import annotations

import numpy as np
import pytest

from service.privacy.mechanisms.shuffled.steps import HeldOnes
from service.privacy.trade_off.atoms import AtomsTradeOff

RATES = np.array([1e-30, 1e-6, 0.01, 0.3, 0.9])


@pytest.mark.parametrize("exchanged", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_listed_laws_of_large_epsilons_bound_the_responses(seed: int, exchanged: bool) -> None:
    """Both laws sum to 1 and bound profile and powers from their side, the upper one to 3 % at epsilon 0."""
    random = np.random.default_rng([20261210, seed])
    reports, epsilon = int(10 ** random.uniform(2, 4)), float(random.uniform(3, 9))
    step = HeldOnes(
        reports=reports, epsilon=epsilon, others=int(random.integers(reports // 8, reports // 3)), exchanged=exchanged
    )
    law, truth = step.atomic_law(), step.curves().add
    if law is None:  # another engine serves these responses
        return
    assert law.mass_error <= 1e-5
    for logs in (law.log_absent, law.log_present):
        assert abs(np.exp(logs).sum() - 1) <= 1e-6
    curve = AtomsTradeOff(law)
    found, known = curve.power(RATES), truth.power(RATES)
    at_zero, exact = curve.profile_at(0.0), truth.profile_at(0.0)
    if exchanged:
        assert (found.upper >= known.lower).all()
        assert exact.lower <= at_zero.upper <= 1.03 * exact.upper
    else:
        assert (found.lower <= known.upper).all()
        assert at_zero.lower <= exact.upper
