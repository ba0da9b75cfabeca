"""Request schemas: ranges, aliases, limits, and errors that point into the body as the client sent it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.fields import request_model, shape_of, shape_of_field, spellings, type_of
from api_schemas.mechanisms import GaussianMechanism, MechanismSpec
from api_schemas.problems import field_errors
from api_schemas.questions import PositivePredictiveValueQuestion, QuestionSpec
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from tests.contract.example_values import GAUSSIAN, MECHANISMS, QUESTIONS

REQUEST = TypeAdapter(BoundsRequest)

READ_BOTH_WAYS = {"epsilon", "delta", "gdp_mu"}
"""Questions whose default is the worse of the two directions, as their definitions require."""
BELOW_ONE, ABOVE_ONE = 0.9999999, 1.0000001
TINY = 5e-324

# (object, field, accepted, rejected): the ranges of the contract.
RANGES: list[tuple[str, str, list[Any], list[Any]]] = [
    ("gaussian", "noise_multiplier", [1e-4, 1, 1e15], [0, -1, 9.9e-5, TINY, 1.1e15, 1e16]),
    ("laplace", "noise_multiplier", [1e-4, 1, 1e15], [0, -1, 9.9e-5, TINY, 1.1e15, 1e16]),
    ("dpsgd", "noise_multiplier", [1e-4, 1, 1e15], [0, -1, 9.9e-5, TINY, 1.1e15, 1e16]),
    ("dpsgd", "sample_rate", [TINY, BELOW_ONE, 1, 1.0], [0, -TINY, ABOVE_ONE, 2]),
    ("poisson_sampled", "sample_rate", [TINY, BELOW_ONE, 1, 1.0], [0, -TINY, ABOVE_ONE, 2]),
    ("dpsgd", "steps", [1, 10**12], [0, -1, 1.5, 10**12 + 1, 1e18, 10**18, 1000.0, 10**30]),
    ("repeated", "steps", [1, 10**12], [0, -1, 1.5, 10**12 + 1, 1e18, 10**18, 1000.0, 10**30]),
    ("pure_dp", "epsilon", [0, TINY, 1e6], [-TINY, 1000001, 1e300]),
    ("approximate_dp", "epsilon", [0, TINY, 1e6], [-TINY, 1000001, 1e300]),
    ("approximate_dp", "delta", [0, TINY, 1], [-1, -TINY, ABOVE_ONE, 1.5]),
    ("exponential", "epsilon", [0, TINY, 1e6], [-TINY, 1000001, 1e300]),
    ("gdp", "mu", [0, TINY, 1e6], [-TINY, 1000001, 1e300]),
    ("noisy_sgd", "dataset_size", [400, 10**12], [0, 1.5, 10**12 + 1]),
    ("noisy_sgd", "batch_size", [1, 48_000], [0, 1.5, 10**12 + 1]),
    ("noisy_sgd", "dimension", [1, 10**9], [0, 1.5, 10**9 + 1, 10**10]),
    ("noisy_sgd", "steps", [1, 10**12], [0, 1.5, 10**12 + 1]),
    ("noisy_sgd", "noise_std", [0, TINY, 1e15], [-TINY, 1e16]),
    ("noisy_sgd", "max_grad_norm", [TINY, 1e15], [0, -1, 1e16]),
    ("noisy_sgd", "susceptibility", [0, TINY, 1e12], [-TINY, 1.1e12]),
    ("epsilon", "delta", [0, TINY, 1], [-1, -TINY, ABOVE_ONE, 1.5]),
    ("delta", "epsilon", [0, TINY, 1e6], [-TINY, 1000001]),
    ("trade_off", "false_positive_rates", [[0], [1], [0.5] * 10_000], [[], [0.5] * 10_001, [-TINY], [ABOVE_ONE], 0.5]),
    ("gdp_mu", "false_positive_rate_min", [0, 1], [-TINY, ABOVE_ONE]),
    ("gdp_mu", "type_two_error_min", [0, 1], [-TINY, ABOVE_ONE]),
    ("reconstruction", "baseline_success", [0, 1], [-TINY, ABOVE_ONE]),
    ("attack_accuracy", "prior", [0, 1], [-TINY, ABOVE_ONE]),
    ("attack_accuracy", "false_positive_rate", [0, 1, None], [-TINY, ABOVE_ONE]),
    ("positive_predictive_value", "prior", [0, 1], [-TINY, ABOVE_ONE]),
    ("positive_predictive_value", "side", ["at_most", "at_least"], ["both", None, 1]),
    ("negative_predictive_value", "prior", [0, 1], [-TINY, ABOVE_ONE]),
    ("advantage_over_prior", "prior", [0, 1], [-TINY, ABOVE_ONE]),
    ("deletion_capacity", "prior", [0, 1], [-TINY, ABOVE_ONE]),
    ("deletion_capacity", "confidence", [0, 1], [-TINY, ABOVE_ONE]),
    ("unlearning_guarantee", "prior", [0, 1], [-TINY, ABOVE_ONE]),
    ("unlearning_guarantee", "confidence", [0, 1], [-TINY, ABOVE_ONE]),
    ("advantage", "direction", ["add", "remove", "both"], ["up", None, 1]),
]
NOT_NUMBERS = ['"1.0"', "false", "true", "null", "NaN", "Infinity", "-Infinity", "1e999", "[]", "{}"]


def body(mechanism: Any = GAUSSIAN, question: Any = None, **more: Any) -> dict[str, Any]:
    return {"mechanism": mechanism, "questions": [question or {"type": "advantage"}], **more}


def body_with(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a request in which the object of the type `kind` has the given fields."""
    if kind in MECHANISMS:
        return body(MECHANISMS[kind] | fields)
    return body(question=QUESTIONS[kind] | fields)


def place_of(kind: str) -> str:
    return "/mechanism" if kind in MECHANISMS else "/questions/0"


def validate(sent: Any) -> BoundsRequest:
    return REQUEST.validate_json(sent if isinstance(sent, bytes) else json.dumps(sent).encode())


def errors(sent: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        validate(sent)
    return [(error.pointer, error.detail) for error in field_errors(caught.value)]


def object_of(request: BoundsRequest, kind: str) -> Any:
    return request.mechanism if kind in MECHANISMS else request.questions[0]


@pytest.mark.parametrize("kind", [*MECHANISMS, *QUESTIONS])
def test_every_type_is_accepted_and_echoed(kind: str) -> None:
    sent = MECHANISMS.get(kind) or QUESTIONS[kind]
    assert json.loads(object_of(validate(body_with(kind)), kind).model_dump_json()).items() >= sent.items()


@pytest.mark.parametrize("kind", QUESTIONS)
def test_direction_has_documented_default(kind: str) -> None:
    expected = "both" if kind in READ_BOTH_WAYS else "add"
    assert object_of(validate(body_with(kind)), kind).direction == expected


def test_defaults_are_filled_in() -> None:
    written = json.loads(validate(body(question={"type": "gdp_mu"})).model_dump_json())
    assert written["threat_model"] == {"type": "worst_case", "neighboring_relation": "add_or_remove_one"}
    assert written["method"] == "auto"
    assert written["relative_tolerance"] == 1e-6
    assert written["questions"][0]["false_positive_rate_min"] == 1e-9
    assert written["questions"][0]["type_two_error_min"] == 1e-9
    [asked] = validate(body(question={"type": "positive_predictive_value", "prior": 0.5})).questions
    assert isinstance(asked, PositivePredictiveValueQuestion)
    assert asked.side == "at_most"


@pytest.mark.parametrize(("kind", "field", "accepted", "refused"), RANGES, ids=lambda value: str(value)[:30])
def test_field_ranges_are_enforced(kind: str, field: str, accepted: list[Any], refused: list[Any]) -> None:
    for value in accepted:
        validate(body_with(kind, **{field: value}))
    for value in refused:
        found = errors(body_with(kind, **{field: value}))
        assert [pointer.startswith(f"{place_of(kind)}/{field}") for pointer, _ in found] == [True], value
        assert found[0][1].startswith("Must be ")


@pytest.mark.parametrize("text", NOT_NUMBERS)
@pytest.mark.parametrize(
    ("kind", "field"),
    [("gaussian", "noise_multiplier"), ("dpsgd", "steps"), ("epsilon", "delta"), ("deletion_capacity", "prior")],
)
def test_only_json_numbers_are_numbers(kind: str, field: str, text: str) -> None:
    sent = json.dumps(body_with(kind, **{field: "@"})).replace('"@"', text).encode()
    found = errors(sent)
    assert [pointer for pointer, _ in found] == [f"{place_of(kind)}/{field}"]
    assert "in [" in found[0][1]


def test_integers_are_accepted_for_real_numbers() -> None:
    request = validate(body_with("gaussian", noise_multiplier=2))
    assert isinstance(request.mechanism, GaussianMechanism)
    assert type(request.mechanism.noise_multiplier) is float


def test_negative_zero_is_zero() -> None:
    sent = json.dumps(body(question={"type": "trade_off", "false_positive_rates": [-0.0]})).encode()
    assert b"-0.0" in sent
    assert b"-0" not in validate(sent).model_dump_json().encode()
    assert b"-0" not in validate(body_with("epsilon", delta=-0.0)).model_dump_json().encode()


ALIASES = {
    "sample_rate": {"sampling_probability", "sampling_prob", "q"},
    "steps": {"num_steps", "count", "iterations", "ncomp", "num_compositions"},
    "noise_multiplier": {"noise"},
    "false_positive_rates": {"fpr", "alpha"},
    "false_positive_rate": {"fpr", "alpha"},
    "baseline_success": {"kappa"},
    "mechanism": {"event"},
    "mechanisms": {"events"},
}


def all_spellings() -> list[tuple[str, str, str]]:
    models = (*shape_of(MechanismSpec).models, *shape_of(QuestionSpec).models)
    return [
        (type_of(model), name, spelling)
        for model in models
        for name, field in model.model_fields.items()
        for spelling in spellings(name, field)[1:]
    ]


@pytest.mark.parametrize(("kind", "field", "spelling"), all_spellings())
def test_every_alias_is_understood(kind: str, field: str, spelling: str) -> None:
    ours = MECHANISMS.get(kind) or QUESTIONS[kind]
    if kind == "reconstruction":
        values = {"baseline_success": 0.5, "candidates": 3, "prior_probabilities": [0.5, 0.5]}
        ours = {"type": kind, field: values[field]}
    if kind == "dpsgd":
        ours = {"type": kind, "noise_multiplier": 1.0, "batch_size": 480, "dataset_size": 48_000, "epochs": 10.0}
        ours |= {field: {"sample_rate": 0.01, "steps": 1000}[field]} if field not in ours else {}
    theirs = {spelling if name == field else name: value for name, value in ours.items()}
    build = body if kind in MECHANISMS else lambda question: body(question=question)
    assert validate(build(ours)) == validate(build(theirs))
    assert field in json.loads(object_of(validate(build(theirs)), kind).model_dump_json())
    [(pointer, detail)] = errors(build({**ours, spelling: ours[field]}))
    assert pointer == f"{place_of(kind)}/{spelling}"
    assert f"`{field}`" in detail


def test_documented_aliases_exist() -> None:
    found = {(field, spelling) for _, field, spelling in all_spellings()}
    assert found >= {(field, spelling) for field, promised in ALIASES.items() for spelling in promised}
    assert ("gaussian", "noise_multiplier", "sigma") in all_spellings()


def test_sigma_is_no_alias_of_laplace_scale() -> None:
    """`sigma` is no alias of the scale of Laplace noise.

    The standard deviation of Laplace noise is sqrt(2) times its scale, so an alias would be wrong by that factor.
    """
    assert errors(body({"type": "laplace", "sigma": 1.0}))


def test_british_spelling_of_neighbouring_relation_is_accepted() -> None:
    request = validate(body(threat_model={"type": "worst_case", "neighbouring_relation": "replace_one"}))
    assert isinstance(request.threat_model, WorstCaseThreatModel)
    assert request.threat_model.neighboring_relation == "replace_one"


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        (body({"sigma": 1.0}), "/mechanism/type"),
        (body({"type": "Gaussian", "sigma": 1.0}), "/mechanism/type"),
        (body({"type": ["gaussian"], "sigma": 1.0}), "/mechanism/type"),
        (body(3), "/mechanism"),
        (body(question={"delta": 1e-5}), "/questions/0/type"),
        (body(threat_model={}), "/threat_model/type"),
        (body(threat_model={"type": "nobody"}), "/threat_model/type"),
        (body(threat_model={"type": "glrt"}), "/threat_model/dimension"),
        (body(threat_model={"type": "glrt", "dimension": 0}), "/threat_model/dimension"),
        (body(threat_model={"type": "glrt", "d": 10**10}), "/threat_model/d"),
        (
            body(threat_model={"type": "glrt", "dimension": 1, "unknown_direction": "up"}),
            "/threat_model/unknown_direction",
        ),
        (body(threat_model=None), "/threat_model"),
        (body({"type": "poisson_sampled", "q": 0.1, "event": {}}), "/mechanism/event/type"),
        (
            body({"type": "composed", "events": [GAUSSIAN, {"type": "dpsgd", "q": 2, "sigma": 1, "count": 1}]}),
            "/mechanism/events/1/q",
        ),
        (body({"type": "composed", "mechanisms": []}), "/mechanism/mechanisms"),
        (body({"type": "gaussian"}), "/mechanism/noise_multiplier"),
        (body(GAUSSIAN | {"a/b~c": 1}), "/mechanism/a~1b~0c"),
        (body(order=4), "/order"),
        (body(method="magic"), "/method"),
        (body(method=["clt"]), "/method"),
        (body(relative_tolerance=0), "/relative_tolerance"),
        (body(question={"type": "epsilon", "epsilon": 1}) | {"mechanism": GAUSSIAN}, "/questions/0/delta"),
        ({"questions": [{"type": "advantage"}]}, "/mechanism"),
        ({"mechanism": GAUSSIAN}, "/questions"),
        ({"mechanism": GAUSSIAN, "questions": []}, "/questions"),
        ({"mechanism": GAUSSIAN, "questions": [{"type": "advantage"}] * 257}, "/questions"),
        (body({"type": "composed", "mechanisms": [GAUSSIAN] * 257}), "/mechanism/mechanisms"),
        (body(question={"type": "reconstruction"}), "/questions/0"),
        (body(question={"type": "reconstruction", "kappa": 0.1, "candidates": 10}), "/questions/0"),
        (body(question={"type": "reconstruction", "priors": [0.5, 0.4]}), "/questions/0/priors"),
        (body(question={"type": "reconstruction", "candidates": 0}), "/questions/0/candidates"),
        (body(question={"type": "trade_off", "fpr": [0.1, 2, 3]}), "/questions/0/fpr/1"),
        ([], ""),
        (None, ""),
        (3, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pointers_refer_to_body_as_sent(sent: Any, pointer: str) -> None:
    found = errors(sent)
    assert found[0][0] == pointer
    assert all(detail.endswith(".") and len(detail) > 10 for _, detail in found)


@pytest.mark.parametrize(
    "sent",
    [b"", b"{", b"\xff", b'{"mechanism": "\xff"}', b"[" * 3000, b'{"a": ' * 3000, b"nonsense", b'{"mechanism": 1,}'],
)
def test_invalid_json_is_one_error_at_root(sent: bytes) -> None:
    [(pointer, detail)] = errors(sent)
    assert pointer == ""
    assert detail.startswith("The body must be valid JSON in UTF-8: ")


def test_offending_values_are_not_repeated() -> None:
    secret = "correct horse battery staple"
    for sent in (
        body({"type": secret}),
        body(secret),
        body(method=secret),
        body({"type": "gaussian", "sigma": secret}),
        body(question={"type": "advantage", "direction": secret}),
        secret,
    ):
        assert all(secret not in pointer + detail for pointer, detail in errors(sent))


def test_many_errors_are_listed_in_part() -> None:
    found = errors(body(GAUSSIAN | {f"x{index}": index for index in range(100)}))
    assert [pointer for pointer, _ in found[:64]] == [f"/mechanism/x{index}" for index in range(64)]
    assert found[64:] == [("", "36 more positions in the body are invalid.")]


def test_too_many_errors_are_one_error_at_root() -> None:
    [(pointer, _)] = errors(body(GAUSSIAN | {f"x{index}": index for index in range(2000)}))
    assert pointer == ""


def nested(levels: int) -> dict[str, Any]:
    mechanism: dict[str, Any] = GAUSSIAN
    for _ in range(levels - 1):
        mechanism = {"type": "repeated", "steps": 1, "mechanism": mechanism}
    return mechanism


def test_depth_is_limited() -> None:
    validate(body(nested(16)))
    for levels in (17, 60):
        [(pointer, detail)] = errors(body(nested(levels)))
        assert pointer == "/mechanism"
        assert "16 levels" in detail


def test_components_are_limited_over_whole_tree() -> None:
    half = {"type": "composed", "mechanisms": [GAUSSIAN] * 128}
    sampled = {"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": GAUSSIAN}
    validate(body({"type": "composed", "mechanisms": [half, half]}))
    validate(body({"type": "composed", "mechanisms": [sampled] * 256}))
    [(pointer, detail)] = errors(body({"type": "composed", "mechanisms": [half, half, GAUSSIAN]}))
    assert pointer == "/mechanism"
    assert "256 components" in detail


def repeated(mechanism: dict[str, Any], steps: int) -> dict[str, Any]:
    return {"type": "repeated", "steps": steps, "mechanism": mechanism}


def mixture(*parts: tuple[float, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "mixture", "components": [{"weight": weight, "mechanism": part} for weight, part in parts]}


@pytest.mark.parametrize("weight", [0, -0.5, ABOVE_ONE, "0.5", True])
def test_weights_are_probabilities(weight: Any) -> None:
    for accepted in (TINY, 0.5):
        validate(body(mixture((accepted, GAUSSIAN), (1 - accepted, GAUSSIAN))))
    validate(body(mixture((1, GAUSSIAN))))
    [(pointer, detail)] = errors(body(mixture((weight, GAUSSIAN), (0.5, GAUSSIAN))))
    assert pointer == "/mechanism/components/0/weight"
    assert "(0, 1]" in detail


def test_weights_sum_to_one() -> None:
    validate(body(mixture((0.1, GAUSSIAN), (0.2, GAUSSIAN), (0.7, GAUSSIAN))))
    validate(body(mixture((0.5, GAUSSIAN), (0.5 + 9e-13, GAUSSIAN))))
    inner = mixture((0.5, GAUSSIAN), (0.5 + 2e-12, GAUSSIAN))
    places = ("/mechanism/components", "/mechanism/components/0/mechanism/components")
    for wrong, pointer in zip((inner, mixture((1.0, inner))), places, strict=True):
        [(found, detail)] = errors(body(wrong))
        assert found == pointer
        assert "1e-12" in detail


def test_aliases_inside_mixture_are_understood() -> None:
    ours = mixture((0.5, GAUSSIAN), (0.5, {"type": "gdp", "mu": 1.0}))
    theirs = {
        "type": "mixture",
        "components": [{"probability": part["weight"], "event": part["mechanism"]} for part in ours["components"]],
    }
    assert validate(body(ours)) == validate(body(theirs))


def test_mixture_counts_leaves_depth_and_longest_part() -> None:
    half = mixture(*((1 / 128, GAUSSIAN) for _ in range(128)))
    validate(body(mixture((0.5, half), (0.5, half))))
    [(pointer, detail)] = errors(body(mixture((0.25, half), (0.25, half), (0.5, GAUSSIAN))))
    assert pointer == "/mechanism"
    assert "256 components" in detail
    deep = GAUSSIAN
    for _ in range(15):
        deep = mixture((1.0, deep))
    validate(body(deep))
    [(pointer, detail)] = errors(body(mixture((1.0, deep))))
    assert "16 levels" in detail
    long = repeated(repeated(GAUSSIAN, 10**12), 1000)
    validate(body(mixture((0.5, long), (0.5, long))))
    [(_, detail)] = errors(body(mixture((0.5, GAUSSIAN), (0.5, repeated(long, 2)))))
    assert "1e+15" in detail


def test_steps_multiply_along_path_and_add_across_parts() -> None:
    million_millions = repeated(GAUSSIAN, 10**12)
    validate(body(repeated(million_millions, 1000)))
    validate(
        body({"type": "composed", "mechanisms": [repeated(million_millions, 500), repeated(million_millions, 500)]})
    )
    for mechanism in (
        repeated(million_millions, 1001),
        repeated(repeated(million_millions, 10**12), 10**12),
        {"type": "composed", "mechanisms": [repeated(million_millions, 1000), GAUSSIAN]},
        repeated(MECHANISMS["dpsgd"], 10**12 + 0) | {"mechanism": MECHANISMS["dpsgd"] | {"steps": 1001}},
    ):
        [(pointer, detail)] = errors(body(mechanism))
        assert pointer == "/mechanism"
        assert "1e+15" in detail


def test_listed_numbers_are_limited_in_all_questions_together() -> None:
    half = {"type": "trade_off", "false_positive_rates": [0.5] * 5000}
    validate({"mechanism": GAUSSIAN, "questions": [half, half]})
    more = {"type": "trade_off", "false_positive_rates": [0.5]}
    [(pointer, detail)] = errors({"mechanism": GAUSSIAN, "questions": [half, half, more]})
    assert pointer == "/questions"
    assert "10000" in detail


@pytest.mark.parametrize("union", [MechanismSpec, QuestionSpec, ThreatModelSpec])
def test_type_is_required_and_every_field_is_documented(union: Any) -> None:
    for model in shape_of(union).models:
        assert model.model_fields["type"].is_required()
        assert model.__doc__
        for name, field in model.model_fields.items():
            if name == "type":
                continue
            assert field.description, f"{model.__name__}.{name} has no description"
            assert spellings(name, field)[0] == name, f"{model.__name__}.{name}: our spelling is not the first"
            shape = shape_of_field(field)
            if shape.kind in ("number", "integer"):
                assert shape.minimum is not None, f"{model.__name__}.{name} has no smallest value"
                assert shape.maximum is not None, f"{model.__name__}.{name} has no largest value"
                assert field.examples, f"{model.__name__}.{name} has no example"


def test_requests_are_found_by_name() -> None:
    assert request_model("BoundsRequest") is BoundsRequest
    assert request_model("NoSuchRequest") is None
