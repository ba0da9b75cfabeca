"""Tables of the guide that answer questions of readers are complete, and their numbers are those of the service."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

from starlette.testclient import TestClient

from service.privacy.limit import WidthLimit
from service.resources.assessments.effects import HAZARDS
from tests.contract.pages import section

DP_SGD = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def upper_of_epsilon(client: TestClient, **request: Any) -> float:
    """Return the upper bound of the answer to `request`, whose default question is epsilon at delta = 1e-5."""
    sent = {"questions": [{"type": "epsilon", "delta": 1e-5}], "relative_tolerance": 1e-4} | request
    answer = client.post("/v1/bounds", json=sent)
    assert answer.status_code == 200, answer.text
    upper = answer.json()["answers"][0]["upper"]
    assert isinstance(upper, float)
    return upper


def assert_is_rounded_up(printed: str, upper: float) -> None:
    """Check that a number with two decimals is an upper bound, rounded up."""
    assert float(printed) == math.ceil(100 * upper) / 100


def test_both_tables_of_hazards_are_complete() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \|", section("Hazards that reach the verdict", "assessments"))
    assert Counter(rows) == dict.fromkeys(HAZARDS, 2), "edit both tables of hazards in docs/guide/assessments.md"


def test_table_of_width_limits_is_complete() -> None:
    rows = re.findall(r"(?m)^\| (`.*?`) \| .* \| .* \|$", section("The number and its bounds", "answers"))
    assert {code for row in rows for code in re.findall(r"`(\w+)`", row)} == set(WidthLimit)


def test_epsilons_of_differing_runs_match_service(client: TestClient) -> None:
    printed = re.findall(
        r"(?m)^\| .* \| .* \| ([\d.]+) (?:with|at) .* \|$", section("When two libraries disagree", "claims")
    )
    replaced = {"threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"}}
    differing: list[dict[str, Any]] = [
        {"mechanism": DP_SGD} | replaced,
        {"mechanism": DP_SGD | {"sampling": "fixed_without_replacement"}},
        {"mechanism": DP_SGD | {"noise_multiplier": 0.5}},
        {"mechanism": DP_SGD | {"sample_rate": 0.02}},
        {"mechanism": DP_SGD, "questions": [{"type": "epsilon", "delta": 1e-6}]},
        {"mechanism": DP_SGD | {"steps": 400}},
    ]
    for text, request in zip(printed, differing, strict=True):
        assert_is_rounded_up(text, upper_of_epsilon(client, **request))


def test_epsilons_of_federated_run_match_service(client: TestClient) -> None:
    text = section("Federated training", "samplers")
    cohort, coin = re.findall(r"is ([\d.]+) for this cohort|it is ([\d.]+)\.\n", text)
    run = json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[0])
    assert_is_rounded_up(cohort[0], upper_of_epsilon(client, mechanism=run))
    assert_is_rounded_up(coin[1], upper_of_epsilon(client, mechanism=run | {"sampling": "poisson"}))


def test_epsilon_of_ten_tuning_runs_matches_service(client: TestClient) -> None:
    text = " ".join(section("Which runs count", "assessments").split())
    [fixed] = re.findall(r"at most ([\d.]+) at delta = 1e-5", text)
    [drawn] = re.findall(r"geometric law, it would be at most ([\d.]+)\. ", text)
    for printed, trials in ((fixed, {"type": "fixed", "count": 10}), (drawn, {"type": "geometric", "mean": 10})):
        best = {"type": "selected", "mechanism": DP_SGD, "trials": trials}
        assert_is_rounded_up(printed, upper_of_epsilon(client, mechanism=best))
