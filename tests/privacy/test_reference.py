"""Containment of the reference values: computed independently with 20 digits, or printed in the papers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.questions import membership, profile, unlearning
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
def test_reconstruction(row: dict[str, Any]) -> None:
    read = read_rero(curves(json.dumps(rero_spec(row))), row)
    if as_printed(row):
        assert not read.lower <= number(row["value"]) <= read.upper
    else:
        assert_meets(read, row)


@pytest.mark.parametrize("row", COMPOSED, ids=lambda row: row["id"])
def test_benchmark_cases(row: dict[str, Any]) -> None:
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
}
ELSEWHERE = {
    "Erlingsson accuracy": "an earlier bound, for comparison",
    "Yeom accuracy (uncapped)": "an earlier bound, for comparison",
    "Sablayrolles bound": "an earlier bound, for comparison",
    "prior of largest advantage": "an optimum over priors: tested below through the advantage itself",
    "largest advantage 2 tanh(eps/4)": "an optimum over priors: tested below through the advantage itself",
    "largest eps": "an inverse: tested below by a round trip",
    "largest sampling rate T": "an inverse: tested below by a round trip",
    "positive accuracy": "one attack at one threshold, not the bound",
    "smallest sigma": "an inverse: tested below by a round trip",
    "deletion capacity ln B/ln L (correct L, e^{+eps})": "tested below, rounded down",
    "deletion capacity with the printed (invalid) L, e^{-eps}": "tested below: must not be met",
}


def test_every_membership_row_is_accounted_for() -> None:
    assert {row["quantity"] for row in MEMBERSHIP} <= set(MEMBERSHIP_READINGS) | set(ELSEWHERE)


@pytest.mark.parametrize(
    "row", [row for row in MEMBERSHIP if row["quantity"] in MEMBERSHIP_READINGS], ids=lambda row: row["id"]
)
def test_membership(row: dict[str, Any]) -> None:
    assert_meets(MEMBERSHIP_READINGS[row["quantity"]](row), row)


@pytest.mark.parametrize("row", [row for row in MEMBERSHIP if row["id"].startswith("del-")], ids=lambda row: row["id"])
def test_deletion_capacity(row: dict[str, Any]) -> None:
    capacity = unlearning.deletion_capacity(_pure(row).add, _prior(row), number(row["inputs"]["B"])).value
    whole = int(number(row["value"]))
    if "as printed" in row["source"]:
        assert capacity.upper < whole
    else:
        assert (capacity.lower, capacity.upper) == (whole, whole)


@pytest.mark.parametrize(
    "row", [row for row in MEMBERSHIP if row["id"].startswith("advmax")], ids=lambda row: row["id"]
)
def test_the_best_prior_reaches_the_largest_advantage(row: dict[str, Any]) -> None:
    eps = number(row["inputs"]["eps"])
    if eps > 100:
        best = membership.advantage_over_prior(_pure(row).add, 1e-200).value
    else:
        star = next(other for other in MEMBERSHIP if other["id"] == f"pstar-{row['inputs']['eps']}")
        best = membership.advantage_over_prior(_pure(row).add, number(star["value"])).value
    assert_meets(best, row)


@pytest.mark.parametrize("row", [row for row in MEMBERSHIP if row["id"].startswith("inv-")], ids=lambda row: row["id"])
def test_inverses_return_their_target(row: dict[str, Any]) -> None:
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
