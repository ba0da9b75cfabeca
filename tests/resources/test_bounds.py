"""Bounds: the value is the conservative bound, published values lie inside, errors point to the part of the request."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any, get_args

import mpmath
import pytest

from api_schemas.answers import GdpMuAnswer, TradeOffAnswer
from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.enclosures import Enclosed
from service.privacy.errors import NumericalFailure, OutOfDomain, PrivacyComputationError, UnsupportedCombination
from service.resources.bounds import BOUNDS
from service.resources.readings import READINGS
from tests.resources.enclosure_helpers import EnclosedAnswer, answer_bounds, bounds_of

DIGEST = "sha256:" + "0123456789abcdef" * 4
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
LAPLACE = {"type": "laplace", "noise_multiplier": 1.0}
PURE = {"type": "pure_dp", "epsilon": 1.0}
SAMPLED = {"type": "poisson_sampled", "sample_rate": 0.5, "mechanism": GAUSSIAN}
HUNDRED_STEPS = {"type": "repeated", "mechanism": {"type": "gaussian", "noise_multiplier": 10.0}, "steps": 100}
EVERY_NUMBER_QUESTION: list[tuple[dict[str, Any], str]] = [
    ({"type": "epsilon", "delta": 1e-5}, "upper"),
    ({"type": "delta", "epsilon": 1.0}, "upper"),
    ({"type": "advantage"}, "upper"),
    ({"type": "reconstruction", "baseline_success": 0.001}, "upper"),
    ({"type": "attack_accuracy", "prior": 0.3}, "upper"),
    ({"type": "attack_accuracy", "prior": 0.3, "false_positive_rate": 0.1}, "upper"),
    ({"type": "positive_predictive_value", "prior": 0.3}, "upper"),
    ({"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 0.1}, "upper"),
    ({"type": "positive_predictive_value", "prior": 0.3, "side": "at_least"}, "lower"),
    ({"type": "positive_predictive_value", "prior": 0.3, "side": "at_least", "false_positive_rate": 0.1}, "lower"),
    ({"type": "negative_predictive_value", "prior": 0.3}, "upper"),
    ({"type": "negative_predictive_value", "prior": 0.3, "false_positive_rate": 0.1}, "upper"),
    ({"type": "negative_predictive_value", "prior": 0.3, "side": "at_least"}, "lower"),
    ({"type": "negative_predictive_value", "prior": 0.3, "side": "at_least", "false_positive_rate": 0.1}, "lower"),
    ({"type": "advantage_over_prior", "prior": 0.3}, "upper"),
    ({"type": "deletion_capacity", "prior": 0.01, "confidence": 0.9}, "lower"),
]


def request(mechanism: dict[str, Any], *questions: dict[str, Any], **more: Any) -> BoundsRequest:
    return BoundsRequest.model_validate_json(json.dumps({"mechanism": mechanism, "questions": questions, **more}))


def compute(mechanism: dict[str, Any], *questions: dict[str, Any], **more: Any) -> BoundsResponse:
    return BOUNDS.response(request(mechanism, *questions, **more), DIGEST, "2026.01.01")


def number(mechanism: dict[str, Any], question: dict[str, Any], **more: Any) -> EnclosedAnswer:
    [answer] = compute(mechanism, question, **more).answers
    assert isinstance(answer, Enclosed)
    return answer


def test_every_number_question_is_listed() -> None:
    listed = {question["type"] for question, _ in EVERY_NUMBER_QUESTION}
    assert listed == {get_args(model.model_fields["type"].annotation)[0] for model in READINGS}


@pytest.mark.parametrize("mechanism", [GAUSSIAN, LAPLACE, PURE, SAMPLED, HUNDRED_STEPS], ids=lambda spec: spec["type"])
@pytest.mark.parametrize(("question", "safe_end"), EVERY_NUMBER_QUESTION, ids=lambda case: str(case)[9:60])
def test_value_is_conservative_bound(mechanism: dict[str, Any], question: dict[str, Any], safe_end: str) -> None:
    answer = number(mechanism, question)
    assert answer.value == getattr(answer, safe_end)
    lower, upper = answer_bounds(answer)
    assert lower <= upper
    assert answer.evidence == "exact"
    assert answer.method == "closed_form"
    assert not answer.conditional
    assert answer.source
    assert answer.tolerance_met


E = math.e
# (mechanism, question, published or elementary value, its absolute tolerance, source)
PUBLISHED: list[tuple[dict[str, Any], dict[str, Any], float, float, str]] = [
    (GAUSSIAN, {"type": "advantage"}, 0.382924922548026, 1e-15, "2 Phi(1/2) - 1, normal tables"),
    (HUNDRED_STEPS, {"type": "epsilon", "delta": 1e-5}, 4.3771780957, 1e-10, "peers, case G1"),
    (HUNDRED_STEPS, {"type": "epsilon", "delta": 1e-10}, 6.5479240669, 1e-10, "peers, case G1"),
    (HUNDRED_STEPS, {"type": "delta", "epsilon": 1}, 0.12693673750664, 1e-14, "peers, case G1"),
    (HUNDRED_STEPS, {"type": "delta", "epsilon": 4}, 4.712241201e-5, 1e-14, "peers, case G1"),
    (HUNDRED_STEPS, {"type": "reconstruction", "kappa": 1e-3}, 1.82984684056566e-2, 1e-16, "peers, case G1"),
    (HUNDRED_STEPS, {"type": "reconstruction", "kappa": 1e-6}, 8.72176101403892e-5, 1e-18, "peers, case G1"),
    (SAMPLED, {"type": "delta", "epsilon": 1}, 2.88676178376304e-2, 1e-15, "peers, case C4"),
    (SAMPLED, {"type": "delta", "epsilon": 4}, 1.28616764804673e-6, 1e-19, "peers, case C4"),
    (SAMPLED, {"type": "epsilon", "delta": 1e-5}, 3.5339979854, 1e-10, "peers, case C4"),
    (SAMPLED, {"type": "reconstruction", "kappa": 0.1}, 0.244571845822680, 1e-14, "peers, case C4"),
    (SAMPLED, {"type": "reconstruction", "kappa": 1e-6}, 4.41088050701946e-5, 1e-18, "peers, case C4"),
    (PURE, {"type": "delta", "epsilon": 1}, 0.0, 0.0, "definition of pure differential privacy"),
    (PURE, {"type": "epsilon", "delta": 0}, 1.0, 0.0, "definition of pure differential privacy"),
    (PURE, {"type": "advantage"}, 0.46211715726001, 1e-14, "tanh(1/2)"),
    (PURE, {"type": "attack_accuracy", "prior": 0.5}, 0.731058578630005, 1e-14, "Thudi et al., 73.1 %"),
    (PURE, {"type": "positive_predictive_value", "prior": 0.5}, 0.731058578630005, 1e-14, "e/(1+e)"),
    (PURE, {"type": "positive_predictive_value", "prior": 0.1}, 0.1 * E / (0.1 * E + 0.9), 1e-14, "Thudi et al."),
    (
        PURE,
        {"type": "negative_predictive_value", "prior": 0.1, "side": "at_least"},
        1 / (1 + E / 9),
        1e-14,
        "Thudi et al.",
    ),
    (PURE, {"type": "deletion_capacity", "prior": 0.01, "confidence": 0.9}, 3.0, 0.0, "floor(0.10536 / 0.02709)"),
    ({"type": "gdp", "mu": 0.0}, {"type": "epsilon", "delta": 0}, 0.0, 0.0, "nothing is released"),
    ({"type": "gdp", "mu": 0.0}, {"type": "reconstruction", "kappa": 0.25}, 0.25, 0.0, "nothing is released"),
]


@pytest.mark.parametrize(("mechanism", "question", "value", "tolerance", "source"), PUBLISHED)
def test_enclosures_contain_published_values(
    mechanism: dict[str, Any], question: dict[str, Any], value: float, tolerance: float, source: str
) -> None:
    lower, upper = answer_bounds(number(mechanism, question))
    assert lower - tolerance <= value <= upper + tolerance, source


def test_infinite_answers_are_exactly_infinite() -> None:
    answer = number(GAUSSIAN, {"type": "epsilon", "delta": 0})
    assert answer.value == answer.lower == answer.upper == math.inf
    assert answer.tolerance_met
    [mu] = compute({"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6}, {"type": "gdp_mu"}).answers
    assert isinstance(mu, GdpMuAnswer)
    assert mu.global_mu["lower"] == mu.global_mu["upper"] == math.inf
    assert b'"value":"Infinity"' in compute(GAUSSIAN, {"type": "epsilon", "delta": 0}).json_bytes()


def test_numbers_below_doubles_have_logarithms() -> None:
    answer = number(GAUSSIAN, {"type": "delta", "epsilon": 100.0})
    with mpmath.workdps(2000):  # delta = Phi(1/2 - 100) - e^100 Phi(-1/2 - 100)
        epsilon = mpmath.mpf(100)
        half = mpmath.mpf(1) / 2
        delta = mpmath.ncdf(half - epsilon) - mpmath.exp(epsilon) * mpmath.ncdf(-half - epsilon)
        truth = mpmath.log10(delta)
    assert answer.lower_log10 is not None
    assert answer.upper_log10 is not None
    assert answer.value_log10 == answer.upper_log10
    assert answer.lower_log10 <= truth <= answer.upper_log10
    assert answer.upper_log10 - answer.lower_log10 < 1e-6


def test_plain_numbers_have_no_logarithms() -> None:
    assert number(GAUSSIAN, {"type": "delta", "epsilon": 1.0}).value_log10 is None
    assert number(PURE, {"type": "delta", "epsilon": 1.0}).value_log10 is None


def test_curve_has_power_and_type_two_error_at_every_rate() -> None:
    rates = [0.0, 1e-12, 0.001, 0.5, 1.0]
    [answer] = compute(HUNDRED_STEPS, {"type": "trade_off", "false_positive_rates": rates}).answers
    assert isinstance(answer, TradeOffAnswer)
    assert [point["false_positive_rate"] for point in answer.points] == rates
    for point in answer.points:
        error, power = point["type_two_error"], point["power"]
        assert error["value"] == error["lower"]
        assert power["value"] == power["upper"]
        assert sum(lower for lower, _ in map(bounds_of, (error, power))) <= 1 + 1e-15
        assert sum(upper for _, upper in map(bounds_of, (error, power))) >= 1 - 1e-15
    assert answer.points[0]["power"]["value"] == 0.0
    assert answer.points[-1]["power"]["value"] == 1.0
    lower, upper = bounds_of(answer.points[2]["power"])
    assert lower - 1e-16 <= 1.82984684056566e-2 <= upper + 1e-16


def test_gdp_mu_of_gaussian_is_its_mu() -> None:
    [answer] = compute(HUNDRED_STEPS, {"type": "gdp_mu"}).answers
    assert isinstance(answer, GdpMuAnswer)
    lower, upper = answer_bounds(answer)
    assert lower <= 1 <= upper == answer.value
    lower, upper = bounds_of(answer.global_mu)
    assert lower <= 1 <= upper == answer.global_mu["value"]
    assert answer.tolerance_met


def test_tolerance_of_ranged_mu_ignores_unbounded_global_mu() -> None:
    ranged, whole, wide = compute(
        {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-3},
        {"type": "gdp_mu", "false_positive_rate_min": 1e-2, "type_two_error_min": 1e-2},
        {"type": "gdp_mu", "false_positive_rate_min": 0, "type_two_error_min": 0},
        {"type": "gdp_mu", "false_positive_rate_min": 1e-2, "type_two_error_min": 0},
    ).answers
    assert isinstance(ranged, GdpMuAnswer)
    assert isinstance(whole, GdpMuAnswer)
    assert ranged.tolerance_met
    assert whole.value == whole.global_mu["upper"] == math.inf
    for answer in (whole, wide):
        assert isinstance(answer, GdpMuAnswer)
        assert answer.tolerance_met == (answer.lower == answer.upper)


def test_directions_of_sampled_mechanism_differ_and_both_is_worse() -> None:
    for question in ({"type": "delta", "epsilon": 0.5}, {"type": "epsilon", "delta": 1e-3}):
        add, remove, both = (
            number(SAMPLED, {**question, "direction": direction}) for direction in ("add", "remove", "both")
        )
        # Poisson sampling: for epsilon > 0 the data with the record has the heavier tail.
        assert answer_bounds(remove)[1] < answer_bounds(add)[0]
        assert answer_bounds(both)[0] <= answer_bounds(add)[1]
        assert answer_bounds(add)[0] <= answer_bounds(both)[1]
        assert number(SAMPLED, question).model_copy(update={"question": both.question}) == both
    advantages = [
        answer_bounds(number(SAMPLED, {"type": "advantage", "direction": direction}))
        for direction in ("add", "remove", "both")
    ]
    assert max(lower for lower, _ in advantages) <= min(upper for _, upper in advantages)


def test_candidates_and_prior_probabilities_are_baselines() -> None:
    exact = number(GAUSSIAN, {"type": "reconstruction", "baseline_success": 2**-10})
    assert number(GAUSSIAN, {"type": "reconstruction", "candidates": 1024}).value == exact.value
    listed = number(GAUSSIAN, {"type": "reconstruction", "prior_probabilities": [0.25, 0.5, 0.25]})
    assert listed.value == number(GAUSSIAN, {"type": "reconstruction", "baseline_success": 0.5}).value


@pytest.mark.parametrize("candidates", [1, 3, 10, 49, 10**15 - 1])
def test_baseline_of_one_in_n_is_enclosed(candidates: int) -> None:
    answer = number(GAUSSIAN, {"type": "reconstruction", "candidates": candidates})
    with mpmath.workdps(60):  # gamma = Phi(Phi^-1(1/n) + mu)
        rate = mpmath.mpf(1) / candidates
        threshold = mpmath.sqrt(2) * mpmath.erfinv(2 * rate - 1) if candidates > 1 else mpmath.inf
        truth = mpmath.ncdf(threshold + 1)
    assert answer.lower <= truth <= answer.upper
    assert answer.tolerance_met


def test_tolerance_changes_only_tolerance_met() -> None:
    strict = number(HUNDRED_STEPS, {"type": "epsilon", "delta": 1e-5}, relative_tolerance=1e-16)
    lax = number(HUNDRED_STEPS, {"type": "epsilon", "delta": 1e-5}, relative_tolerance=1)
    assert not strict.tolerance_met
    assert lax.tolerance_met
    assert (strict.lower, strict.upper) == (lax.lower, lax.upper)
    [curve] = compute(
        HUNDRED_STEPS, {"type": "trade_off", "false_positive_rates": [0.1]}, relative_tolerance=1e-16
    ).answers
    assert not curve.tolerance_met


def test_answer_does_not_depend_on_other_questions() -> None:
    questions = [question for question, _ in EVERY_NUMBER_QUESTION]
    together = compute(SAMPLED, *questions)
    assert [answer.question for answer in together.answers] == list(request(SAMPLED, *questions).questions)
    for question, answer in zip(questions, together.answers, strict=True):
        assert number(SAMPLED, question) == answer
    assert compute(SAMPLED, *questions).json_bytes() == together.json_bytes()


def test_response_echoes_canonical_request() -> None:
    response = compute({"type": "dpsgd", "sigma": 1.0, "q": 1.0, "num_steps": 4}, {"type": "advantage"})
    assert response.digest == DIGEST
    assert response.engine_version == "2026.01.01"
    assert response.worst_case is None
    assert json.loads(response.json_bytes())["mechanism"] == {
        "type": "dpsgd",
        "noise_multiplier": 1.0,
        "sample_rate": 1.0,
        "steps": 4,
    }


@pytest.mark.parametrize(
    ("mechanism", "codes"),
    [
        (GAUSSIAN, set()),
        (PURE, {"stated_parameters_alone"}),
        (SAMPLED, {"poisson_sampling_assumed", "large_sample_rate"}),
        (
            {"type": "dpsgd", "sigma": 1.0, "q": 0.01, "steps": 1},
            {"poisson_sampling_assumed", "microbatches_double_sensitivity", "one_record_is_protected"},
        ),
        (
            {"type": "dpsgd", "sigma": 1.0, "q": 1, "steps": 1},
            {"microbatches_double_sensitivity", "one_record_is_protected"},
        ),
    ],
)
def test_hazards_and_assumptions_depend_on_mechanism(mechanism: dict[str, Any], codes: set[str]) -> None:
    response = compute(mechanism, {"type": "advantage"})
    assert {hazard.code for hazard in response.hazards} == codes
    assert response.assumptions
    assert all(assumption.holds == "unknown" for assumption in response.assumptions)
    sentence = any("Poisson" in hazard.text or "independently" in hazard.text for hazard in response.assumptions)
    assert sentence == ("poisson_sampling_assumed" in codes)


@pytest.mark.parametrize(
    ("mechanism", "more", "pointer"),
    [
        ({"type": "poisson_sampled", "q": 0.1, "event": {"type": "gdp", "mu": 1.0}}, {}, "/mechanism"),
        ({"type": "repeated", "steps": 2, "mechanism": PURE}, {"method": "contour"}, "/method"),
        ({"type": "composed", "mechanisms": [LAPLACE, GAUSSIAN]}, {"method": "closed_form"}, "/method"),
        ({"type": "dpsgd", "sigma": 1.0, "q": 0.1, "steps": 10}, {"method": "closed_form"}, "/method"),
        (PURE, {"method": "contour"}, "/method"),
        (
            SAMPLED | {"mechanism": LAPLACE},
            {"threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"}},
            "/threat_model",
        ),
    ],
)
def test_unsupported_combination_has_pointer_and_alternatives(
    mechanism: dict[str, Any], more: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(UnsupportedCombination) as caught:
        compute(mechanism, {"type": "advantage"}, **more)
    assert caught.value.pointer == pointer
    assert caught.value.supported


def test_error_of_question_points_to_it() -> None:
    def outside(curve: object, question: object) -> None:
        raise UnsupportedCombination("question", "this", "no theorem covers it.", ("that",))

    kind = type(request(GAUSSIAN, {"type": "advantage"}).questions[0])
    table: Any = READINGS
    original = table[kind]
    table[kind] = outside
    try:
        with pytest.raises(PrivacyComputationError) as caught:
            compute(GAUSSIAN, {"type": "epsilon", "delta": 1e-5}, {"type": "advantage"})
    finally:
        table[kind] = original
    assert caught.value.pointer == "/questions/1"


@pytest.mark.parametrize(
    ("name", "kind", "pointer"),
    [("delta", OutOfDomain, "/questions/0"), ("epsilons", NumericalFailure, ""), ("prior", NumericalFailure, "")],
)
def test_error_in_internal_value_is_no_client_error(
    name: str, kind: type[PrivacyComputationError], pointer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outside(curve: object, question: object) -> None:
        raise OutOfDomain(name, math.nan, "a number")

    asked = {"type": "epsilon", "delta": 1e-5}
    table: Any = READINGS
    monkeypatch.setitem(table, type(request(GAUSSIAN, asked).questions[0]), outside)
    with pytest.raises(kind) as caught:
        compute(GAUSSIAN, asked)
    assert type(caught.value) is kind
    assert caught.value.pointer == pointer


def test_replace_one_equals_half_the_noise() -> None:
    relation = {"threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"}}
    question = {"type": "epsilon", "delta": 1e-5}
    twice = number({"type": "gaussian", "noise_multiplier": 2.0}, question, **relation)
    assert (twice.lower, twice.upper) == (number(GAUSSIAN, question).lower, number(GAUSSIAN, question).upper)


def test_functions_can_be_imported_by_name() -> None:
    for function in (BOUNDS.function, BOUNDS.quote):
        assert getattr(importlib.import_module(function.__module__), function.__name__) is function


def test_cost_is_estimated_without_computation() -> None:
    run = {"type": "dpsgd", "sigma": 20.0, "q": 1e-3, "steps": 10**12}
    cheap = BOUNDS.quote(request(GAUSSIAN, {"type": "advantage"})).cost
    dear = BOUNDS.quote(request(run, {"type": "advantage"})).cost
    dearer = BOUNDS.quote(request(run, *[{"type": "trade_off", "false_positive_rates": [0.1] * 1000}] * 2)).cost
    assert 0 < cheap < dear < dearer
    assert isinstance(dearer, int)


def test_both_directions_cost_more_than_one() -> None:
    """Both directions cost more than one, unless they share one curve."""
    run = {"type": "dpsgd", "sigma": 1.0, "q": 0.01, "steps": 1000}
    full = {"type": "dpsgd", "sigma": 1.0, "q": 1.0, "steps": 1000}
    for question in (
        {"type": "reconstruction", "kappa": 0.001},
        {"type": "gdp_mu"},
        {"type": "trade_off", "fpr": [0.1]},
    ):
        add, both = ({**question, "direction": direction} for direction in ("add", "both"))
        assert BOUNDS.quote(request(run, both)).cost > 1.2 * BOUNDS.quote(request(run, add)).cost
        assert BOUNDS.quote(request(full, both)).cost == BOUNDS.quote(request(full, add)).cost


def test_equal_questions_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module, read = importlib.import_module("service.resources.rounds"), list[str]()
    original = module.evaluate_question

    def counted(curves: Any, question: Any, tolerance: float) -> Any:
        read.append(question.type)
        return original(curves, question, tolerance)

    monkeypatch.setattr(module, "evaluate_question", counted)
    asked = [{"type": "advantage"}, {"type": "epsilon", "delta": 1e-5}, {"type": "advantage"}]
    response = BoundsResponse.model_validate(BOUNDS.function(request(GAUSSIAN, *asked), DIGEST, "test"))
    assert [answer.type for answer in response.answers] == ["advantage", "epsilon", "advantage"]
    assert read == ["advantage", "epsilon"]
