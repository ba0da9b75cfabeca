"""Practical membership privacy: fields of the response, choice of the method, rejected input, costs."""

from __future__ import annotations

import json
import math
from itertools import combinations
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.pmp_exponential import PmpExponentialRequest, PmpExponentialResponse
from api_schemas.pmp_finite import PmpFiniteRequest, PmpFiniteResponse
from api_schemas.problems import field_errors
from service.privacy.errors import OutOfDomain
from service.resources.abstract import Computation
from service.resources.pmp.exponential import PMP_EXPONENTIAL, pmp_exponential_quote
from service.resources.pmp.finite import PMP_FINITE

DIGEST = "sha256:" + "0" * 64
LINE: dict[str, Any] = {
    "epsilon": 8.0,
    "points": [[0.2], [1.5], [-0.4], [2.5]],
    "objects": [[1.0], [-1.0]],
    "clip_radius": 10.0,
}
LOSSES: dict[str, Any] = {
    "epsilon": 2.0,
    "losses": [[0.0, 0.2, 1.0, 0.7], [1.0, 0.9, 0.1, 0.0]],
    "aggregate": "sum",
    "sensitivity": 1.0,
}
TABLE: dict[str, Any] = {"points": 2, "probabilities": [[0.3, 0.7, 0.0], [0.0, 0.7, 0.3]], "epsilon": 0.0}


def answer(computation: Computation[Any, Any], body: dict[str, Any]) -> Any:
    """Return the response, parsed and compared with its published schema and its own bytes."""
    request = computation.request_type.model_validate_json(json.dumps(body))
    written = computation.body(request, DIGEST, "v")
    validator = jsonschema_rs.validator_for(computation.response_type.model_json_schema(mode="serialization"))
    assert validator.is_valid(json.loads(written))
    response = computation.response_type.model_validate_json(written)
    assert response.json_bytes() == written
    return response


def exponential(**changes: Any) -> PmpExponentialResponse:
    return answer(PMP_EXPONENTIAL, LINE | changes)


def crowd(half: int, objects: int = 3, **changes: Any) -> dict[str, Any]:
    generator = np.random.default_rng(half)
    return {
        "epsilon": 20.0,
        "points": generator.normal(size=(2 * half, 2)).tolist(),
        "objects": generator.normal(size=(objects, 2)).tolist(),
        "clip_radius": 5.0,
        **changes,
    }


def errors(model: Any, body: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(body))
    return [(error.pointer, error.detail) for error in field_errors(caught.value)]


def test_line_example_matches_reference() -> None:
    """The exponential mechanism on a line matches the reference `em_1d_n2_two`, with its stated sensitivity
    (C + 1)/n.
    """
    response = exponential()
    assert response.sensitivity == 5.5
    assert response.epsilon_pmp["value"] == pytest.approx(0.5289375914907049, abs=1e-10)
    assert response.epsilon_on_population["sensitivity"]["value"] == pytest.approx(2.109090909090909, rel=1e-10)
    assert response.swap_bound == pytest.approx(1.018181818181818, rel=1e-10)
    assert (response.evidence, response.method, response.conditional) == ("certified", "enumeration", True)
    assert response.tolerance_met
    assert response.sampling is None


def test_numbers_follow_from_epsilon_pmp() -> None:
    response = exponential()
    epsilon = response.epsilon_pmp["value"]
    assert epsilon == response.epsilon_pmp["upper"]
    assert response.success_bound["value"] == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-12)
    assert response.eta_mip["value"] == pytest.approx(math.tanh(epsilon / 2) / 2, rel=1e-12)


def test_quantities_are_ordered() -> None:
    response = answer(PMP_EXPONENTIAL, crowd(4))
    exact, by_sensitivity = (response.epsilon_on_population[name]["value"] for name in ("exact", "sensitivity"))
    assert response.epsilon_pmp["value"] <= response.swap_bound
    assert response.epsilon_pmp["value"] <= exact <= by_sensitivity <= response.epsilon
    assert exact <= response.worst_case["epsilon"]["value"]


def test_worst_case_of_distances_respects_objects() -> None:
    """The worst case of distances uses that two objects have the distance 2, not only the stated sensitivity.

    |w - x| - |v - x| is within |w - v| = 2 of 0, so the bound is 2 epsilon/11 for the stated 8.
    """
    response = exponential()
    assert response.worst_case["epsilon"]["value"] == pytest.approx(8.0 * 2 / 11, rel=1e-12)
    assert any(note.startswith("worst_case: ") for note in response.notes)
    close = exponential(clip_radius=0.5)
    assert close.worst_case["epsilon"]["value"] == pytest.approx(8.0, rel=1e-12)


def test_stated_sensitivity_scales_weights_and_worst_case() -> None:
    """A stated sensitivity of half the true one doubles epsilon, for the weights and for the worst case."""
    half, twice = exponential(sensitivity=2.75), exponential(epsilon=16.0)
    assert half.epsilon_pmp["value"] == pytest.approx(twice.epsilon_pmp["value"], rel=1e-12)
    assert half.worst_case["epsilon"]["value"] == pytest.approx(twice.worst_case["epsilon"]["value"], rel=1e-12)


def test_mean_and_sum_are_the_same_mechanism_by_default() -> None:
    mean, total = exponential(), exponential(aggregate="sum")
    assert total.sensitivity == 2 * mean.sensitivity
    assert total.epsilon_pmp["value"] == pytest.approx(mean.epsilon_pmp["value"], rel=1e-12)
    assert total.worst_case["epsilon"]["value"] == pytest.approx(mean.worst_case["epsilon"]["value"], rel=1e-12)


def test_losses_equal_precomputed_distances() -> None:
    losses = [[abs(w - x) for x in (0.2, 1.5, -0.4, 2.5)] for w in (1.0, -1.0)]
    response = answer(PMP_EXPONENTIAL, {"epsilon": 8.0, "losses": losses, "sensitivity": 5.5})
    assert response.epsilon_pmp["value"] == pytest.approx(exponential().epsilon_pmp["value"], rel=1e-12)
    assert response.worst_case["epsilon"]["value"] == 8.0


def test_sensitivity_below_losses_is_rejected() -> None:
    request = PmpExponentialRequest.model_validate_json(json.dumps(LOSSES | {"sensitivity": 0.5}))
    for refuse in (pmp_exponential_quote, lambda asked: PMP_EXPONENTIAL.body(asked, DIGEST, "v")):
        with pytest.raises(OutOfDomain) as caught:
            refuse(request)
        assert caught.value.pointer == "/sensitivity"


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"objects": [[1.0], [1.0]]},
        {"objects": [[1.0]]},
        {"points": [[1.0]] * 4},
        {"points": [[0.0]] * 4},
    ],
)
def test_equal_data_reveal_nothing(change: dict[str, Any]) -> None:
    response = exponential(**change)
    assert (response.epsilon_pmp["value"], response.success_bound["lower"]) <= (1e-12, 0.5)
    assert response.swap_bound <= 1e-12
    if "points" not in change:
        assert response.epsilon_pmp["value"] == 0.0
        assert response.epsilon_on_population["exact"]["value"] == 0.0


def test_equal_points_are_separate_records() -> None:
    response = exponential(points=[[0.2], [0.2], [1.5], [2.5]])
    assert any("Each position" in note for note in response.notes)
    assert not any("Each position" in note for note in exponential().notes)


def test_sampled_enclosure_lies_below_swap_bound() -> None:
    exact = answer(PMP_EXPONENTIAL, crowd(8))
    sampled = answer(PMP_EXPONENTIAL, crowd(8, exact=False, samples=1000))
    assert (sampled.evidence, sampled.method) == ("statistical", "sampling")
    assert sampled.sampling == {"samples": 1000, "seed": 0, "confidence": 0.999}
    assert sampled.epsilon_pmp["lower"] <= exact.epsilon_pmp["upper"]
    assert exact.epsilon_pmp["lower"] <= sampled.epsilon_pmp["upper"] <= sampled.swap_bound
    assert not sampled.tolerance_met
    assert answer(PMP_EXPONENTIAL, crowd(8, exact=False, samples=1000)) == sampled
    assert any("0.999" in note for note in sampled.notes)


def test_without_samples_swap_bound_is_returned() -> None:
    response = answer(PMP_EXPONENTIAL, crowd(8, exact=False, samples=0))
    assert (response.evidence, response.method, response.sampling) == ("certified", "swap_bound", None)
    assert (response.epsilon_pmp["lower"], response.epsilon_pmp["value"]) == (0.0, response.swap_bound)
    assert not response.tolerance_met
    exact = response.epsilon_on_population["exact"]
    assert 0 < exact["lower"] < exact["upper"]


def test_extreme_weights_are_not_sampled_with_note() -> None:
    response = answer(PMP_EXPONENTIAL, crowd(8, exact=False, samples=100, epsilon=1e6))
    assert (response.method, response.sampling) == ("swap_bound", None)
    assert any(note.startswith("sampling: not used") for note in response.notes)
    exact = answer(PMP_EXPONENTIAL, crowd(8, epsilon=1e6))
    assert exact.method == "enumeration"
    assert exact.tolerance_met
    assert exact.epsilon_pmp["value"] <= response.epsilon_pmp["value"]


def test_default_samples_are_filled_in_and_affordable() -> None:
    few = PmpExponentialRequest.model_validate_json(json.dumps(crowd(20)))
    assert (few.samples, few.seed, few.confidence, few.enumerates) == (2000, 0, 0.999, False)
    many = PmpExponentialRequest.model_validate_json(json.dumps(crowd(100, objects=32)))
    assert 100 <= (many.samples or 0) < 2000
    huge = PmpExponentialRequest.model_validate_json(json.dumps(crowd(1000, objects=100)))
    assert (huge.samples, huge.seed) == (0, None)
    assert pmp_exponential_quote(many).cost < 12_000_000
    enumerated = PmpExponentialRequest.model_validate_json(json.dumps(crowd(14)))
    assert (enumerated.samples, enumerated.seed, enumerated.enumerates) == (None, None, True)


def test_cost_grows_with_work() -> None:
    def price(**changes: Any) -> int:
        return pmp_exponential_quote(PmpExponentialRequest.model_validate_json(json.dumps(changes))).cost

    assert price(**LINE) < 8_000
    assert price(**crowd(12)) < price(**crowd(14)) < price(**crowd(16, exact=True)) < price(**crowd(17, exact=True))
    assert price(**crowd(16, exact=True)) < 20_000_000
    assert price(**crowd(14, epsilon=1e6)) > 10 * price(**crowd(14))  # Logarithmic scale.
    assert price(**crowd(100, samples=0)) < price(**crowd(100, samples=100)) < price(**crowd(100, samples=10_000))
    assert price(**crowd(5000, samples=0, objects=1)) < 20_000_000


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"points": [[0.2], [1.5], [-0.4]]}, "/points"),
        ({"points": [[0.2], [1.5], [-0.4], [2.5, 1.0]]}, "/points/3"),
        ({"objects": [[1.0], [1.0, 2.0]]}, "/objects/1"),
        ({"objects": None}, "/objects"),
        ({"clip_radius": None}, "/clip_radius"),
        ({"clip_radius": 0}, "/clip_radius"),
        ({"sensitivity": 0}, "/sensitivity"),
        ({"losses": [[1.0, 2.0]]}, "/points"),
        ({"points": []}, "/points"),
        ({"points": [[0.0]] * 10_002}, "/points"),
        ({"points": [[1e13], [0.0]]}, "/points/0/0"),
        ({"points": [[math.nan], [0.0]]}, "/points/0/0"),
        ({"points": [["1"], [0.0]]}, "/points/0/0"),
        ({"points": [[0.0] * 1025] * 2}, "/points/0"),
        ({"epsilon": -1}, "/epsilon"),
        ({"loss": "manhattan"}, "/loss"),
        ({"aggregate": "median"}, "/aggregate"),
        ({"samples": 100}, "/samples"),
        ({"seed": 1}, "/seed"),
        ({"exact": False, "samples": 50}, "/samples"),
        ({"exact": False, "samples": 0, "seed": 1}, "/seed"),
        (crowd(18, exact=True), "/exact"),
        (crowd(1000, objects=1, samples=100_000), "/samples"),
        (crowd(2001, objects=1, samples=100), "/samples"),
    ],
)
def test_bad_population_is_rejected_with_pointer(change: dict[str, Any], pointer: str) -> None:
    found = errors(PmpExponentialRequest, LINE | change)
    assert found[0][0] == pointer
    assert len(found[0][1]) > 10


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"losses": [[0.0, 1.0, 0.5]]}, "/losses"),
        ({"losses": [[0.0, 1.0], [0.5]]}, "/losses/1"),
        ({"sensitivity": None}, "/sensitivity"),
        ({"clip_radius": 1.0}, "/clip_radius"),
        ({"losses": [[]]}, "/losses/0"),
    ],
)
def test_bad_losses_are_rejected_with_pointer(change: dict[str, Any], pointer: str) -> None:
    assert errors(PmpExponentialRequest, LOSSES | change)[0][0] == pointer


def test_table_of_one_record_equals_differential_privacy() -> None:
    """A table of one record of two has delta 0.3 for practical membership privacy (PMP) and for differential privacy.

    By Corollary 4 as printed, it would be twice that: an erratum of the guide.
    """
    response: PmpFiniteResponse = answer(PMP_FINITE, TABLE)
    assert response.delta_pmp is not None
    assert response.worst_case["delta"] is not None
    assert response.delta_pmp["value"] == pytest.approx(0.3, abs=1e-13)
    assert response.worst_case["delta"]["value"] == pytest.approx(0.3, abs=1e-13)
    assert response.epsilon_pmp["value"] == math.inf
    assert response.bayes_success["value"] == pytest.approx(0.65, abs=1e-13)


@pytest.mark.parametrize(("half", "truth"), [(3, math.log(2)), (6, math.log(38 / 37))])
def test_modular_sums_match_exact_ratios(half: int, truth: float) -> None:
    subsets = list(combinations(range(2 * half), half))
    rows = [[float(sum(subset) % (2 * half) == output) for output in range(2 * half)] for subset in subsets]
    response = answer(PMP_FINITE, {"points": 2 * half, "probabilities": rows})
    assert response.epsilon_pmp["value"] == pytest.approx(truth, rel=1e-13)
    assert response.evidence == "exact"
    assert (response.delta_pmp, response.worst_case["delta"]) == (None, None)
    assert response.worst_case["epsilon"]["value"] == math.inf


def test_rows_may_have_any_order() -> None:
    rows = [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0.1, 0.9], [0.0, 1.0], [0.9, 0.1]]
    subsets = [list(subset) for subset in combinations(range(4), 2)]
    plain = answer(PMP_FINITE, {"points": 4, "probabilities": rows})
    turned = answer(PMP_FINITE, {"points": 4, "probabilities": rows[::-1], "subsets": subsets[::-1]})
    assert turned == plain


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"points": 3}, "/points"),
        ({"points": 18}, "/points"),
        ({"points": 4}, "/probabilities"),
        ({"probabilities": [[0.3, 0.7, 0.0], [0.0, 1.0]]}, "/probabilities/1"),
        ({"probabilities": [[0.3, 0.7], [0.3, 0.71]]}, "/probabilities/1"),
        ({"probabilities": [[0.3, 0.7], [-0.3, 1.3]]}, "/probabilities/1/0"),
        ({"subsets": [[0], [0]]}, "/subsets/1"),
        ({"subsets": [[0], [2]]}, "/subsets/1"),
        ({"subsets": [[0], [0, 1]]}, "/subsets/1"),
        ({"subsets": [[0], []]}, "/subsets/1"),
        ({"epsilon": -1}, "/epsilon"),
    ],
)
def test_bad_table_is_rejected_with_pointer(change: dict[str, Any], pointer: str) -> None:
    assert errors(PmpFiniteRequest, TABLE | change)[0][0] == pointer
