"""Scalar evaluation: the same truth as the array evaluation, also for curves with a separate implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff
from tests.privacy.cases import CASES, Case

SHIFTS = st.floats(-9, 4).map(lambda exponent: quotient(1.0, 10.0**-exponent))
RATES = st.one_of(
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.floats(-300, -1).map(lambda exponent: 10.0**exponent),
    st.floats(-15, -1).map(lambda exponent: 1 - 10.0**exponent),
)


def agree(one: Enclosure, other: Enclosure) -> bool:
    """Return whether the enclosures `one` and `other` meet, and neither is much wider."""
    widths = one.relative_width(), other.relative_width()
    meet = one.lower <= other.upper and other.lower <= one.upper
    return meet and max(widths) <= 4 * min(widths) + 1e-14


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scalar_evaluation_agrees_with_arrays(case: Case) -> None:
    curve = case.worst_case.add
    for rate in (0.0, 1e-9, 1e-3, 0.3, 0.999, 1.0):
        assert agree(curve.power_at(rate), curve.power(np.array([rate])).at(0, curve.evidence))
    for epsilon in (-math.inf, -2.0, 0.0, 0.7, 30.0, math.inf):
        assert agree(curve.profile_at(epsilon), curve.profile(np.array([epsilon])).at(0, curve.evidence))


@given(SHIFTS, RATES)
def test_power_of_shifted_laws_agrees_with_arrays(shift: Enclosure, rate: float) -> None:
    curves: tuple[AbstractTradeOff, ...] = (GaussianTradeOff(shift), LaplaceTradeOff(shift))
    for curve in curves:
        assert agree(curve.power_at(rate), curve.power(np.array([rate])).at(0, curve.evidence))


@given(SHIFTS, st.floats(0, 40))
def test_profile_of_gaussians_agrees_with_arrays(shift: Enclosure, quantile: float) -> None:
    curve = GaussianTradeOff(shift)
    epsilon = shift.upper * (quantile + 0.5 * shift.upper)
    assert agree(curve.profile_at(epsilon), curve.profile(np.array([epsilon])).at(0, curve.evidence))


@given(SHIFTS, RATES)
def test_epsilon_of_gaussians_inverts_the_profile(shift: Enclosure, delta: float) -> None:
    curve = GaussianTradeOff(shift)
    epsilon = curve.epsilon(delta)
    profile = curve.profile(np.array([epsilon.lower, epsilon.upper]))
    slack = 1e-15 * delta
    assert profile.lower[1] <= delta + slack
    assert epsilon.lower == 0 or profile.upper[0] >= delta - slack


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan])
def test_values_outside_domain_raise(wrong: float) -> None:
    curve = GaussianTradeOff(quotient(1.0, 2.0))
    with pytest.raises(OutOfDomain):
        curve.power_at(wrong)
    with pytest.raises(OutOfDomain):
        curve.profile_at(math.nan)
