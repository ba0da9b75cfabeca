"""Generalised likelihood ratio test (GLRT) adversary: reference rows, the paper's figures, errata and laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.questions import membership
from service.privacy.threat_models.glrt import Glrt
from service.privacy.threat_models.mixture import Adversary, AdversaryMixture
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, sampled
from tests.privacy.references import meets, number, rows
from tests.slow_marker import sample_of

ROWS = [row for row in rows("glrt") if row["quantity"] not in ("eq 36", "mu eq 37")]
FIGURE_5 = {"type": "repeated", "mechanism": gaussian(10.0), "steps": 1000}
SEVENTY = {"type": "repeated", "mechanism": gaussian(6.0), "steps": 70}
RATES = np.concatenate((np.geomspace(1e-300, 1e-3, 8), np.linspace(0.01, 0.99, 9), 1 - np.geomspace(1e-3, 1e-12, 4)))
EPSILONS = np.array([-30.0, -1.5, -0.3, -1e-3, 0.0, 1e-3, 0.2, 0.9, 2.0, 5.0])


@cache
def curves(dimension: int, noise: float, rate: float = 1.0) -> TradeOffPair:
    return Glrt(dimension=dimension).curves(built(sampled(rate, gaussian(noise))))


def of_row(row: dict[str, Any]) -> TradeOffPair:
    given = row["inputs"]
    if "N" in given:
        run = {"type": "repeated", "mechanism": gaussian(1 / number(given["delta_over_sigma"])), "steps": given["N"]}
        return Glrt(dimension=given["d"]).curves(built(run))
    if row["notion"] == "npo-gaussian":
        return WorstCase().curves(built({"type": "gdp", "mu": number(given["s"])}))
    # s = 1/noise_multiplier: the rounding of the quotient is far below the requested width.
    return curves(given["d"], 1 / number(given["s"]))


def half_and_half(share: float, noise: float) -> TradeOffPair:
    parts = (
        Adversary(weight=share, threat_model=Glrt(dimension=1)),
        Adversary(weight=1 - share, threat_model=WorstCase()),
    )
    return AdversaryMixture(components=parts).curves(built(gaussian(noise)))


Read = Callable[[dict[str, Any], dict[str, Any]], Enclosure]
READINGS: dict[str, Read] = {
    "epsilon(delta) symmetrised": lambda row, x: of_row(row).both.epsilon(number(x["delta"])),
    "epsilon(delta) of R' alone": lambda row, x: of_row(row).remove.epsilon(number(x["delta"])),
    "epsilon(delta)": lambda row, x: of_row(row).both.epsilon(number(x["delta"])),
    "R(x)": lambda row, x: of_row(row).add.power_at(number(x["x"])),
    "R(x) exact": lambda row, x: of_row(row).add.power_at(number(x["x"])),
    "R(x) Corollary 1": lambda row, x: of_row(row).add.power_at(number(x["x"])),
    "NPO ROC": lambda row, x: of_row(row).add.power_at(number(x["x"])),
    "R'(x)": lambda row, x: of_row(row).remove.power_at(number(x["x"])),
    "delta_R(eps)": lambda row, x: of_row(row).add.profile_at(number(x["eps"])),
    "delta_R'(eps)": lambda row, x: of_row(row).remove.profile_at(number(x["eps"])),
    "balanced accuracy of the mixture": lambda _, x: (
        membership.attack_accuracy(half_and_half(number(x["p"]), 1 / number(x["s"])).both, 0.5).value
    ),
    "subsampled profile q*delta_s(log(1+(e^eps-1)/q))": lambda _, x: curves(
        x["d"], 1 / number(x["s"]), number(x["q"])
    ).both.profile_at(number(x["eps"])),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_curves_match_reference_rows(row: dict[str, Any]) -> None:
    read = READINGS[row["quantity"]](row, row["inputs"])
    assert meets(read, row)
    assert read.relative_width() <= 1e-9


@pytest.mark.parametrize(
    ("dimension", "noise", "delta", "glrt", "worst"),
    [
        (1, 1 / 0.3, 1e-4, 0.376756, 0.950073),
        (1, 1.0, 1e-4, 3.111439, None),
        (30, 1.0, 1e-4, 0.461223, None),
        (1, 6 / math.sqrt(70), 1e-2, 2.943660, 3.636734),
        (1, 7 / math.sqrt(200), 1e-2, 5.390745, 6.083892),
        (50, 7 / math.sqrt(200), 1e-2, 0.759890, 6.083892),
    ],
    ids=["figure_1", "figure_3", "figure_3_wide", "figure_9", "figure_10", "figure_10_wide"],
)
def test_epsilon_matches_figures_of_paper(
    dimension: int, noise: float, delta: float, glrt: float, worst: float | None
) -> None:
    found = curves(dimension, noise).both.epsilon(delta)
    assert found.lower - 5e-7 <= glrt <= found.upper + 5e-7
    if worst is not None:
        beside = WorstCase().curves(built(gaussian(noise))).both.epsilon(delta)
        assert beside.lower - 5e-7 <= worst <= beside.upper + 5e-7


def test_every_reference_row_is_tested() -> None:
    assert {row["quantity"] for row in ROWS} == set(READINGS)


def test_composed_step_profile_is_no_bound_for_common_direction() -> None:
    """Composing the profile of one step gives no bound if all steps have one unknown direction.

    Theorem 2 gives epsilon 2.9437 and delta(0) 0.352, the composition 0.2135 and 0.0645. This is the erratum
    `glrt-composition` of the guide.
    """
    common = Glrt(dimension=1).curves(built(SEVENTY))
    fresh = Glrt(dimension=1, unknown_direction="fresh_each_step").curves(built(SEVENTY))
    assert common.both.epsilon(1e-2).upper == pytest.approx(2.9437, abs=5e-5)
    assert fresh.add.epsilon(1e-2).upper == pytest.approx(0.2135, abs=5e-5)
    assert fresh.remove.epsilon(1e-2).upper == pytest.approx(0.1765, abs=5e-5)
    assert common.both.profile_at(0.0).upper == pytest.approx(0.352, abs=5e-4)
    assert fresh.add.profile_at(0.0).upper == pytest.approx(0.0645, abs=5e-5)
    assert "no bound" in fresh.notes[0]
    assert fresh.add.evidence == Evidence.CERTIFIED


def test_limit_of_many_dimensions_differs_from_exact_curve() -> None:
    """Equation 44 gives the powers 0.0316419 and 0.653684, the exact curve 0.0285377 and 0.655162.

    This is the erratum `glrt-equation-35` of the guide.
    """
    limit, exact = (Glrt(dimension=300).curves(built(FIGURE_5), method) for method in ("clt", "auto"))
    rates = np.array([0.01, 0.5])
    assert limit.add.power(rates).upper == pytest.approx([0.0316419, 0.653684], abs=5e-7)
    assert exact.add.power(rates).upper == pytest.approx([0.0285377, 0.655162], abs=5e-7)
    assert limit.add.evidence == Evidence.ASYMPTOTIC
    # The inverse function, and the profile as the largest gap to a line.
    back = limit.remove.power(1 - limit.add.power(rates).upper).upper
    assert back == pytest.approx(1 - rates, rel=1e-12)
    fine = np.linspace(1e-4, 1 - 1e-4, 20_001)
    for direction in (limit.add, limit.remove):
        power = direction.power(fine).upper
        for eps in (-0.2, 0.0, 0.5):
            assert direction.profile_at(eps).upper == pytest.approx((power - math.exp(eps) * fine).max(), rel=1e-6)


@pytest.mark.parametrize("dimension", [10_000, 10**6])
def test_exact_curve_approaches_limit(dimension: int) -> None:
    noise = (2 * dimension) ** -0.25  # lambda/sqrt(2 d) = 1
    model, mechanism = Glrt(dimension=dimension), built(gaussian(noise))
    exact, limit = (model.curves(mechanism, method).add.power(RATES[8:]).upper for method in ("auto", "clt"))
    assert exact == pytest.approx(limit, rel=5 / math.sqrt(dimension))


PAIRS = [
    (1, 0.05, 1.0),
    (1, 1.0, 1.0),
    (2, 100.0, 1.0),
    (30, 0.7, 1.0),
    (10**6, 0.2, 1.0),
    (1, 1.0, 0.2),
    (30, 0.5, 0.01),
]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids=str)


@sample_of(7)
@every_pair
@pytest.mark.parametrize("direction", ["add", "remove", "both"])
def test_curves_satisfy_trade_off_laws(pair: tuple[int, float, float], direction: str) -> None:
    curve = getattr(curves(*pair), direction)
    rates = RATES if pair[2] == 1 else RATES[3:]
    points = curve.points(rates)
    for bounds in (points.type_two_error, points.power, curve.profile(EPSILONS)):
        assert ((bounds.lower >= 0) & (bounds.lower <= bounds.upper) & (bounds.upper <= 1)).all()
        assert bounds.log_lower is None or (bounds.log_lower <= bounds.log_upper).all()
    error, power, slope = points.type_two_error, points.power, points.log_slope
    assert (power.lower[:-1] <= power.upper[1:]).all()
    assert (error.lower[1:] <= error.upper[:-1]).all()
    assert (slope.lower[1:] <= slope.upper[:-1]).all()
    assert (rates <= power.upper).all()
    assert np.allclose(error.upper + power.upper, 1, atol=1e-9)
    share = (rates[2:] - rates[1:-1]) / (rates[2:] - rates[:-2])
    chord = share * error.upper[:-2] + (1 - share) * error.upper[2:]
    assert (error.lower[1:-1] <= chord * (1 + 1e-14)).all()
    # The profile is the largest gap between the power and a line, attained where the slopes are equal.
    for eps, delta in zip(EPSILONS, curve.profile(EPSILONS).upper, strict=True):
        assert (power.lower - math.exp(eps) * rates <= delta * (1 + 1e-12) + 1e-15).all()
    slopes = np.clip(0.5 * (slope.lower + slope.upper), -600, 600)
    gaps = curve.profile(slopes)
    reached = power.upper - np.exp(slopes) * rates
    inner = (rates > 1e-3) & (rates < 0.999) & np.isfinite(slope.lower) & np.isfinite(slope.upper)
    assert np.allclose(gaps.upper[inner], reached[inner], rtol=1e-6, atol=1e-10)


@every_pair
def test_directions_are_inverse_functions(pair: tuple[int, float, float]) -> None:
    both = curves(*pair)
    rates = np.array([1e-9, 1e-3, 0.2, 0.7])
    errors = both.add.type_two_error(rates)
    back = both.remove.type_two_error(0.5 * (errors.lower + errors.upper))
    assert np.allclose(back.upper, rates, rtol=1e-6)
    profiles = [curve.profile(EPSILONS) for curve in (both.add, both.remove, both.both)]
    assert (profiles[2].upper == np.maximum(profiles[0].upper, profiles[1].upper)).all()
    # delta_add(-e) = 1 - e^-e + e^-e delta_remove(e)
    for eps in (0.3, 2.0):
        there, back_again = both.add.profile_at(-eps), both.remove.profile_at(eps)
        assert there.upper == pytest.approx(-math.expm1(-eps) + math.exp(-eps) * back_again.upper, rel=1e-9)


@sample_of(4)
@every_pair
def test_glrt_is_never_stronger_than_worst_case(pair: tuple[int, float, float]) -> None:
    dimension, noise, rate = pair
    relaxed, worst = curves(dimension, noise, rate), WorstCase().curves(built(sampled(rate, gaussian(noise))))
    rates = np.array([1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9])
    for direction in ("add", "remove", "both"):
        weaker, stronger = getattr(relaxed, direction), getattr(worst, direction)
        assert (weaker.power(rates).lower <= stronger.power(rates).upper).all()
        assert (weaker.profile(EPSILONS).lower <= stronger.profile(EPSILONS).upper).all()
        assert weaker.epsilon(1e-5).lower <= stronger.epsilon(1e-5).upper


def test_steps_of_different_noise_add_noncentralities() -> None:
    """Steps with different noise add their noncentralities, here 1/2^2 + 3/1^2 = 13/4.

    That is the noncentrality of one step with noise sqrt(4/13).
    """
    parts = {
        "type": "composed",
        "mechanisms": [gaussian(2.0), {"type": "repeated", "mechanism": gaussian(1.0), "steps": 3}],
    }
    run, single = Glrt(dimension=7).curves(built(parts)), curves(7, math.sqrt(4 / 13))
    assert run.add.power(RATES[8:]).upper == pytest.approx(single.add.power(RATES[8:]).upper, rel=1e-11)
    full = Glrt(dimension=7).curves(built(dpsgd(2.0, 1.0, 13)))
    assert full.add.power(RATES[8:]).upper == pytest.approx(run.add.power(RATES[8:]).upper, rel=1e-11)


def test_single_step_has_same_curve_with_fresh_direction() -> None:
    fresh = Glrt(dimension=3, unknown_direction="fresh_each_step")
    assert fresh.curves(built(gaussian(1.0))).both.epsilon(1e-5) == curves(3, 1.0).both.epsilon(1e-5)
    composed = fresh.curves(built(gaussian(1.0)), "discretised").add.profile_at(0.5)
    exact = curves(3, 1.0).add.profile_at(0.5)
    assert composed.lower <= exact.upper
    assert exact.lower <= composed.upper
    assert composed.relative_width() < 1e-5


def test_mixture_with_worst_case_is_linear_in_profile() -> None:
    """Profiles and balanced accuracy of a mixture with the worst case are linear in its share.

    At a single rate, the power exceeds the average of both powers.
    """
    relaxed, worst = curves(1, 1.0), WorstCase().curves(built(gaussian(1.0)))
    rates = np.array([1e-6, 0.05, 0.8])
    accuracy = [membership.attack_accuracy(pair.both, 0.5).value.upper for pair in (relaxed, worst)]
    for share in (0.25, 0.75):
        mixed = half_and_half(share, 1.0)
        for direction in ("add", "remove"):
            parts = [getattr(pair, direction).profile(EPSILONS) for pair in (relaxed, worst, mixed)]
            expected = share * parts[0].upper + (1 - share) * parts[1].upper
            assert parts[2].upper == pytest.approx(expected, rel=1e-11)
            powers = [getattr(pair, direction).power(rates) for pair in (relaxed, worst, mixed)]
            assert (powers[2].lower > share * powers[0].upper + (1 - share) * powers[1].upper).all()
            assert _narrow(powers[2])
        balanced = membership.attack_accuracy(mixed.both, 0.5).value.upper
        assert balanced == pytest.approx(share * accuracy[0] + (1 - share) * accuracy[1], rel=1e-11)


def _narrow(bounds: EnclosureArray) -> bool:
    return bool((bounds.upper / bounds.lower < 1 + 1e-6).all())


def test_global_gdp_mu_equals_that_of_worst_case() -> None:
    found = curves(3, 0.5).both.global_gdp_mu
    assert found is not None
    assert found.lower <= 2 <= found.upper
