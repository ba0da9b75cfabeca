"""Plans: cost, place of computation and engine of a request, over the whole space of requests."""

from __future__ import annotations

import itertools
import json
import math
import pickle  # noqa: TID251 - as a worker process receives it
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

from api_schemas.assessments import AssessmentsRequest
from api_schemas.bounds import BoundsRequest
from api_schemas.claims import ClaimsRequest
from api_schemas.comparisons import ComparisonsRequest
from api_schemas.curves import CurvesRequest
from service.privacy.composition.planning import choose
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import PrivacyComputationError
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.mixture import Mixture
from service.resources.abstract import BodyProducer, Quote
from service.resources.assessments.assessment import ASSESSMENTS
from service.resources.bounds import BOUNDS, bounds_quote
from service.resources.claims.checking import CLAIMS
from service.resources.comparisons.comparing import COMPARISONS
from service.resources.curves import CURVES
from service.resources.estimates import ANSWER, INLINE_LIMIT, MOST_LOOKED_AT, UNPRICED
from service.resources.parts import mechanism_of, options_of, threat_model_of
from service.settings import Settings
from tests.resources.request_space import ELEMENTS, LATER, TRIALS, any_request, body
from tests.slow_marker import sample_of, thorough

REQUESTS = 400
CHEAP = 20_000
"""Microseconds of estimated cost. More expensive requests are tested in longer runs."""
COMPUTATIONS = {"bounds": BOUNDS, "curves": CURVES}
STATED = {"pure_dp", "approximate_dp", "exponential"}
RESOLVED = {"randomized_response", "unary_encoding", "staircase", "report_noisy_max", "permute_and_flip"}
"""Mechanisms that are steps of `STATED` for some parameters."""
ONE_STEP = {"gaussian", "laplace", "gdp", "poisson_sampled", "dpsgd", *STATED, *RESOLVED}
"""Steps whose closed form has constant cost for all parameters."""
MOST_BYTES = 2**20
NAMED = "sha256:" + "0" * 64


def quoted(seed: int) -> Iterator[tuple[str, BaseModel, Quote]]:
    """Yield every request of a seed that has a quote."""
    for index in range(REQUESTS):
        name, sent = any_request(np.random.default_rng([seed, index]))
        try:
            request = COMPUTATIONS[name].request_type.model_validate_json(json.dumps(sent))
            yield name, request, COMPUTATIONS[name].quote(request)  # type: ignore[arg-type]
        except (ValidationError, PrivacyComputationError):
            continue


def steps_of(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the steps of a mechanism as written, with their counts."""
    match spec["type"]:
        case "repeated":
            yield from ((step, count * spec["steps"]) for step, count in steps_of(spec["mechanism"]))
        case "composed":
            yield from (found for part in spec["mechanisms"] for found in steps_of(part))
        case "mixture":
            yield from (found for part in spec["components"] for found in steps_of(part["mechanism"]))
        case _:
            yield spec, spec.get("steps", 1)


def is_gaussian(step: dict[str, Any]) -> bool:
    """Return whether the step composes as a shift of a normal law."""
    match step["type"]:
        case "gaussian" | "gdp":
            return True
        case "gaussian_mixture":
            return len(set(step["shifts"])) == 1
        case "noisy_sgd":
            return step["batch_size"] == step["dataset_size"]
        case "poisson_sampled":
            return step["sample_rate"] == 1 and is_gaussian(step["mechanism"])
        case _:
            return step["type"] == "dpsgd" and step["sample_rate"] == 1


def on_the_list(spec: dict[str, Any]) -> bool:
    """Return whether the event loop may compute the run, which is one step of constant cost, or Gaussian steps only."""
    known = list(steps_of(spec))
    alone = len(known) == 1 and known[0][1] == 1 and known[0][0]["type"] in ONE_STEP
    # A single report is not shuffled: it is the report of its randomiser.
    alone = alone or (len(known) == 1 and known[0][1] == 1 and known[0][0].get("reports") == 1)
    return alone or all(is_gaussian(step) for step, _ in known)


@sample_of(1)
@pytest.mark.parametrize("seed", range(3))
def test_event_loop_runs_only_listed_closed_forms(seed: int) -> None:
    inline = 0
    for name, request, quote in quoted(seed):
        if not quote.inline:
            assert quote.prepared is None or pickle.dumps(quote.prepared)
            continue
        inline += 1
        assert quote.cost <= INLINE_LIMIT
        written = json.loads(request.model_dump_json())
        assert on_the_list(written["mechanism"]), f"edit ONE_STEP of tests/resources/test_plans.py: {written}"
        methods = written["methods"] if name == "curves" else [written["method"]]
        assert set(methods) <= {"auto", "closed_form"}
        assert all(question["type"] != "gdp_mu" for question in written.get("questions", ()))
    assert inline > 20


def test_plans_of_every_composition_travel_to_workers() -> None:
    sent = 0
    for index in range(250):
        random = np.random.default_rng([31, index])
        kinds = [str(kind) for kind in random.choice(list(LATER), size=random.integers(1, 5))]
        steps = [{"type": "repeated", "mechanism": LATER[kind](random), "steps": 1 + index % 4} for kind in kinds]
        body_sent = {
            "mechanism": {"type": "composed", "mechanisms": steps},
            "questions": [{"type": "epsilon", "delta": 1e-5}],
            "threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"},
        }
        try:
            quote = BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(body_sent)))
        except (ValidationError, PrivacyComputationError):
            continue
        sent += quote.prepared is not None and len(pickle.dumps(quote.prepared)) > 0
    assert sent > 100


def short_run(random: np.random.Generator) -> dict[str, Any]:
    """Draw a run in reach of the laws of short runs (`short_runs/reach.py`)."""
    noise, rate = float(random.uniform(0.4, 1.9)), float(10 ** random.uniform(-4, -1))
    return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": int(random.integers(2, 13))}


def test_plans_of_every_selection_travel_to_workers() -> None:
    sent = 0
    for index, (kind, law) in enumerate(itertools.product(["short run", *ELEMENTS, *LATER], TRIALS)):
        random = np.random.default_rng([32, index])
        trial = short_run(random) if kind == "short run" else {**ELEMENTS, **LATER}[kind](random)
        selected = {"type": "selected", "mechanism": trial, "trials": {"type": law, **TRIALS[law](random)}}
        asked = {"mechanism": selected, "questions": [{"type": "epsilon", "delta": 1e-5}]}
        try:
            quote = BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(asked)))
        except (ValidationError, PrivacyComputationError):
            assert kind != "short run"
            continue
        sent += quote.prepared is not None and len(pickle.dumps(quote.prepared)) > 0
    assert sent > 40


@pytest.mark.parametrize(("requests", "least"), [(30, 2), thorough(80, 10)])
def test_plans_of_quote_give_same_answer_in_another_process(requests: int, least: int) -> None:
    """The plans of a quote give the answer of the request itself, also in another process.

    The event loop and the workers compute with the plans of the quote.
    """
    answered = {True: 0, False: 0}
    for name, request, quote in itertools.islice(quoted(0), requests):
        if quote.prepared is None:
            assert quote.engine == UNPRICED
            continue
        planned = pickle.loads(pickle.dumps(quote.prepared))
        if quote.cost > CHEAP:
            continue
        alone, gone_on = (outcome(each, request) for each in (COMPUTATIONS[name], planned))
        assert alone == gone_on
        answered[quote.inline] += isinstance(alone, bytes)
    assert min(answered.values()) > least


def test_worker_does_not_plan_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
    questions = [{"type": "epsilon", "delta": 1e-5}]
    bounds = BoundsRequest.model_validate_json(json.dumps({"mechanism": run, "questions": questions}))
    grid = {"threat_models": [{"type": "worst_case"}], "methods": ["auto"], "false_positive_rates": [0.1]}
    curves = CurvesRequest.model_validate_json(json.dumps({"mechanism": run, "directions": ["add"], **grid}))
    claim = {"question": questions[0], "value": 0.01}
    claims = ClaimsRequest.model_validate_json(json.dumps({"mechanism": run, "claims": [claim]}))
    relaxed = {"type": "glrt", "dimension": 10}
    runs: dict[str, dict[str, Any]] = {
        "a": {"mechanism": run},
        "b": {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}},
    }
    runs["c"] = runs["b"] | {"threat_model": relaxed}
    described = {"runs": [{"name": name} | each for name, each in runs.items()], "questions": questions}
    comparison = ComparisonsRequest.model_validate_json(json.dumps(described))
    rule = {"question": questions[0], "at_most": 1.0, "threat_model": relaxed}
    policy = {"name": "one", "rules": [rule]}
    assessed = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "policy": policy}
    assessment = AssessmentsRequest.model_validate_json(
        json.dumps(assessed | {"context": {"delta": 1e-5, "dimension": 10}})
    )
    asked = ((BOUNDS, bounds), (CURVES, curves), (CLAIMS, claims), (COMPARISONS, comparison), (ASSESSMENTS, assessment))
    planned = [(computation.quote(request).prepared, request) for computation, request in asked]  # type: ignore[arg-type]

    plan = choose.plan

    def refuse(mechanism: AbstractMechanism, *rest: Any) -> Plan:
        if type(mechanism) is ApproximateDp:  # The answer as a mechanism, which no quote has seen.
            return plan(mechanism, *rest)
        pytest.fail("planned again")

    monkeypatch.setattr(choose, "plan", refuse)
    for prepared, request in planned:
        assert prepared is not None
        assert prepared.body(request, NAMED, "1")


def outcome(computation: BodyProducer, request: BaseModel) -> bytes | tuple[str, str]:
    """Return the answer of a computation, or the error with its pointer."""
    try:
        return computation.body(request, NAMED, "1")
    except PrivacyComputationError as error:
        return str(error), error.pointer


@sample_of(1)
@pytest.mark.parametrize("seed", range(2))
def test_every_quote_has_cost_and_engine(seed: int) -> None:
    found = [quote for _, _, quote in quoted(seed)]
    assert len(found) > REQUESTS / 4
    assert all(quote.cost > 0 and quote.engine for quote in found)


def test_chosen_engine_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes from the chosen engine, or from a closed form for trivial runs.

    Mixtures have several plans, and their answer comes from the engine of one of them. So have brackets that end in a
    table of listed outcomes, which is a lattice. Runs with expensive laws are planned with these laws here.
    """
    monkeypatch.setattr(choose, "MOST_LAW_WORK", math.inf)
    answered = 0
    for index in range(REQUESTS):
        sent = body(np.random.default_rng([9, index]))
        try:
            request = BoundsRequest.model_validate_json(json.dumps(sent))
            method = "auto" if request.method == "all" else request.method
            if BOUNDS.quote(request).cost > CHEAP:
                continue
            mechanism, options = mechanism_of(request.mechanism), options_of(request)
            plan = threat_model_of(request.threat_model).plan(mechanism, method, options)
            named = {plan.curves.add.method, plan.curves.remove.method}
        except (ValidationError, PrivacyComputationError):
            continue
        answered += 1
        is_listed = plan.engine == "discretised" or (plan.engine == "closed_form" and plan.curves.bracket is not None)
        chosen = {"discretised", "closed_form"} if is_listed else {plan.engine}
        if isinstance(mechanism, Mixture):
            continue
        assert named <= chosen, sent
    assert answered > REQUESTS / 10


def test_quote_allocates_little_memory() -> None:
    """The memory of a quote does not depend on the number of steps and questions."""
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10**12}
    parts = [run, {"type": "laplace", "noise_multiplier": 2.0}, {"type": "exponential", "epsilon": 1.0}]
    longest = {"type": "repeated", "steps": 10**3, "mechanism": {"type": "composed", "mechanisms": parts[:1]}}
    for mechanism in (run, longest, {"type": "composed", "mechanisms": parts}):
        sent = {"mechanism": mechanism, "questions": [{"type": "gdp_mu"}], "method": "all", "digits": 50}
        request = BoundsRequest.model_validate_json(json.dumps(sent))
        bounds_quote(request)
        tracemalloc.start()
        bounds_quote(request)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < MOST_BYTES


def test_cost_of_quote_does_not_grow_with_description() -> None:
    deep: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 1.0}
    for _ in range(10):
        deep = {"type": "repeated", "mechanism": deep, "steps": 1}
    few, many = (
        {"mechanism": {"type": "composed", "mechanisms": [deep] * count}, "questions": [{"type": "advantage"}]}
        for count in (2, MOST_LOOKED_AT // 10)
    )
    assert BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(few))).inline
    assert BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(many))).engine == UNPRICED


def test_equal_questions_are_counted_once() -> None:
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}

    def cost(*questions: dict[str, Any]) -> int:
        return BOUNDS.quote(
            BoundsRequest.model_validate_json(json.dumps({"mechanism": run, "questions": questions}))
        ).cost

    one, other = {"type": "delta", "epsilon": 1.0}, {"type": "delta", "epsilon": 2.0}
    assert cost(one, other) - cost(one) > 2 * (cost(one, one) - cost(one))


FEW_LAPLACE = {
    "type": "repeated",
    "steps": 3,
    "mechanism": {
        "type": "poisson_sampled",
        "sample_rate": 0.2,
        "mechanism": {"type": "laplace", "noise_multiplier": 2.0},
    },
}
PARTS_OF_THE_DATA = {
    "type": "noisy_sgd",
    "dataset_size": 4000,
    "batch_size": 400,
    "dimension": 100,
    "steps": 20,
    "noise_std": 0.05,
    "max_grad_norm": 1.0,
}
TWO_KINDS = {
    "type": "mixture",
    "components": [
        {"weight": 0.6, "mechanism": {"type": "exponential", "epsilon": 0.01}},
        {"weight": 0.4, "mechanism": {"type": "gdp", "mu": 2.0}},
    ],
}
NO_NOISE = {
    "type": "noisy_sgd",
    "dataset_size": 10,
    "batch_size": 6,
    "dimension": 2,
    "steps": 263_889_192,
    "noise_std": 0.0,
    "max_grad_norm": 1.0,
}
WITHIN_REACH: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (FEW_LAPLACE, {}),
    (TWO_KINDS, {}),
    (NO_NOISE, {}),
    (PARTS_OF_THE_DATA, {}),
    (PARTS_OF_THE_DATA, {"neighboring_relation": "add_or_remove_one"}),
    ({**PARTS_OF_THE_DATA, "steps": 2}, {"neighboring_relation": "add_or_remove_one"}),
]
"""Runs and relations whose mu in both directions was measured to take less than the certain limit."""


@pytest.mark.parametrize(("mechanism", "relation"), WITHIN_REACH)
def test_run_computed_in_time_is_accepted(mechanism: dict[str, Any], relation: dict[str, Any]) -> None:
    sent: dict[str, Any] = {"mechanism": mechanism, "questions": [{"type": "gdp_mu", "direction": "both"}]}
    if relation:
        sent["threat_model"] = {"type": "worst_case", **relation}
    assert BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(sent))).minimum <= Settings().max_cost


def test_mu_with_stated_parameter_is_accepted() -> None:
    parts = [{"type": "approximate_dp", "epsilon": 7.0, "delta": 1e-8}, {"type": "gaussian", "noise_multiplier": 0.5}]
    parts += [{"type": "laplace", "noise_multiplier": 1.4}, {"type": "gaussian", "noise_multiplier": 0.3}]
    sent: dict[str, Any] = {
        "mechanism": {"type": "composed", "mechanisms": parts},
        "questions": [{"type": "gdp_mu"}],
        "threat_model": {"type": "practical", "epsilon_pmp": 0.01},
    }
    assert BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(sent))).minimum <= Settings().max_cost


def test_long_lists_on_long_runs_are_accepted() -> None:
    """Long lists of points on long runs are accepted, because a further point on a lattice costs almost nothing."""
    sent = {
        "mechanism": {"type": "dpsgd", "noise_multiplier": 1.7, "sample_rate": 1e-9, "steps": 3_000_000},
        "threat_models": [{"type": "worst_case"}],
        "methods": ["discretised"],
        "directions": ["both"],
        "grid": {"spacing": "log_mirrored", "smallest": 1e-11, "largest": 0.5, "count": 5000},
    }
    assert CURVES.quote(CurvesRequest.model_validate_json(json.dumps(sent))).minimum <= Settings().max_cost


@pytest.mark.parametrize("seed", range(3))
def test_formerly_overestimated_requests_are_accepted(seed: int) -> None:
    """Requests that earlier estimates refused are accepted, and take seconds.

    They are long lists and many questions on contours, and weak runs in ball arithmetic.
    """
    random = np.random.default_rng([20261126, seed])
    deltas = [{"type": "delta", "epsilon": float(random.uniform(0, 5)), "direction": "both"} for _ in range(256)]
    laplace = {"type": "laplace", "noise_multiplier": float(random.uniform(0.5, 30))}
    beside = {"type": "approximate_dp", "epsilon": float(random.uniform(0.01, 1)), "delta": 1e-8}
    rare = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": float(10 ** random.uniform(-4, -2)), "steps": 60}
    jumping = {"type": "composed", "mechanisms": [laplace, beside, rare]}
    weak = {"type": "dpsgd", "noise_multiplier": float(10 ** random.uniform(9, 13)), "sample_rate": 0.1, "steps": 99}
    grid = {"spacing": "log_mirrored", "smallest": 1e-11, "largest": 0.5, "count": 5000}
    lists = {"threat_models": [{"type": "worst_case"}], "methods": ["auto"], "directions": ["both"], "grid": grid}
    exact = {**lists, "directions": ["add"], "methods": ["ground_truth"], "grid": {**grid, "count": 100}}
    quotes = [
        BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps({"mechanism": jumping, "questions": deltas}))),
        CURVES.quote(CurvesRequest.model_validate_json(json.dumps({"mechanism": jumping, **lists}))),
        CURVES.quote(CurvesRequest.model_validate_json(json.dumps({"mechanism": weak, **exact}))),
    ]
    assert max(quote.minimum for quote in quotes) <= Settings().max_cost


def test_cost_range_matters_only_for_rejection() -> None:
    one = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "questions": [{"type": "advantage"}]}
    inline = BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(one)))
    assert inline.inline
    assert inline.minimum == inline.cost
    many = {**one, "questions": [{"type": "epsilon", "delta": (n + 1) / 1000} for n in range(256)]}
    dear = BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(many)))
    assert not dear.inline
    assert dear.minimum < dear.cost


def test_relation_enters_the_cost() -> None:
    """The neighbouring relation changes the engine and the cost.

    Exact sums serve up to 300 steps if a record is added, and fewer if a record is replaced.
    """
    laplace = {"type": "repeated", "steps": 300, "mechanism": {"type": "laplace", "noise_multiplier": 1.2}}

    def engine(relation: str) -> str:
        model = {"type": "worst_case", "neighboring_relation": relation}
        sent = {"mechanism": laplace, "threat_model": model, "questions": [{"type": "advantage"}]}
        return BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(sent))).engine

    assert engine("add_or_remove_one") != engine("replace_one")


def test_quote_raises_same_error_as_computation() -> None:
    sent = {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "threat_models": [{"type": "worst_case"}, {"type": "membership"}],
        "methods": ["auto"],
        "directions": ["add"],
        "false_positive_rates": [0.1],
    }
    request = CurvesRequest.model_validate_json(json.dumps(sent))
    with pytest.raises(PrivacyComputationError) as priced:
        CURVES.quote(request)
    with pytest.raises(PrivacyComputationError) as computed:
        CURVES.body(request, "", "")
    assert (priced.value.pointer, str(priced.value)) == (computed.value.pointer, str(computed.value))


@pytest.mark.parametrize("seed", range(5))
def test_cost_includes_serialisation_of_many_answers(seed: int) -> None:
    # Upper limits of evaluations are several times their cost; answers take the same time whatever is evaluated.
    random = np.random.default_rng([11, seed])
    priors = random.uniform(0.01, 0.99, 256).tolist()
    body = {
        "mechanism": {"type": "gdp", "mu": float(random.uniform(0.1, 3))},
        "questions": [{"type": "advantage_over_prior", "prior": prior} for prior in priors],
    }
    assert bounds_quote(BoundsRequest.model_validate_json(json.dumps(body))).cost >= ANSWER * len(priors)


@pytest.mark.parametrize("kinds", [1, 8])
def test_questions_on_a_ground_truth_share_the_cost_of_its_contour(kinds: int) -> None:
    """The estimated cost of several questions on one ground truth counts its contour once.

    16 deltas take 1.2 times the CPU time of one. Earlier estimates were up to 97 times too high.
    """
    runs = [{"type": "dpsgd", "noise_multiplier": 1 + n / 9, "sample_rate": 0.01, "steps": 1000} for n in range(kinds)]

    def cost(count: int) -> int:
        deltas = [{"type": "delta", "epsilon": 1 + n / 99, "direction": "add"} for n in range(count)]
        sent = {"mechanism": {"type": "composed", "mechanisms": runs}, "questions": deltas}
        return BOUNDS.quote(BoundsRequest.model_validate_json(json.dumps(sent | {"method": "ground_truth"}))).cost

    assert cost(1) < cost(16) < 2 * cost(1)
