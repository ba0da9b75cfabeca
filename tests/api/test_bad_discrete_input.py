"""Bad input of discrete and local mechanisms: a problem with a pointer, the rule, and a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.api.requests import bounds, encoded, post

ADDED = {"type": "worst_case", "neighboring_relation": "add_or_remove_one"}
REPLACED = {"type": "worst_case", "neighboring_relation": "replace_one"}
REPORT = {"type": "randomized_response", "epsilon": 1.0, "options": 4}
UNARY = {"type": "unary_encoding", "true_bit": 0.5, "false_bit": 0.25}
COUNT = {"type": "discrete_laplace", "scale": 2.0, "sensitivity": 1}
CHOICE = {"type": "report_noisy_max", "noise": "exponential", "scale": 2.0, "sensitivity": 1.0}
SPARSE = {"type": "sparse_vector", "threshold_epsilon": 0.5, "query_epsilon": 0.5, "positives": 1}
SHUFFLED = {"type": "shuffled_reports", "reports": 100, "randomizer": {"type": "pure_dp", "epsilon": 1.0}}
BITS = SHUFFLED | {"randomizer": {"type": "randomized_response", "epsilon": 1.0, "options": 2}}
TRAINED = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}

BAD: list[tuple[dict[str, Any], str, str]] = [
    # (mechanism, pointer, part of the sentence)
    (REPORT | {"options": 1}, "/mechanism/options", "[2, 1e+12]"),
    (REPORT | {"options": 2.5}, "/mechanism/options", "integer"),
    (REPORT | {"epsilon": -1}, "/mechanism/epsilon", "[0, 1000000]"),
    (UNARY | {"true_bit": 0.2}, "/mechanism/true_bit", "above false_bit"),
    (UNARY | {"true_bit": 0.25}, "/mechanism/true_bit", "Exchange both"),
    (UNARY | {"true_bit": 1.5}, "/mechanism/true_bit", "[0, 1]"),
    (UNARY | {"bits_per_value": 0}, "/mechanism/bits_per_value", "[1, 1000]"),
    ({"type": "staircase", "epsilon": 1.0, "gamma": 1.5}, "/mechanism/gamma", "[0, 1]"),
    (COUNT | {"sensitivity": 1.5}, "/mechanism/sensitivity", "integer"),
    (COUNT | {"sensitivity": 0}, "/mechanism/sensitivity", "[1, 10000]"),
    ({"type": "discrete_gaussian", "sigma": 0.0, "sensitivity": 1}, "/mechanism/sigma", "[0.01, 10000]"),
    ({"type": "skellam", "variance": -1.0, "sensitivity": 1}, "/mechanism/variance", "[0.001, 10000000]"),
    (CHOICE | {"noise": "gaussian"}, "/mechanism/noise", "gumbel"),
    (CHOICE | {"scale": 0}, "/mechanism/scale", "1e-06"),
    (SPARSE | {"positives": 0}, "/mechanism/positives", "[1, 1000000]"),
    (SHUFFLED | {"reports": 0}, "/mechanism/reports", "[1, 1000000000]"),
    (SHUFFLED | {"reports": 2.5}, "/mechanism/reports", "integer"),
    (SHUFFLED | {"others_holding_one": 3}, "/mechanism/others_holding_one", "Remove others_holding_one"),
    (BITS | {"others_holding_one": 100}, "/mechanism/others_holding_one", "at most reports - 1, 99"),
    (BITS | {"others_holding_one": -1}, "/mechanism/others_holding_one", "[0,"),
    (SHUFFLED | {"randomizer": {"type": "pure_dp", "epsilon": 101.0}}, "/mechanism/randomizer", "at most 100"),
    (SHUFFLED | {"randomizer": {"type": "pure_dp", "epsilon": -1.0}}, "/mechanism/randomizer/epsilon", "[0, 1000000]"),
    (SHUFFLED | {"randomizer": COUNT}, "/mechanism/randomizer/type", "randomized_response"),
    (SPARSE | {"query_epsilon": 0}, "/mechanism/query_epsilon", "[1e-06, 10000]"),
]


@pytest.mark.parametrize(("mechanism", "pointer", "words"), BAD)
def test_bad_field_returns_problem_with_pointer(
    client: TestClient, mechanism: dict[str, Any], pointer: str, words: str
) -> None:
    response = post(client, encoded(bounds(mechanism)))
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]


UNSUPPORTED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # (mechanism, threat model, part of the reason)
    (REPORT, ADDED, "a missing record is visible"),
    (SHUFFLED, ADDED, "a missing record is visible"),
    (SHUFFLED, {"type": "worst_case", "neighboring_relation": "zero_out"}, "a missing record is visible"),
    (SHUFFLED, {"type": "worst_case", "records": 2}, "of which one person sends several"),
    (REPORT, {"type": "worst_case", "neighboring_relation": "zero_out"}, "a missing record is visible"),
    ({"type": "composed", "mechanisms": [REPORT, TRAINED]}, ADDED, "a missing record is visible"),
    ({"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": COUNT}, REPLACED, "no dominating pair is known"),
    ({"type": "staircase", "epsilon": 1.0, "gamma": 0.3}, {"type": "worst_case", "records": 2}, "no shift"),
    (CHOICE | {"monotone": True}, REPLACED, "Send monotone false"),
]


@pytest.mark.parametrize(("mechanism", "threat_model", "words"), UNSUPPORTED)
def test_relation_without_pair_names_missing_theorem(
    client: TestClient, mechanism: dict[str, Any], threat_model: dict[str, Any], words: str
) -> None:
    response = post(client, encoded(bounds(mechanism, threat_model=threat_model)))
    assert response.status_code == 422
    problem = response.json()
    assert problem["errors"][0]["pointer"].startswith("/threat_model")
    assert problem["errors"][0]["detail"].startswith("Supported: ")
    assert words in problem["detail"]


@pytest.mark.parametrize("mechanism", [REPORT, UNARY, SHUFFLED, {"type": "repeated", "steps": 2, "mechanism": REPORT}])
def test_local_mechanism_reads_replaced_record(client: TestClient, mechanism: dict[str, Any]) -> None:
    response = post(client, encoded(bounds(mechanism)))
    assert response.status_code == 200
    assert response.json()["threat_model"]["neighboring_relation"] == "replace_one"


def test_bracket_says_that_it_is_not_tight(client: TestClient) -> None:
    response = post(client, encoded(bounds(SPARSE)))
    (answer,) = response.json()["answers"]
    assert answer["tight"] is False
    assert answer["lower"] < answer["upper"]
