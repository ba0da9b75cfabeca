"""`tight`: whether both bounds rest on one attained pair, on two theorems, or are unproved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from api_schemas.audit_examples import ATTACK_COUNTS_EXAMPLES
from api_schemas.examples import MEMBERSHIP_CONVERSIONS_EXAMPLES
from api_schemas.pmp_examples import PMP_FINITE_EXAMPLES
from service.privacy.composition.planning import choose
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.threat_models.membership import Membership
from service.privacy.threat_models.mixture import Adversary, AdversaryMixture
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import Computation
from service.resources.audits.attack_counts import ATTACK_COUNTS
from service.resources.bounds import BOUNDS
from service.resources.conversions.gdp_gmip import GDP_GMIP
from service.resources.conversions.membership import MEMBERSHIP_CONVERSIONS
from service.resources.curves import CURVES
from service.resources.numbers import UNPROVED
from service.resources.pmp.exponential import PMP_EXPONENTIAL
from service.resources.pmp.finite import PMP_FINITE
from service.resources.pmp.gaussian import PMP_GAUSSIAN
from tests.contract.published_document import PATH
from tests.privacy.cases import CASES, built, dpsgd, gaussian, laplace, mixture, noisy_sgd, sampled
from tests.slow_marker import sample_of, thorough

DIGEST = "sha256:" + "0" * 64
REPLACED = {"type": "worst_case", "neighboring_relation": "replace_one"}
ADDED = {"type": "worst_case", "neighboring_relation": "add_or_remove_one"}
RUN = noisy_sgd(4000, 2.5, 50)
DELTA = {"type": "delta", "epsilon": 1.0}
POINTS = {"type": "trade_off", "false_positive_rates": [0.1]}
ENCLOSED_CHOICES = (
    "noisy_max_laplace",
    "noisy_max_run",
    "sparse_vector",
    "discrete_gaussian_vector",
    "shuffled_reports",
    "shuffled_responses",
    "shuffled_rounds",
)
"""Cases whose bounds are those of two theorems, under every relation."""


def exponentials(steps: int) -> dict[str, Any]:
    """Return several successive choices by score, as a composition of exponential mechanisms."""
    return {"type": "repeated", "steps": steps, "mechanism": {"type": "exponential", "epsilon": 0.1}}


def response_body(computation: Computation[Any, Any], **request: Any) -> dict[str, Any]:
    """Return the body of a response."""
    asked = computation.request_type.model_validate_json(json.dumps(request))
    return cast("dict[str, Any]", json.loads(computation.body(asked, DIGEST, "2026.01.01")))


def with_evidence(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a response body that has the field `evidence`."""
    if isinstance(node, dict):
        named = cast("dict[str, Any]", node)
        if "evidence" in named and "crossings" not in named:
            yield named
        for inner in named.values():
            yield from with_evidence(inner)
    elif isinstance(node, list):
        for inner in cast("list[Any]", node):
            yield from with_evidence(inner)


def tight_values(body: dict[str, Any]) -> list[bool | None]:
    """Check the fields beside `tight`, and return all of its values."""
    found: list[bool | None] = []
    for node in with_evidence(body):
        unproved = node["evidence"] is None or node["evidence"] in UNPROVED
        assert (node["tight"] is None) == unproved
        noted = any(note.startswith("bracket:") for note in node.get("notes", ()))
        if "notes" in node and node.get("method") not in ("yeom", "erlingsson", "sablayrolles", "jayaraman"):
            assert noted == (node["tight"] is False)
        found.append(node["tight"])
    assert found
    return found


def test_every_schema_with_evidence_has_tight() -> None:
    schemas: dict[str, Any] = json.loads(PATH.read_text("utf-8"))["components"]["schemas"]
    sure = {name for name, schema in schemas.items() if "evidence" in schema.get("properties", {})}
    says = {name for name in sure if "tight" in schemas[name]["required"]}
    assert sure - says == {
        "CertificatesResponse",
        "CurveComparison",
        "CurveVerdict",
        "GdpSummary",
    }  # Verdicts, and the field that names its answer.
    assert len(says) >= 14


@pytest.mark.parametrize(
    ("mechanism", "model", "tight"),
    [
        (dpsgd(1.0, 0.01, 1000), ADDED, True),
        (RUN, ADDED, True),
        (RUN, REPLACED, False),
        (noisy_sgd(4000, 2.5, 1), REPLACED, True),
        (noisy_sgd(400, 2.5, 50), REPLACED, True),
        (gaussian(1.0), {"type": "glrt", "dimension": 30}, True),
        (gaussian(1.0), {"type": "practical", "epsilon_pmp": 0.5}, False),
        (dpsgd(1.0, 0.2, 10), {"type": "practical", "epsilon_pmp": 0.5}, False),
        thorough(dpsgd(1.0, 0.01, 10), {"type": "practical", "epsilon_pmp": 0.5}, False),
        (sampled(0.01, laplace(1.0)), {"type": "practical", "epsilon_pmp": 0.5}, False),
        (exponentials(5), ADDED, True),
        ({"type": "composed", "mechanisms": [exponentials(1), {"type": "exponential", "epsilon": 0.2}]}, ADDED, False),
        (exponentials(150), ADDED, False),
        (noisy_sgd(400, 2.5, 1), {"type": "membership"}, False),
        (noisy_sgd(400, 0.0, 1), {"type": "membership"}, True),
        (noisy_sgd(400, 2.5, 1), {"type": "membership", "step_curve": "gaussian"}, None),
    ],
)
def test_answers_and_curves_have_expected_tight(
    mechanism: dict[str, Any], model: dict[str, Any], tight: bool | None
) -> None:
    asked = {"mechanism": mechanism, "relative_tolerance": 1e-3}
    body = response_body(BOUNDS, **asked, threat_model=model, questions=[DELTA])
    assert tight_values({"answers": body["answers"]}) == [tight]
    assert body["worst_case"] is None or tight_values(body["worst_case"])
    drawn = response_body(CURVES, **asked, threat_models=[model], false_positive_rates=[0.1])
    assert tight_values({"curves": drawn["curves"]})[0] == tight


def test_every_method_has_tight() -> None:
    body = response_body(
        BOUNDS, mechanism=dpsgd(2.0, 0.1, 100), questions=[DELTA, POINTS], method="all", relative_tolerance=1e-3
    )
    assert set(tight_values(body)) == {True, None}
    # Earlier bounds range from guessing to their theorem.
    beside = response_body(
        BOUNDS, mechanism={"type": "pure_dp", "epsilon": 1.0}, questions=[{"type": "advantage"}], method="all"
    )
    tight = {entry["method"]: entry["tight"] for entry in beside["answers"][0]["methods"]}
    assert tight["closed_form"] is True
    assert tight["yeom"] is tight["erlingsson"] is False


def test_audits_and_conversions_have_expected_tight() -> None:
    counts = {"mechanism": RUN, "threat_model": REPLACED, "confidence": 0.95}
    rates = {"true_positives": 180, "members": 1000, "false_positives": 10, "non_members": 1000}
    assert set(tight_values(response_body(ATTACK_COUNTS, **rates))) == {None}
    bound = response_body(ATTACK_COUNTS, **rates, **counts)["bound"]
    assert bound["tight"] is None
    assert any(note.startswith("bracket:") for note in bound["notes"])
    conversions = next(iter(MEMBERSHIP_CONVERSIONS_EXAMPLES.values()))["value"]
    assert set(tight_values(response_body(MEMBERSHIP_CONVERSIONS, **conversions))) == {True}
    mu = response_body(GDP_GMIP, mu_dp=1.0, dimension=650, batch_size=400, max_grad_norm=500.0)
    assert set(tight_values(mu)) <= {True, None}
    assert ATTACK_COUNTS_EXAMPLES


def test_practical_privacy_parameters_have_expected_tight() -> None:
    points = {"points": [[0.2], [1.5], [-0.4], [2.5]], "objects": [[1.0], [-1.0]], "clip_radius": 10.0, "epsilon": 8.0}
    summed = response_body(PMP_EXPONENTIAL, **points)
    assert summed["tight"] is True
    assert summed["worst_case"]["tight"] is False
    assert response_body(PMP_EXPONENTIAL, **points, exact=False, samples=1000)["tight"] is None
    unsummed = response_body(PMP_EXPONENTIAL, **points, exact=False, samples=0)
    assert unsummed["tight"] is False
    assert any(note.startswith("bracket:") for note in unsummed["notes"])
    table = next(iter(PMP_FINITE_EXAMPLES.values()))["value"]
    assert tight_values(response_body(PMP_FINITE, **table)) == [True]
    noisy = {"points": [[0.0], [0.3], [0.7], [1.1]], "query": "sum", "noise_std": 0.8}
    two = response_body(PMP_GAUSSIAN, **noisy, delta=0.01)
    assert (two["tight"], two["worst_case"]["tight"]) == (False, True)
    assert any(note.startswith("bracket:") for note in two["notes"])
    assert response_body(PMP_GAUSSIAN, **noisy, delta=0.0)["tight"] is True


def pairs(relation: NeighboringRelation) -> Iterator[tuple[str, str, TradeOffPair]]:
    """Yield the curves of every case under a relation by every engine that serves it, without evaluation."""
    for case in CASES:
        for method in choose.METHODS:
            try:
                yield case.name, method, WorstCase(relation).curves(case.mechanism, method)
            except UnsupportedCombination:
                continue


@sample_of(1)
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_only_composed_replaced_batches_are_brackets(
    relation: NeighboringRelation,
) -> None:
    for name, method, pair in pairs(relation):
        is_composed = relation == "replace_one" and name == "dpsgd_fixed"
        assert (pair.bracket is not None) == (is_composed or name in ENCLOSED_CHOICES), (name, method)


def test_combinations_of_brackets_are_brackets() -> None:
    """A combination of mechanisms whose bounds come from two theorems is bounded by two theorems as well.

    Combinations are mixtures of mechanisms or adversaries, compositions and relaxed models, by every engine.
    """
    replaced, added = WorstCase("replace_one"), WorstCase("add_or_remove_one")
    run, mixed = built(RUN), built(mixture((0.5, RUN), (0.5, gaussian(2.0))))
    composed = built({"type": "composed", "mechanisms": [noisy_sgd(4000, 2.5, 1), {"type": "pure_dp", "epsilon": 0.1}]})
    adversaries = AdversaryMixture(
        components=(Adversary(weight=0.5, threat_model=replaced), Adversary(weight=0.5, threat_model=Membership()))
    )
    for mechanism in (run, mixed, composed, built({"type": "repeated", "steps": 2, "mechanism": RUN})):
        for method in choose.METHODS:
            try:
                bracket = replaced.curves(mechanism, method).bracket
            except UnsupportedCombination:
                assert method not in ("auto", "discretised")
                continue
            assert bracket is not None
            assert "Theorem 11" in bracket
            assert "Theorem 4.2" in bracket
        assert added.curves(mechanism).bracket is None
    for model in (adversaries, Membership()):
        found = model.curves(run).bracket
        assert found is not None
        assert "Theorem 5.1" in found
        assert "Theorem 11" in found
