"""Containment of the reference values: computed independently with 20 digits, or printed in the papers."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.errors import UnsupportedCombination
from service.privacy.questions import membership, profile, reconstruction, unlearning
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled

FOLDER = Path(__file__).parent / "reference"
RELATIVE_WIDTH = 1e-6
ROUNDING = Fraction(1, 10**15)
"""Inputs are exact decimals, the service takes doubles: a relative 1e-15 of the value covers what that moves
(conditions <= 10).
"""


RECOMPUTED = {
    "C5-gamma-0.1": "0.81135926374711373311",
    "C5-gamma-0.001": "0.17784259695838618714",
    "C5-gamma-1e-6": "0.0048712988175853885133",
}
"""Three rows whose stated 2e-14 is too tight: off by 4e-13 to 6e-13 of the value. Recomputed with 40 digits on lines Re
z = 0.3, 0.4, 0.45, 0.55 with inner steps 1/16 and 1/11 (agreement to 20 digits, rate the double nearest to 0.02)."""


def rows(name: str) -> list[dict[str, Any]]:
    read = json.loads((FOLDER / f"{name}.json").read_text())
    return [{**row, "value": RECOMPUTED.get(row["id"], row["value"])} for row in read]


def number(text: str) -> float:
    return float(Fraction(text))


def assert_meets(value: Enclosure, row: dict[str, Any]) -> None:
    truth, tolerance = Fraction(row["value"]), Fraction(row["abs_tol"])
    tolerance = max(tolerance, ROUNDING * abs(truth))
    assert Fraction(value.lower) <= truth + tolerance
    assert truth - tolerance <= Fraction(value.upper)
    assert value.relative_width() <= RELATIVE_WIDTH


@cache
def curves(spec: str) -> TradeOffPair:
    return WorstCase().curves(built(json.loads(spec)))


def rero_spec(row: dict[str, Any]) -> dict[str, Any]:
    given, notion = row["inputs"], row["notion"]
    steps = int(given.get("N", 1))
    if notion == "eps-delta":
        return {"type": "approximate_dp", "epsilon": number(given["eps"]), "delta": number(given["delta"])}
    if notion == "gaussian":
        shifts = given.get("mus", [given.get("mu")] * 1)
        parts = [{"type": "gdp", "mu": number(mu)} for mu in shifts]
        return {"type": "repeated", "mechanism": {"type": "composed", "mechanisms": parts}, "steps": steps}
    if notion == "laplace":
        return {"type": "repeated", "mechanism": laplace(1 / number(given["mu"])), "steps": steps}
    if notion.startswith("sgm"):
        return dpsgd(number(given["sigma"]), number(given["p"]), steps)
    step = sampled(number(given["p"]), laplace(1 / number(given["eps0"])))
    return {"type": "repeated", "mechanism": step, "steps": steps}


def served(spec: dict[str, Any]) -> bool:
    """Composed Laplace steps have no engine yet; everything else of the reference is covered."""
    laplacian = "laplace" in json.dumps(spec)
    return not (laplacian and spec["type"] == "repeated" and spec["steps"] > 1)


RERO = rows("rero")
RERO_FIGURE_3 = [row for row in RERO if row["id"].startswith("rero_fig3_gamma")]
RERO_GAMMA = [row for row in RERO if row["quantity"].startswith("gamma") and row not in RERO_FIGURE_3]
RERO_SIGMA = [row for row in RERO if row["quantity"] == "sigma"]
RERO_OTHER = {"rero_conv_slm_tight_N1", "rero_conv_slm_printed_N10", "rero_conv_gm_1_0.5"}
COMPOSED = rows("truth_composed")
MEMBERSHIP = rows("membership")


@pytest.mark.parametrize("row", [row for row in RERO_GAMMA if served(rero_spec(row))], ids=lambda row: row["id"])
def test_reconstruction(row: dict[str, Any]) -> None:
    pair = curves(json.dumps(rero_spec(row)))
    direction = {"remove": "remove", "symmetrised": "both"}.get(row["notion"].rpartition("-")[2], "add")
    read = reconstruction.gamma(getattr(pair, direction), number(row["inputs"]["kappa"])).value
    if "as printed" in row["source"]:
        assert not read.lower <= number(row["value"]) <= read.upper
    else:
        assert_meets(read, row)


@pytest.mark.parametrize(
    "row", [row for row in COMPOSED if served(row["inputs"]["mechanism"])], ids=lambda row: row["id"]
)
def test_benchmark_cases(row: dict[str, Any]) -> None:
    pair, given = curves(json.dumps(row["inputs"]["mechanism"])), row["inputs"]
    if "baseline_success" in given:
        assert_meets(reconstruction.gamma(pair.add, number(given["baseline_success"])).value, row)
    elif "delta" in given:
        assert_meets(profile.epsilon(pair.both, number(given["delta"])).value, row)
    else:
        assert_meets(profile.delta(pair.both, number(given["epsilon"])).value, row)


@pytest.mark.parametrize(
    "spec",
    [
        spec
        for spec in [rero_spec(row) for row in RERO_GAMMA] + [row["inputs"]["mechanism"] for row in COMPOSED]
        if not served(spec)
    ],
    ids=json.dumps,
)
def test_what_is_not_served_yet_says_so(spec: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCombination) as refusal:
        curves(json.dumps(spec))
    assert refusal.value.field == "mechanism"
    assert "any single step" in refusal.value.supported


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
