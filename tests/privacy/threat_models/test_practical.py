"""Practical attacker: the curve of a stated PMP parameter, unsupported questions, and the worst case as a limit.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from service.privacy.composition.planning.cost import ONE_CURVE
from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.questions import membership, profile
from service.privacy.threat_models.practical import Practical
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from tests.privacy.cases import built, dpsgd, gaussian, laplace, mixture, sampled
from tests.privacy.references import rows
from tests.slow_marker import sample_of

PURE = {"type": "pure_dp", "epsilon": 4.0}
OPEN = {"type": "gaussian", "noise_multiplier": 1e-4}
"""The worst case of this mechanism reveals everything, so that only the stated parameter counts."""
NOISY_SGD = {
    "type": "noisy_sgd",
    "dataset_size": 1000,
    "batch_size": 100,
    "dimension": 10,
    "steps": 5,
    "noise_std": 1.0,
    "max_grad_norm": 10.0,
}


def practical(epsilon: float, delta: float = 0.0) -> Practical:
    return Practical(epsilon_pmp=epsilon, delta=delta)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, math.log(2), 1.0, 5.0, 40.0])
def test_success_and_eta_match_closed_form(epsilon: float) -> None:
    """The success of an attack under eps-PMP is 1/(1 + e^-eps), and eta = tanh(eps/2)/2 is half its advantage.

    eta is below the printed value (1 - e^-eps)/2. PMP is practical membership privacy: the attacker does not know which
    records were drawn.
    """
    curve = practical(epsilon).curves(built(OPEN)).add
    accuracy = membership.attack_accuracy(curve, 0.5).value
    assert accuracy.lower <= 1 / (1 + math.exp(-epsilon)) * (1 + 1e-15)
    assert accuracy.upper >= 1 / (1 + math.exp(-epsilon)) * (1 - 1e-15)
    assert accuracy.relative_width() <= (1e-14 if epsilon < 40 else 1e-9)
    advantage = membership.advantage(curve).value
    assert advantage.upper / 2 == pytest.approx(math.tanh(epsilon / 2) / 2, rel=1e-14)
    assert advantage.lower / 2 <= -math.expm1(-epsilon) / 2


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 0.01, 0.4, 1.0])
def test_success_with_delta_matches_closed_form(epsilon: float, delta: float) -> None:
    curve = practical(epsilon, delta).curves(built(OPEN)).both
    accuracy = membership.attack_accuracy(curve, 0.5).value
    assert accuracy.upper == pytest.approx((math.exp(epsilon) + delta) / (1 + math.exp(epsilon)), rel=1e-14)
    assert profile.delta(curve, epsilon).value.upper == delta
    if delta < 1:
        assert profile.epsilon(curve, delta).value.upper == epsilon


@pytest.mark.parametrize(
    "row", [row for row in rows("pmp") if row["id"].startswith("conv_")], ids=lambda row: row["id"]
)
def test_conversions_match_reference(row: dict[str, Any]) -> None:
    curve = practical(row["inputs"]["eps"]).curves(built(OPEN)).add
    if row["id"].startswith("conv_mip"):
        assert membership.advantage(curve).value.upper / 2 == pytest.approx(row["value"], rel=1e-14)
    else:
        assert membership.attack_accuracy(curve, 0.5).value.upper == pytest.approx(row["value"], rel=1e-14)


@pytest.mark.parametrize(
    ("spec", "relation"),
    [
        (PURE, "replace_one"),
        (gaussian(1.0), "replace_one"),
        (laplace(1.0), "replace_one"),
        (NOISY_SGD, "replace_one"),
        (sampled(1.0, gaussian(1.0)), "replace_one"),
        (sampled(0.1, gaussian(1.0)), "replace_one"),
        (dpsgd(1.0, 0.1, 10), "replace_one"),
        (sampled(0.1, laplace(1.0)), "add_or_remove_one"),
        (mixture((0.5, gaussian(1.0)), (0.5, sampled(0.1, laplace(1.0)))), "add_or_remove_one"),
        (mixture((0.5, gaussian(1.0)), (0.5, gaussian(2.0))), "replace_one"),
    ],
    ids=str,
)
def test_worst_case_uses_replacement_if_supported(spec: dict[str, Any], relation: NeighboringRelation) -> None:
    """The worst case beside an answer is that of a replaced record, if the mechanism supports it.

    All data sets of PMP (practical membership privacy) have n records, so neighbours differ by a replaced record.
    """
    model, mechanism = practical(1.0), built(spec)
    assert model.worst_case(mechanism) == WorstCase(relation)
    model.worst_case(mechanism).curves(mechanism)
    notes = model.curves(mechanism).notes
    assert any("another neighbouring relation than replacing" in note for note in notes) == (
        relation == "add_or_remove_one"
    )


def test_curve_is_that_of_parameter_if_worst_case_is_larger() -> None:
    curves = [practical(0.7, 1e-3).curves(built(spec)) for spec in (PURE, gaussian(0.1), sampled(0.9, gaussian(0.1)))]
    readings = [profile.delta(pair.both, 0.3).value for pair in curves]
    for reading in readings:
        assert reading.upper == pytest.approx(readings[0].upper, rel=1e-14)
    assert all(pair.add is pair.remove for pair in curves)
    for pair in curves:
        assert any("does not compose" in note for note in pair.notes)
        assert any("1/2" in note for note in pair.notes)


MECHANISMS = [
    PURE,
    gaussian(0.5),
    gaussian(20.0),
    laplace(1.0),
    laplace(30.0),
    {"type": "approximate_dp", "epsilon": 0.5, "delta": 1e-3},
    {"type": "exponential", "epsilon": 2.0},
]


@sample_of(4)
@pytest.mark.parametrize("spec", MECHANISMS, ids=lambda spec: str(list(spec.values())))
def test_answer_is_at_most_worst_case_and_stated_parameter(spec: dict[str, Any]) -> None:
    """Answers are at most those of the worst case, and those of the stated parameter.

    Parameters are drawn from far below to far above the mechanism's own.
    """
    generator, mechanism = np.random.default_rng(3), built(spec)
    for _ in range(3):
        epsilon = float(10 ** generator.uniform(-2, 1.3))
        delta = float(10 ** generator.uniform(-9, -1)) * int(generator.integers(0, 2))
        served, worst = practical(epsilon, delta).curves(mechanism), WorstCase("replace_one").curves(mechanism)
        alone = ApproximateDpTradeOff(epsilon, delta)
        rates = np.geomspace(1e-9, 0.9, 8)
        at = float(generator.uniform(0, 3))
        for direction in ("add", "remove", "both"):
            curve, bounds = getattr(served, direction), (getattr(worst, direction), alone)
            read = curve.points(rates)
            for bound in bounds:
                assert (read.power.upper <= bound.power(rates).upper).all()
                assert (read.type_two_error.lower >= bound.type_two_error(rates).lower).all()
                for one, other in zip(numbers(curve, at), numbers(bound, at), strict=True):
                    assert one.upper <= other.upper


def numbers(curve: AbstractTradeOff, epsilon: float) -> list[Enclosure]:
    """Return answers on membership and on the privacy profile of a curve.

    The upper bound of each may not be larger for a weaker attacker.
    """
    read = (
        profile.delta(curve, epsilon),
        profile.epsilon(curve, 1e-6),
        membership.advantage(curve),
        membership.attack_accuracy(curve, 0.5),
        membership.positive_predictive_value(curve, 0.5),
        membership.positive_predictive_value(curve, 0.5, 1e-3),
    )
    return [reading.value for reading in read]


def test_only_closed_form_is_supported() -> None:
    model, mechanism = practical(1.0), built(PURE)
    assert set(model.plans(mechanism, ("closed_form", "contour", "clt"))) == {"closed_form"}
    with pytest.raises(UnsupportedCombination) as caught:
        model.curves(mechanism, "discretised")
    assert caught.value.field == "method"
    assert model.plan(built(sampled(0.1, laplace(1.0)))).cost is ONE_CURVE
    assert model.plan(mechanism).cost.evaluate > ONE_CURVE.evaluate


@pytest.mark.parametrize("prior", [0.0, 0.1, math.nextafter(0.5, 0), math.nextafter(0.5, 1), 1.0])
def test_other_priors_are_rejected(prior: float) -> None:
    model = practical(1.0)
    for question in ("attack_accuracy", "positive_predictive_value", "unlearning_guarantee"):
        model.check_question(question, 0.5)
        with pytest.raises(UnsupportedCombination) as caught:
            model.check_question(question, prior)
        assert caught.value.field == "prior"


def test_only_deletion_capacity_is_rejected() -> None:
    model = practical(1.0)
    with pytest.raises(UnsupportedCombination) as caught:
        model.check_question("deletion_capacity", 0.5)
    assert caught.value.field == "question"
    for question in ("trade_off", "epsilon", "delta", "advantage", "gdp_mu", "reconstruction"):
        model.check_question(question, None)
    WorstCase().check_question("deletion_capacity", 0.1)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 0.0), (math.inf, 0.0), (math.nan, 0.0), (1.0, -0.1), (1.0, 1.1)])
def test_parameters_outside_domain_raise(epsilon: float, delta: float) -> None:
    with pytest.raises(OutOfDomain):
        practical(epsilon, delta)


def test_premises_are_unknown_from_the_mechanism() -> None:
    premises = practical(1.0).premises(built(PURE))
    assert premises
    assert all(premise.holds == "unknown" for premise in premises)


def test_bracket_of_stated_parameter_names_no_attaining_mechanism() -> None:
    """The note on bounds from different theorems says that no release of the mechanism attains the stated parameter."""
    pair = practical(3.0).curves(built(sampled(0.1, laplace(1.0))))
    assert pair.bracket is not None
    assert "No release of this mechanism" in pair.bracket
