"""Enclosures contain the reference values, which were computed independently with 20 digits or printed in papers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from scipy import special

from service.privacy.enclosure import Enclosure
from service.privacy.questions import membership, membership_inverse, profile, unlearning
from service.privacy.questions.earlier_bounds import DpParameters
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, gaussian
from tests.privacy.references import (
    RELATIVE_WIDTH,
    as_printed,
    meets,
    number,
    read_composed,
    read_rero,
    rero_gamma_rows,
    rero_spec,
    rows,
)


def assert_meets(value: Enclosure, row: dict[str, Any]) -> None:
    assert meets(value, row)
    assert value.relative_width() <= RELATIVE_WIDTH


@cache
def curves(spec: str) -> TradeOffPair:
    return WorstCase().curves(built(json.loads(spec)))


RERO = rows("rero")
RERO_FIGURE_3 = [row for row in RERO if row["id"].startswith("rero_fig3_gamma")]
RERO_GAMMA = rero_gamma_rows()
RERO_SIGMA = [row for row in RERO if row["quantity"] == "sigma"]
RERO_OTHER = {"rero_conv_slm_tight_N1", "rero_conv_slm_printed_N10", "rero_conv_gm_1_0.5"}
COMPOSED = rows("truth_composed")
MEMBERSHIP = rows("membership")


@pytest.mark.parametrize("row", RERO_GAMMA, ids=lambda row: row["id"])
def test_reconstruction_matches_reference(row: dict[str, Any]) -> None:
    read = read_rero(curves(json.dumps(rero_spec(row))), row)
    if as_printed(row):
        assert not read.lower <= number(row["value"]) <= read.upper
    else:
        assert_meets(read, row)


@pytest.mark.parametrize("row", COMPOSED, ids=lambda row: row["id"])
def test_benchmark_cases_match_reference(row: dict[str, Any]) -> None:
    assert_meets(read_composed(curves(json.dumps(row["inputs"]["mechanism"])), row), row)


def _pure(row: dict[str, Any]) -> TradeOffPair:
    return curves(json.dumps({"type": "pure_dp", "epsilon": number(row["inputs"]["eps"])}))


def _approximate(row: dict[str, Any]) -> TradeOffPair:
    given = row["inputs"]
    return curves(
        json.dumps({"type": "approximate_dp", "epsilon": number(given["eps"]), "delta": number(given["delta"])})
    )


def _prior(row: dict[str, Any]) -> float:
    return number(row["inputs"]["p"])


def _threshold_attack(row: dict[str, Any]) -> Enclosure:
    """Return the positive predictive value of the attack that reports a member below a threshold.

    This attack is the best at its false positive rate.
    """
    given = row["inputs"]
    sigma = number(given["sigma"])
    rate = float(special.ndtr(number(given["threshold"]) / sigma))
    curve = curves(json.dumps(gaussian(sigma))).add
    return membership.positive_predictive_value(curve, _prior(row), rate).value


def _earlier_accuracy(name: str, row: dict[str, Any], prior: float) -> Enclosure:
    """Return the earlier bound of the accuracy as published, without the limit of guessing."""
    given = row["inputs"]
    parameters = DpParameters(number(given["eps"]), number(given.get("delta", "0")))
    found = {bound.name: bound.value for bound in parameters.attack_accuracy(prior, None)}
    return Enclosure.point(found[name].upper)


def _largest_epsilon(row: dict[str, Any]) -> Enclosure:
    found = membership_inverse.largest_epsilon(number(row["inputs"]["target"]), _prior(row))
    assert found is not None
    return found.value


ReadMembership = Callable[[dict[str, Any]], Enclosure]
MEMBERSHIP_READINGS: dict[str, ReadMembership] = {
    "positive accuracy upper bound": lambda row: (
        membership.positive_predictive_value(_pure(row).add, _prior(row)).value
    ),
    "positive accuracy lower bound": lambda row: (
        membership.positive_predictive_value(_pure(row).add, _prior(row), side="at_least").value
    ),
    "negative accuracy upper bound": lambda row: (
        membership.negative_predictive_value(_pure(row).add, _prior(row)).value
    ),
    "negative accuracy lower bound": lambda row: (
        membership.negative_predictive_value(_pure(row).add, _prior(row), side="at_least").value
    ),
    "positive advantage bound": lambda row: membership.advantage_over_prior(_pure(row).add, _prior(row)).value,
    "tight advantage (e^eps-1+2delta)/(e^eps+1)": lambda row: membership.advantage(_approximate(row).both).value,
    "largest PPV at FPR alpha": lambda row: (
        membership.positive_predictive_value(_approximate(row).add, _prior(row), number(row["inputs"]["alpha"])).value
    ),
    "largest Bayes accuracy": lambda row: (
        membership.attack_accuracy(
            curves(json.dumps({"type": "gdp", "mu": number(row["inputs"]["mu"])})).add
            if row["notion"] == "GDP"
            else _approximate(row).add,
            _prior(row),
        ).value
    ),
    "positive accuracy": _threshold_attack,
    "Erlingsson accuracy": lambda row: _earlier_accuracy("erlingsson", row, 0.5),
    "Sablayrolles bound": lambda row: _earlier_accuracy("sablayrolles", row, _prior(row)),
    "prior of largest advantage": lambda row: (
        membership_inverse.prior_of_largest_advantage(number(row["inputs"]["eps"]))[0].value
    ),
    "largest advantage 2 tanh(eps/4)": lambda row: (
        membership_inverse.prior_of_largest_advantage(number(row["inputs"]["eps"]))[1].value
    ),
    "largest eps": _largest_epsilon,
    "largest sampling rate T": lambda row: (
        membership_inverse.largest_sampling_rate(number(row["inputs"]["target"]), number(row["inputs"]["eps"])).value
    ),
}
ELSEWHERE = {
    "Yeom accuracy (uncapped)": "tested below: a probability is capped at 1",
    "smallest sigma": "an inverse: tested below by a round trip",
    "deletion capacity ln B/ln L (correct L, e^{+eps})": "tested below, rounded down",
    "deletion capacity with the printed (invalid) L, e^{-eps}": "tested below: must not be met",
}


def test_yeom_bound_is_capped_at_one() -> None:
    row = next(row for row in MEMBERSHIP if row["id"] == "yeom-1")
    assert number(row["value"]) > 1
    assert _earlier_accuracy("yeom", row, 0.5) == Enclosure.point(1.0)
    below = {**row, "inputs": {"eps": "0.5"}}
    assert_meets(_earlier_accuracy("yeom", below, 0.5), {"value": "0.82436063535006407", "abs_tol": "8e-15"})


def test_every_membership_row_is_tested() -> None:
    assert {row["quantity"] for row in MEMBERSHIP} <= set(MEMBERSHIP_READINGS) | set(ELSEWHERE)


@pytest.mark.parametrize(
    "row", [row for row in MEMBERSHIP if row["quantity"] in MEMBERSHIP_READINGS], ids=lambda row: row["id"]
)
def test_membership_questions_match_reference(row: dict[str, Any]) -> None:
    assert_meets(MEMBERSHIP_READINGS[row["quantity"]](row), row)


@pytest.mark.parametrize("row", [row for row in MEMBERSHIP if row["id"].startswith("del-")], ids=lambda row: row["id"])
def test_deletion_capacity_matches_reference(row: dict[str, Any]) -> None:
    capacity = unlearning.deletion_capacity(_pure(row).add, _prior(row), number(row["inputs"]["B"])).value
    whole = int(number(row["value"]))
    if "as printed" in row["source"]:
        assert capacity.upper < whole
    else:
        assert (capacity.lower, capacity.upper) == (whole, whole)


@pytest.mark.parametrize(
    "row", [row for row in MEMBERSHIP if row["id"].startswith("advmax")], ids=lambda row: row["id"]
)
def test_best_prior_attains_largest_advantage(row: dict[str, Any]) -> None:
    eps = number(row["inputs"]["eps"])
    if eps > 100:
        best = membership.advantage_over_prior(_pure(row).add, 1e-200).value
    else:
        star = next(other for other in MEMBERSHIP if other["id"] == f"pstar-{row['inputs']['eps']}")
        best = membership.advantage_over_prior(_pure(row).add, number(star["value"])).value
    assert_meets(best, row)


@pytest.mark.parametrize("row", [row for row in MEMBERSHIP if row["id"].startswith("inv-")], ids=lambda row: row["id"])
def test_inverses_attain_their_target(row: dict[str, Any]) -> None:
    given, solved = row["inputs"], number(row["value"])
    eps, prior = (solved, number(given["p"])) if "p" in given else (number(given["eps"]), solved)
    curve = curves(json.dumps({"type": "pure_dp", "epsilon": eps})).add
    reached = membership.positive_predictive_value(curve, prior).value
    assert_meets(reached, {"value": given["target"], "abs_tol": "1e-12"})


def test_smallest_sigma_meets_its_target() -> None:
    row = next(row for row in MEMBERSHIP if row["id"] == "s52-sigma")
    sigma = number(row["value"])
    answer = profile.delta(curves(json.dumps(gaussian(sigma))).both, number(row["inputs"]["eps"])).value
    assert_meets(answer, {"value": row["inputs"]["delta"], "abs_tol": "1e-17"})
