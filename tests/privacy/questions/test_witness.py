"""Witnesses: a valid bound is never refuted, and an invalid bound is refuted at its worst point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.questions import gaussian_dp
from service.privacy.questions.witness import (
    SupportingLine,
    witness_above_gaussian,
    witness_above_line,
    witness_at,
    witness_at_common_rates,
)
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

CURVES: dict[str, AbstractTradeOff] = {
    "weak": gaussian_curve(Enclosure.point(1e-4)),
    "gaussian": gaussian_curve(Enclosure.point(1.0)),
    "strong": gaussian_curve(Enclosure.point(6.0)),
    "laplace": WorstCase().curves(Laplace(noise_multiplier=0.8)).add,
    "pure": WorstCase().curves(PureDp(epsilon=1.3)).add,
}
SLOPES = (-1.5, -0.2, 0.0, 0.1, 0.9, 3.0)


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("slope", SLOPES)
def test_only_invalid_supporting_lines_are_refuted(name: str, slope: float) -> None:
    curve = CURVES[name]
    delta = curve.profile_at(slope)
    assert witness_above_line(curve, SupportingLine(slope, delta.upper)) is None
    if delta.lower < 1e-100:  # The attack would need a rate or a margin that doubles cannot represent.
        return
    for share in (0.5, 1 - 1e-6):
        line = SupportingLine(slope, delta.lower * share)
        found = witness_above_line(curve, line)
        assert found is not None
        assert found.power.lower > found.allowed == line.at(found.false_positive_rate)
        assert found.power == curve.power_at(found.false_positive_rate)


def test_allowance_of_line_is_rounded_upwards() -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        slope, offset, rate = random.uniform(-20, 20), random.uniform(-0.1, 1), 10 ** random.uniform(-300, 0)
        assert SupportingLine(slope, offset).at(rate) > math.exp(slope) * rate + offset
    assert SupportingLine(1000.0, 0.0).at(1e-300) > 1
    assert SupportingLine(1000.0, 0.25).at(0.0) == pytest.approx(0.25)


@pytest.mark.parametrize("name", CURVES)
def test_valid_ratios_are_not_refuted(name: str) -> None:
    curve = CURVES[name]
    assert witness_at_common_rates(curve, SupportingLine(min(curve.largest_log_ratio.upper, 1e6) + 1e-9, 0.0)) is None
    assert witness_at_common_rates(curve, SupportingLine(math.inf, 0.0)) is None
    assert witness_at_common_rates(curve, SupportingLine(-0.01, 0.0)) is not None


@pytest.mark.parametrize("name", ["gaussian", "laplace", "strong"])
def test_only_mu_below_the_supremum_is_refuted(name: str) -> None:
    curve = CURVES[name]
    mu = gaussian_dp.mu(curve, 1e-9, 1e-9).value
    assert witness_above_gaussian(curve, mu.upper, 1e-9, 1e-9) is None
    found = witness_above_gaussian(curve, mu.lower * 0.999, 1e-9, 1e-9)
    assert found is not None
    assert found.power.lower > found.allowed
    assert witness_above_gaussian(curve, 0.0, 0.6, 0.6) is None  # The range contains no rate.


def test_only_power_above_the_limit_is_refuted() -> None:
    curve = CURVES["gaussian"]
    power = curve.power_at(0.1)
    assert witness_at(curve, 0.1, power.upper) is None
    assert witness_at(curve, 0.1, math.nextafter(power.lower, 0)) is not None
