"""Certificates: the checker agrees with certified answers, refutes smaller numbers, and says what it does not cover."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator
from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.certificates import CertificatesResponse
from service.privacy.errors import UnsupportedCombination
from service.resources.bounds import BOUNDS
from service.resources.certificates.certifying import CERTIFICATES
from service.resources.certificates.cross_check import BoundsCrossCheck
from tests.slow_marker import thorough

Spec = dict[str, Any]
NAMED: Final = "sha256:" + "0" * 64
RUN: Final[Spec] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
EPSILON: Final[Spec] = {"type": "epsilon", "delta": 1e-5}
REPLACED: Final[Spec] = {"type": "worst_case", "neighboring_relation": "replace_one"}
STEP: Final[Spec] = {"type": "gaussian", "noise_multiplier": 2.0}
MIXTURE: Final[Spec] = {
    "type": "gaussian_mixture",
    "noise_multiplier": 1.5,
    "shifts": [0.0, 1.0, 2.0],
    "weights": [0.9, 0.09, 0.01],
}


def certify(**body: Any) -> CertificatesResponse:
    return CERTIFICATES.response(CERTIFICATES.request_type.model_validate_json(json.dumps(body)), NAMED, "2026.01.01")


def refused(**body: Any) -> UnsupportedCombination:
    request = CERTIFICATES.request_type.model_validate_json(json.dumps(body))
    with pytest.raises(UnsupportedCombination) as raised:
        CERTIFICATES.quote(request)
    with pytest.raises(UnsupportedCombination):
        CERTIFICATES.body(request, NAMED, "2026.01.01")
    return raised.value


def answer(mechanism: Spec, question: Spec, **more: Any) -> Spec:
    request = BoundsRequest.model_validate_json(json.dumps({"mechanism": mechanism, "questions": [question], **more}))
    [found] = json.loads(BOUNDS.body(request, NAMED, "2026.01.01"))["answers"]
    return found["points"][0]["power"] if "points" in found else found


def drawn(random: Generator) -> tuple[Spec, Spec, Spec]:
    """Draw a run of which the sampled steps number at least 3 on average, a threat model and a question."""
    rate = float(f"{10 ** random.uniform(-3.5, -0.5):.3g}")
    steps = int(10 ** random.uniform(math.log10(max(20.0, 3 / rate)), 5))
    run = {"type": "dpsgd", "noise_multiplier": round(random.uniform(0.6, 6), 2), "sample_rate": rate, "steps": steps}
    question = [
        {"type": "epsilon", "delta": 10 ** random.uniform(-9, -3)},
        {"type": "delta", "epsilon": random.uniform(0.05, 8)},
        {"type": "advantage"},
        {"type": "reconstruction", "baseline_success": 10 ** random.uniform(-8, -0.4)},
        {"type": "trade_off", "false_positive_rates": [10 ** random.uniform(-12, -0.4)], "direction": "remove"},
    ][random.integers(5)]
    mechanism = [run, run, MIXTURE | {"noise_multiplier": round(random.uniform(1, 4), 2)}, STEP][random.integers(4)]
    if mechanism["type"] == "gaussian_mixture":
        mechanism = {"type": "repeated", "mechanism": mechanism, "steps": int(random.integers(2, 300))}
        return mechanism, {"type": "worst_case"}, question
    return mechanism, [REPLACED, {"type": "worst_case"}][random.integers(2)], question


@pytest.mark.parametrize("seed", [seed if seed in (0, 1, 2) else thorough(seed) for seed in range(500)])
def test_certified_answers_are_proved_and_smaller_numbers_refuted(seed: int) -> None:
    """Certificates prove certified answers and refute smaller numbers.

    No certificate contradicts an enclosure. A proof that is out of reach says why.
    """
    mechanism, model, question = drawn(np.random.default_rng(seed))
    known = answer(mechanism, question, threat_model=model)
    about = {"mechanism": mechanism, "threat_model": model, "question": question}
    found = certify(**about, value=known["value"])
    assert found.verdict != "refuted"
    assert (found.evidence == "proved") == (found.verdict == "proved")
    assert all(proof.reason for proof in found.proofs)
    if known["value"] < 1 - 1e-9 and known["lower"] > 0:
        smaller = certify(**about, value=known["lower"] * (1 - 1e-6))
        assert smaller.verdict != "proved"
        assert smaller.evidence is None
        assert smaller.verdict == "refuted" or found.verdict == "not_decided" or question["type"] == "trade_off"


def test_without_a_value_the_safe_number_is_proved() -> None:
    found = certify(mechanism=RUN, question=EPSILON)
    known = answer(RUN, EPSILON)
    assert (found.verdict, found.evidence, found.value) == ("proved", "proved", known["value"])
    assert found.answer is not None
    assert [proof.direction for proof in found.proofs] == ["add", "remove"]
    for proof in found.proofs:
        assert float(proof.lower or "nan") <= float(proof.upper or "nan") <= proof.at_most == 1e-5
        assert (proof.quantity, proof.at) == ("delta", found.value)


def test_a_type_two_error_is_certified_as_a_power() -> None:
    question = {"type": "trade_off", "false_positive_rates": [0.01]}
    found = certify(mechanism=RUN, question=question, reads="type_two_error")
    assert (found.verdict, found.reads) == ("proved", "type_two_error")
    larger = certify(mechanism=RUN, question=question, reads="type_two_error", value=found.value * (1 + 1e-6))
    assert larger.verdict == "refuted"


def test_an_infinite_epsilon_needs_no_proof() -> None:
    found = certify(mechanism=RUN, question=EPSILON, value="Infinity")
    assert (found.verdict, found.proofs, found.value) == ("proved", (), math.inf)
    assert found.notes


def test_one_of_the_candidates_is_an_exact_rate() -> None:
    """The certificate of a choice among three candidates is about the exact rate 1/3, which is no double."""
    found = certify(mechanism=STEP, question={"type": "reconstruction", "candidates": 3})
    assert found.verdict == "proved"
    power = certify(
        mechanism=STEP, question={"type": "reconstruction", "candidates": 3}, value=found.value * (1 - 1e-12)
    )
    assert power.verdict == "refuted"


EQUAL_RUNS: Final[list[tuple[Spec, Spec]]] = [
    (
        {
            "type": "repeated",
            "steps": 40,
            "mechanism": {"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": STEP},
        },
        {"type": "dpsgd", "noise_multiplier": [2.0, 2.0], "sample_rate": 0.1, "steps": [15, 25]},
    ),
    (
        {"type": "composed", "mechanisms": [STEP, {"type": "repeated", "steps": 3, "mechanism": STEP}]},
        {"type": "gaussian", "noise_multiplier": 1.0},
    ),
]


@pytest.mark.parametrize(("one", "two"), EQUAL_RUNS)
def test_equal_runs_have_equal_proofs(one: Spec, two: Spec) -> None:
    question = {"type": "delta", "epsilon": 0.7}
    proofs = [certify(mechanism=run, question=question, value=0.3).proofs for run in (one, two)]
    for first, second in zip(*proofs, strict=True):
        assert float(first.lower or "nan") == pytest.approx(float(second.lower or "nan"), rel=1e-9)


def quoted(mechanism: Spec, question: Spec = EPSILON, **more: Any) -> int:
    body = {"mechanism": mechanism, "question": question, "value": 0.5, **more}
    return CERTIFICATES.quote(CERTIFICATES.request_type.model_validate_json(json.dumps(body))).cost


def test_quotes_grow_with_directions_kinds_and_shifts() -> None:
    """Each further kind of sampled step adds the same cost, and so does each further shift.

    Two directions cost double.
    """
    mixtures = [
        MIXTURE | {"shifts": [k / 4 for k in range(count)], "weights": [1 / count] * count} for count in (2, 4, 8)
    ]
    two, four, eight = map(quoted, mixtures)
    assert eight - four == 2 * (four - two) > 0
    kinds = [{**RUN, "noise_multiplier": [1 + k / 8 for k in range(count)], "steps": 50} for count in (1, 2, 3)]
    one, both, three = map(quoted, kinds)
    assert three - both == both - one > four - two
    assert one == 2 * quoted(RUN, EPSILON | {"direction": "add"})
    assert quoted({"type": "repeated", "mechanism": STEP, "steps": 50}) == quoted(STEP) < two


LAPLACE: Final[Spec] = {"type": "laplace", "noise_multiplier": 1.0}
NOT_COVERED: Final[list[tuple[Spec, str, str]]] = [
    ({"mechanism": LAPLACE, "question": EPSILON}, "/mechanism", "gaussian_mixture"),
    ({"mechanism": {**RUN, "sampling": "fixed_without_replacement"}, "question": EPSILON}, "/mechanism", "dpsgd with"),
    ({"mechanism": MIXTURE, "threat_model": REPLACED, "question": EPSILON}, "/mechanism", "gaussian"),
    ({"mechanism": RUN, "question": {"type": "gdp_mu"}}, "/question", "advantage"),
    (
        {"mechanism": RUN, "question": {"type": "reconstruction", "candidates": 9, "direction": "both"}},
        "/question",
        "the direction add",
    ),
    (
        {"mechanism": RUN, "question": EPSILON, "threat_model": {"type": "worst_case", "records": 2}},
        "/threat_model",
        "worst_case of one record",
    ),
    (
        {
            "mechanism": {
                "type": "dpsgd",
                "noise_multiplier": [1 + k / 64 for k in range(33)],
                "sample_rate": 0.1,
                "steps": 9,
            },
            "question": EPSILON,
        },
        "/mechanism",
        "up to 32",
    ),
]


@pytest.mark.parametrize(("body", "pointer", "named"), NOT_COVERED)
def test_what_is_not_covered_is_refused_with_what_is(body: Spec, pointer: str, named: str) -> None:
    error = refused(**body)
    assert error.pointer == pointer
    assert any(each.startswith(named) for each in error.supported)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"value": -1}, "value"),
        ({"value": 1.5, "question": {"type": "delta", "epsilon": 1}}, "value"),
        ({"reads": "type_two_error"}, "reads"),
    ],
)
def test_a_number_that_answers_nothing_is_invalid(more: Spec, field: str) -> None:
    body = {"mechanism": RUN, "question": EPSILON, **more}
    with pytest.raises(ValidationError, match=field):
        CERTIFICATES.request_type.model_validate_json(json.dumps(body))


def outcome(mechanism: Spec, question: Spec, change: float = 0.0, **more: Any) -> str:
    """Return the outcome of a second computation of an answer whose bounds are both multiplied by 1 + change."""
    request = BoundsRequest.model_validate_json(json.dumps({"mechanism": mechanism, "questions": [question], **more}))
    body = json.loads(BOUNDS.body(request, NAMED, "2026.01.01"))
    for number in [body["answers"][0], *(p["power"] for p in body["answers"][0].get("points", ()))]:
        for name in {"lower", "upper", "value"} & set(number) if change else ():
            number[name] *= 1 + change
    report = json.loads(BoundsCrossCheck(json.dumps(body).encode()).body(request, NAMED, "2026.01.01"))
    assert bool(report["reasons"]) == (report["outcome"] == "disagreed")
    return report["outcome"]


CHECKED_AGAIN: Final[list[tuple[Spec, Spec]]] = [
    (RUN, EPSILON),
    (STEP, {"type": "trade_off", "false_positive_rates": [0.01]}),
    (LAPLACE, {"type": "advantage"}),
]


@pytest.mark.parametrize(("mechanism", "question"), [*CHECKED_AGAIN[1:], thorough(*CHECKED_AGAIN[0])])
def test_right_answers_are_not_disputed_and_wrong_ones_are(mechanism: Spec, question: Spec) -> None:
    """Two wrong answers are disputed: a number that is too small, and a number whose lower bound is above the truth."""
    assert outcome(mechanism, question) != "disagreed"
    if outcome(mechanism, question) == "agreed":
        assert outcome(mechanism, question, -1e-3) == outcome(mechanism, question, 1e-3) == "disagreed"


def test_question_without_a_prior_is_checked_beside_one_with_a_sampled_data_set() -> None:
    """A question without a prior is checked although another question of its request has a sampled data set.

    A request for bounds refuses `dataset_subsampling` without a prior, so the second computation leaves it out.
    """
    questions = ({"type": "attack_accuracy", "prior": 0.1}, {"type": "advantage"})
    body = {"mechanism": LAPLACE, "questions": questions, "dataset_subsampling": {"rate": 0.01}}
    request = BoundsRequest.model_validate_json(json.dumps(body))
    answered = BOUNDS.body(request, NAMED, "2026.01.01")
    assert json.loads(BoundsCrossCheck(answered).body(request, NAMED, "2026.01.01"))["outcome"] == "agreed"


def test_the_checker_and_another_engine_both_take_part() -> None:
    assert outcome(RUN, EPSILON) == outcome({"type": "repeated", "mechanism": LAPLACE, "steps": 3}, EPSILON) == "agreed"


def test_an_approximation_is_not_disputed() -> None:
    assert outcome(RUN, EPSILON, method="clt") == "not_covered"
