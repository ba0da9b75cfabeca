"""The curve of (eps, delta)-DP at its limits: tiny eps, tiny rates, rates near 1 - delta; at 900 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff

EPSILONS = (0.0, 5e-324, 1e-300, 1e-20, 0.3, 1.0, 40.0, 699.0, 701.0, 1e6)
EDGES = [(0.3, 0.7), (0.1, 0.9), (0.7, 0.3), (0.4, 0.6), (0.25, 0.75), (1 / 3, 2 / 3), (0.9, 0.1)]
TINY = [(5e-324, 5e-324), (1e-310, 0.0), (1e-300, 1e-87), (1e-12, 0.0), (0.5, 5e-324), (1 - 2.0**-53, 1e-16)]


@pytest.mark.parametrize("eps", EPSILONS)
def test_points_at_limits_match_900_digits(eps: float) -> None:
    for rate, delta in EDGES + TINY:
        for moved in (np.nextafter(delta, 0), delta, np.nextafter(delta, 1)):
            points = ApproximateDpTradeOff(eps, float(moved)).points(np.array([rate]))
            with mpmath.workdps(900):
                growth, rest = mpmath.exp(mpf(eps)), 1 - mpf(float(moved))
                error = max(mpf(0), rest - growth * mpf(rate), (rest - mpf(rate)) / growth)
                for bounds, truth in ((points.type_two_error, error), (points.power, 1 - error)):
                    assert mpf(float(bounds.lower[0])) <= truth <= mpf(float(bounds.upper[0]))


def test_power_is_never_below_rate_for_tiny_epsilon() -> None:
    for eps, delta in ((5e-324, 0.0), (1e-18, 0.0), (0.0, 1e-87)):
        rates = np.array([1e-310, 1e-100, 1e-9, 0.5])
        power = ApproximateDpTradeOff(eps, delta).points(rates).power
        assert (power.lower >= rates).all()
        assert power.log_lower is not None
        assert np.isfinite(power.log_lower).all()
