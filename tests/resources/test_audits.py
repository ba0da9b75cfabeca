"""Audits as requests and responses: results, and properties shared by all ways to send an audit."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import binomtest, norm

from api_schemas.attack_counts import AttackCountsRequest, AttackCountsResponse
from api_schemas.glir_audit import GlirAuditRequest, GlirAuditResponse
from api_schemas.glrt_audit import GlrtAuditRequest
from service.privacy.audits.roc import distance_from_uniform
from service.privacy.errors import OutOfDomain
from service.resources.array_archive import ArchiveError
from service.resources.audits.attack_counts import ATTACK_COUNTS
from service.resources.audits.glir import GLIR_AUDIT
from service.resources.audits.glir_upload import read_glir_upload
from service.resources.audits.glrt import GLRT_AUDIT
from service.resources.digest import digest
from tests.resources.archives import archived, as_json, encoded, gradients
from tests.slow_marker import sample_of

DIGEST = "sha256:" + "0" * 64
COUNTS: dict[str, Any] = {"true_positives": 180, "members": 1000, "false_positives": 10, "non_members": 1000}
GDP = {"type": "gdp", "mu": 1.0}


def counts_audit(**changes: Any) -> AttackCountsResponse:
    request = AttackCountsRequest.model_validate_json(json.dumps(COUNTS | changes))
    return ATTACK_COUNTS.response(request, DIGEST, "any")


def glir_audit(body: bytes | dict[str, Any]) -> GlirAuditResponse:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return GLIR_AUDIT.response(GlirAuditRequest.model_validate_json(sent), DIGEST, "any")


def uploaded_audit(arrays: dict[str, Any]) -> GlirAuditResponse:
    return GLIR_AUDIT.response(read_glir_upload(archived(arrays)), DIGEST, "any")


def test_proved_value_is_lower_bound() -> None:
    answer = counts_audit(delta=1e-5)
    assert answer.gdp_mu["value"] == answer.gdp_mu["lower"] > 1
    assert [proved["delta"] for proved in answer.epsilons] == [0, 1e-5]
    assert all(proved["value"] == proved["lower"] > 2 for proved in answer.epsilons)
    assert answer.bound is answer.worst_case is answer.mechanism is None


def test_verdict_agrees_with_proved_mu() -> None:
    """Counts exceed the bound of mu-GDP exactly if they prove a larger mu."""
    proved = counts_audit().gdp_mu["lower"]
    for counts in ({}, {"true_positives": 820, "false_positives": 990}):
        for mu, verdict in ((proved * (1 - 1e-6), "above_the_bound"), (proved * (1 + 1e-6), "consistent")):
            bound = counts_audit(mechanism={"type": "gdp", "mu": mu}, **counts).bound
            assert bound is not None
            assert bound.verdict == verdict
            assert bound.orientation == ("reversed" if counts else "as_given")


def test_attack_above_the_bound_indicates_defect() -> None:
    bound = counts_audit(mechanism=GDP).bound
    assert bound is not None
    assert (bound.verdict, bound.threat_model.type) == ("above_the_bound", "worst_case")
    assert bound.power_proved > (bound.power_bound["upper"] or math.inf)
    assert "a defect of the training or the accounting" in bound.notes[0]


def test_relaxed_adversary_is_accompanied_by_worst_case() -> None:
    alone = {"type": "worst_case"}
    relaxed = {"type": "mixture", "components": [{"weight": 1.0, "threat_model": alone}]}
    answer = counts_audit(mechanism=GDP, threat_model=relaxed)
    assert answer.bound is not None
    assert answer.worst_case is not None
    assert (answer.bound.conditional, answer.worst_case.conditional) == (True, False)
    assert answer.bound.verdict == answer.worst_case.verdict == "above_the_bound"
    assert answer.worst_case == counts_audit(mechanism=GDP, threat_model=alone).bound


def test_perfect_and_useless_attack_have_extreme_bounds() -> None:
    perfect = counts_audit(true_positives=1000, false_positives=0)
    assert (perfect.gdp_mu["upper"], perfect.epsilons[0]["upper"]) == (math.inf, math.inf)
    assert perfect.gdp_mu["lower"] > 4
    useless = counts_audit(true_positives=0, false_positives=0)
    assert (useless.gdp_mu["lower"], useless.epsilons[0]["lower"]) == (0, 0)
    assert "prove nothing" in useless.notes[0]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"members": 0}, "members"),
        ({"true_positives": -1}, "true_positives"),
        ({"false_positives": 1.5}, "false_positives"),
        ({"confidence": 1}, "confidence"),
    ],
)
def test_counts_out_of_range_are_rejected(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        counts_audit(**changes)
    assert [error["loc"] for error in caught.value.errors()] == [(pointer,)]


def test_json_and_archive_give_same_answer() -> None:
    for noise in (
        {},
        {"noise_std": np.array(0.1)},
        {"noise_std": np.array(0.1), "noise_covariance": np.array("gradient")},
    ):
        arrays = gradients() | noise
        assert glir_audit(encoded(arrays)) == uploaded_audit(arrays)


def test_digest_of_archive_covers_bytes_and_parameters() -> None:
    body = archived(gradients())
    name = digest("any", "any", read_glir_upload(body))
    assert digest("any", "any", read_glir_upload(body)) == name
    assert digest("any", "any", read_glir_upload(archived(gradients() | {"seed": np.array(1)}))) != name
    assert digest("any", "any", read_glir_upload(archived(gradients(), compressed=True))) != name


def test_moments_replace_background() -> None:
    arrays = {name: array for name, array in gradients(steps=1).items() if "background" not in name}
    moments = {"steps.0.background_mean": np.zeros(3)}
    full = arrays | moments | {"steps.0.background_covariance": np.diag([1.0, 2.0, 3.0])}
    diagonal = arrays | moments | {"steps.0.background_variances": np.array([1.0, 2.0, 3.0])}
    one, other = glir_audit(encoded(full)), glir_audit(encoded(diagonal))
    assert one.log_likelihood_ratios == pytest.approx(other.log_likelihood_ratios)
    assert one.combined_p_values == pytest.approx(other.combined_p_values)
    assert uploaded_audit(full) == one


def test_gradients_are_clipped() -> None:
    arrays = gradients(steps=1)
    free, clipped = glir_audit(encoded(arrays)), glir_audit(encoded(arrays | {"max_grad_norm": np.array(0.5)}))
    assert clipped.steps[0].susceptibilities != free.steps[0].susceptibilities
    far = glir_audit(encoded(arrays | {"max_grad_norm": np.array(1e9)}))
    assert far.steps == free.steps


def test_worst_case_is_given_with_noise_and_clipping() -> None:
    arrays = gradients() | {"noise_std": np.array(0.5), "max_grad_norm": np.array(2.0)}
    answer = glir_audit(encoded(arrays))
    assert answer.roc is not None
    assert answer.roc.worst_case is not None
    mu = 2 * 2.0 * math.sqrt(2) / (20 * 0.5)
    assert answer.roc.worst_case["mu"] == pytest.approx(mu)
    rates = answer.roc.roc.false_positive_rate["estimate"]
    expected = norm.cdf(norm.ppf(rates) + mu)
    assert answer.roc.worst_case["lower"] == pytest.approx(expected)
    for fewer in (gradients(), gradients() | {"noise_std": np.array(0.5)}):
        without = glir_audit(encoded(fewer)).roc
        assert without is not None
        assert without.worst_case is None


def test_without_members_there_is_no_curve() -> None:
    arrays = gradients()
    del arrays["members"]
    answer = glir_audit(encoded(arrays))
    assert answer.roc is answer.p_value_uniformity is None
    assert answer.combined_p_values is not None
    assert len(answer.combined_p_values) == answer.queries == 8
    assert all(0 < value <= 1 for value in answer.combined_p_values)
    one_class = glir_audit(encoded(arrays | {"members": np.ones(8, dtype=bool)}))
    assert one_class.roc is None
    assert any("needs members and non-members" in note for note in one_class.notes)


@sample_of(2)
@pytest.mark.parametrize("noise", [{}, {"noise_std": 0.1}, {"noise_std": 0.1, "noise_covariance": "gradient"}])
def test_simulated_gradients_agree_with_theory(noise: dict[str, Any]) -> None:
    sent = {"batch_size": 30, "simulate": {"dimension": 20, "queries": 4000, "steps": 2}, "confidence": 0.999, **noise}
    answer = glir_audit(sent)
    assert answer.roc is not None
    assert answer.p_value_uniformity is not None
    assert answer.roc.verdict == "consistent"
    assert answer.roc.theory["dimension"] == 40
    assert answer.p_value_uniformity.distance < answer.p_value_uniformity.critical_value
    assert {assumption.holds for assumption in answer.assumptions} == {"yes"}
    assert glir_audit(sent) == answer
    assert glir_audit(sent | {"seed": 1}) != answer


def test_leak_is_above_the_bound() -> None:
    """The audit of a batch of 100 records that is declared as a batch of 2000 is above the bound."""
    generator = np.random.Generator(np.random.PCG64(5))
    queries = generator.standard_normal((200, 200))
    step = {
        "mean_gradient": queries[:100].mean(axis=0).tolist(),
        "query_gradients": queries.tolist(),
        "background_mean": [0.0] * 200,
        "background_variances": [1.0] * 200,
    }
    sent = {"steps": [step], "members": [True] * 100 + [False] * 100}
    told_the_truth = glir_audit({"batch_size": 100, **sent})
    assert told_the_truth.roc is not None
    assert told_the_truth.roc.verdict == "consistent"
    answer = glir_audit({"batch_size": 2000, **sent})
    assert answer.roc is not None
    assert answer.roc.verdict == "above_the_bound"


def test_long_columns_are_omitted_with_note() -> None:
    answer = glir_audit({"batch_size": 5, "simulate": {"dimension": 1, "queries": 10_002}})
    assert answer.combined_p_values is answer.steps[0].p_values is None
    assert any("omitted" in note for note in answer.notes)


def test_singular_covariance_points_to_background() -> None:
    arrays = gradients()
    arrays["steps.0.background_gradients"][:, 1] = 5.0
    for shrinkage in (0.0, 0.5):
        with pytest.raises(OutOfDomain, match="nonsingular") as caught:
            glir_audit(encoded(arrays | {"shrinkage": np.array(shrinkage)}))
        assert caught.value.pointer == "/steps/0/background_gradients"
        assert "constant" in caught.value.remedy


def test_query_in_background_is_rejected_with_pointer() -> None:
    arrays = gradients()
    arrays["steps.1.query_gradients"][3] = arrays["steps.1.background_gradients"][7]
    for answer in (lambda: glir_audit(encoded(arrays)), lambda: uploaded_audit(arrays)):
        with pytest.raises(OutOfDomain, match="outside the background") as caught:
            answer()
        assert caught.value.pointer == "/steps/1/query_gradients/3"
        assert "neither in the batch" in caught.value.remedy


def test_p_values_are_exact_for_json_and_archive() -> None:
    """P-values below 1 % occur in 1 % of the cases, for JSON and for archives.

    There are 100 background gradients in 20 dimensions. With an estimated law in place of the exact one, such p-values
    occurred in 6.5 % of the cases.
    """
    p_values: list[float] = []
    for trial in range(400):
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([20261206, trial])))
        arrays = {
            "batch_size": np.array(100),
            "steps.0.mean_gradient": random.standard_normal((100, 20)).mean(axis=0),
            "steps.0.query_gradients": random.standard_normal((1, 20)),
            "steps.0.background_gradients": random.standard_normal((100, 20)),
        }
        answer = uploaded_audit(arrays) if trial % 2 else glir_audit(encoded(arrays))
        p_values += answer.combined_p_values or ()
    distance, critical = distance_from_uniform(np.array(p_values))
    assert distance < critical
    assert binomtest(sum(p <= 0.01 for p in p_values), 400, 0.01).pvalue > 1e-4


def test_assumptions_depend_on_law() -> None:
    def codes(arrays: dict[str, Any]) -> set[str]:
        return {assumption.code for assumption in uploaded_audit(arrays).assumptions}

    laws = {"gradient_law_known", "background_is_disjoint"}
    arrays = gradients()
    assert codes(arrays) & laws == {"background_is_disjoint"}
    known = {name: array for name, array in arrays.items() if name != "steps.1.background_gradients"}
    known |= {"steps.1.background_mean": np.zeros(3), "steps.1.background_variances": np.ones(3)}
    assert codes(known) & laws == laws
    for answer in (
        lambda: uploaded_audit(known | {"shrinkage": np.array(0.1)}),
        lambda: glir_audit(as_json(known) | SHRUNK),
    ):
        with pytest.raises((ArchiveError, ValidationError), match="counts as known"):
            answer()


SHRUNK = {"shrinkage": 0.1}
STEP = "steps.1."
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "NaN": ({STEP + "query_gradients": np.full((8, 3), math.nan)}, "/steps/1/query_gradients"),
    "infinity": ({STEP + "mean_gradient": np.full(3, math.inf)}, "/steps/1/mean_gradient"),
    "huge": ({STEP + "background_gradients": np.full((9, 3), 1e31)}, "/steps/1/background_gradients"),
    "pickled": ({STEP + "query_gradients": np.array([[1, None]], dtype=object)}, "/steps/1/query_gradients"),
    "text": ({STEP + "mean_gradient": np.array(["a", "b", "c"])}, "/steps/1/mean_gradient"),
    "another dimension": ({STEP + "query_gradients": np.zeros((8, 4))}, "/steps/1/query_gradients"),
    "three dimensions": ({STEP + "query_gradients": np.zeros((8, 3, 1))}, "/steps/1/query_gradients"),
    "no entries": ({STEP + "background_gradients": np.zeros((0, 3))}, "/steps/1/background_gradients"),
    "one background gradient": ({STEP + "background_gradients": np.zeros((1, 3))}, "/steps/1/background_gradients"),
    "five background gradients": ({STEP + "background_gradients": np.ones((5, 3))}, "/steps/1/background_gradients"),
    "a mean beside": ({STEP + "background_mean": np.zeros(3)}, "/steps/1"),
    "a step left out": ({"steps.3.mean_gradient": np.zeros(3)}, "/steps"),
    "unknown field": ({STEP + "weights": np.zeros(3)}, "/steps/1/weights"),
    "unknown name": ({"labels": np.zeros(3)}, "/labels"),
    "simulate": ({"simulate": np.array(1)}, "/simulate"),
    "too few members": ({"members": np.array([True])}, "/members"),
    "numbers for members": ({"members": np.zeros(8)}, "/members"),
}


@pytest.mark.parametrize(("change", "pointer"), BAD.values(), ids=BAD)
def test_bad_array_is_rejected_with_pointer(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        uploaded_audit(gradients() | change)
    assert caught.value.pointer == pointer
    assert caught.value.sentence.endswith(".")


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": np.array(1)},
        {"batch_size": np.array(2.5)},
        {"noise_std": np.array(math.nan)},
        {"shrinkage": np.array(2)},
    ],
)
def test_parameters_of_archive_are_checked_like_json(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        read_glir_upload(archived(gradients() | change))
    assert [error["loc"] for error in caught.value.errors()] == [(next(iter(change)),)]


def test_cost_grows_with_work_and_allocates_nothing() -> None:
    def price(**fields: Any) -> int:
        return GLIR_AUDIT.quote(GlirAuditRequest.model_validate({"batch_size": 9, **fields})).cost

    small = price(simulate={"dimension": 10, "queries": 100})
    assert price(simulate={"dimension": 10, "queries": 800_000}) > 10 * small
    assert GLIR_AUDIT.quote(read_glir_upload(archived(gradients()))).cost == price(**_tuples(as_json(gradients())))
    large = GlrtAuditRequest(noise_multiplier=1.0, queries=1, dimension=10**6, trials=1000)
    assert GLRT_AUDIT.quote(large).cost > 10**7


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items() if key != "batch_size"}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@pytest.mark.parametrize(("noise_multiplier", "queries", "dimension"), [(6.0, 70, 1), (3.5, 50, 50)])
def test_simulated_glrt_adversary_stays_within_its_curve(noise_multiplier: float, queries: int, dimension: int) -> None:
    request = GlrtAuditRequest(
        noise_multiplier=noise_multiplier, queries=queries, dimension=dimension, trials=5_000, confidence=0.999
    )
    answer = GLRT_AUDIT.response(request, DIGEST, "any")
    assert answer.noncentrality == pytest.approx(queries / noise_multiplier**2)
    for attack in (answer.glrt, answer.worst_case):
        assert (attack.verdict, attack.below_the_curve) == ("consistent", False)
    weak, strong = answer.glrt.roc.true_positive_rate, answer.worst_case.roc.true_positive_rate
    assert sum(weak["estimate"]) / len(weak["estimate"]) < sum(strong["estimate"]) / len(strong["estimate"])
    assert GLRT_AUDIT.body(request, DIGEST, "any") == answer.json_bytes()
