"""Every resource: no bound of a weaker attacker exceeds the bound of the worst case in the same response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.questions.capping import capped, capped_points
from service.privacy.trade_off.abstract import CurvePoints
from service.resources.abstract import Computation
from service.resources.assessments.assessment import ASSESSMENTS
from service.resources.audits.attack_counts import ATTACK_COUNTS
from service.resources.bounds import BOUNDS
from service.resources.calibration.resource import CALIBRATIONS
from service.resources.claims.checking import CLAIMS
from service.resources.comparisons.comparing import COMPARISONS
from service.resources.curves import CURVES
from service.resources.sweeps.sweeping import SWEEPS
from tests.slow_marker import thorough

Spec = dict[str, Any]
Pair = tuple[Spec, Spec]
ADDED: Spec = {"type": "worst_case"}
REPLACED: Spec = {"type": "worst_case", "neighboring_relation": "replace_one"}
FALLING = ("deletion_capacity", "unlearning_guarantee")
"""Questions whose answers decrease with the power of an attack."""
QUESTIONS = 5
"""Number of questions per request."""


def log_uniform(random: Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def gaussian(random: Generator) -> Spec:
    return {"type": "gaussian", "noise_multiplier": log_uniform(random, 0.3, 10.0)}


def few_steps(random: Generator) -> Spec:
    """Draw runs whose searches for the practical attacker and the worst case end at different widths."""
    return {
        "type": "dpsgd",
        "noise_multiplier": log_uniform(random, 0.6, 4.0),
        "sample_rate": float(random.choice([0.001, 0.01, 0.1])),
        "steps": int(random.choice([1, 10, 100])),
    }


def noisy_sgd(random: Generator) -> Spec:
    sizes = {"dataset_size": 400, "batch_size": 400, "dimension": 65, "steps": 1}
    return {"type": "noisy_sgd", **sizes, "noise_std": log_uniform(random, 0.5, 4.0), "max_grad_norm": 500.0}


def practical(random: Generator) -> Spec:
    return {"type": "practical", "epsilon_pmp": float(random.choice([0.1, 0.5, 2.0, 5.0, 20.0]))}


def glrt(random: Generator) -> Spec:
    return {"type": "glrt", "dimension": int(random.choice([1, 2, 100]))}


def mixture(random: Generator) -> Spec:
    weight = random.uniform(0.01, 0.99)
    parts = ((weight, glrt(random)), (1 - weight, ADDED))
    return {"type": "mixture", "components": [{"weight": share, "threat_model": model} for share, model in parts]}


ATTACKERS: dict[str, tuple[Callable[[Generator], Spec], Callable[[Generator], Spec], Spec]] = {
    "practical": (practical, few_steps, REPLACED),
    "glrt": (glrt, gaussian, ADDED),
    "membership": (lambda _: {"type": "membership"}, noisy_sgd, REPLACED),
    "mixture": (mixture, gaussian, ADDED),
}
"""The attacker, a mechanism that its theory covers, and the worst case that bounds it."""


def questions(random: Generator) -> list[Spec]:
    prior = {"prior": 0.5}
    found: list[Spec] = [
        {"type": "epsilon", "delta": log_uniform(random, 1e-9, 1e-2)},
        {"type": "delta", "epsilon": random.uniform(0.01, 3.0)},
        {"type": "advantage"},
        {"type": "trade_off", "false_positive_rates": sorted(log_uniform(random, 1e-9, 0.9) for _ in range(3))},
        {"type": "reconstruction", "baseline_success": log_uniform(random, 1e-6, 0.5)},
        {"type": "attack_accuracy", **prior},
        {"type": "positive_predictive_value", **prior, "false_positive_rate": log_uniform(random, 1e-6, 0.5)},
        {"type": "negative_predictive_value", **prior, "side": "at_least", "false_positive_rate": 0.3},
        {"type": "unlearning_guarantee", **prior, "confidence": 0.4},
    ]
    direction = str(random.choice(["add", "remove", "both"]))
    chosen = sorted(random.choice(len(found), QUESTIONS, replace=False))
    return [found[index] | {"direction": direction} for index in chosen]


def posted(computation: Computation[Any, Any], body: Spec) -> Spec:
    request = computation.request_type.model_validate_json(json.dumps(body))
    found: Spec = json.loads(computation.body(request, "sha256:" + "0" * 64, "1"))
    return found


def beside(answers: Sequence[Spec], worst: Sequence[Spec]) -> Iterator[Pair]:
    yield from zip(answers, worst, strict=True)


def of_bounds(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    del worst
    sent = {"mechanism": mechanism, "threat_model": attacker, "questions": questions(random)}
    found = posted(BOUNDS, sent)
    yield from beside(found["answers"], found["worst_case"]["answers"])


def of_claims(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    del worst
    claims = [{"question": each, "value": 0.9} for each in questions(random) if each["type"] != "trade_off"]
    found = posted(CLAIMS, {"mechanism": mechanism, "threat_model": attacker, "claims": claims})
    yield from beside([each["answer"] for each in found["claims"]], found["worst_case"]["answers"])


def of_comparisons(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    runs = [
        {"name": name, "mechanism": mechanism, "threat_model": model}
        for name, model in (("relaxed", attacker), ("worst", worst))
    ]
    relaxed, full = posted(COMPARISONS, {"runs": runs, "questions": questions(random)})["runs"]
    yield from beside(relaxed["answers"], relaxed["worst_case"]["answers"])
    yield from beside(relaxed["answers"], full["answers"])


def of_sweeps(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    del worst
    name = "noise_std" if "noise_std" in mechanism else "noise_multiplier"
    noises = [mechanism[name], 1.5 * mechanism[name]]
    asked = [each for each in questions(random) if each["type"] != "trade_off"]
    sent = {"mechanism": mechanism, "threat_model": attacker, "questions": asked}
    found = posted(SWEEPS, sent | {"vary": {f"/mechanism/{name}": {"values": noises}}})
    for own, bound in beside(found["answers"], found["worst_case"]["answers"]):
        question = found["questions"][own["question"]]
        for index in range(len(noises)):
            ends = ({end: column[end][index] for end in ("lower", "upper")} for column in (own, bound))
            first, second = ({"type": question["type"], "question": question, **each} for each in ends)
            yield first, second


def of_curves(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    del random
    directions = ["add", "remove"]
    sent = {"mechanism": mechanism, "threat_models": [attacker, worst], "directions": directions}
    curves = posted(CURVES, sent | {"grid": {"count": 30, "spacing": "log_mirrored"}})["curves"]
    half = len(directions)
    for own, bound in zip(curves[:half], curves[half:], strict=True):
        rows = [
            [
                {
                    name: {end: curve[name][end][index] for end in ("lower", "upper")}
                    for name in ("power", "type_two_error")
                }
                for index in range(len(curve["power"]["upper"]))
            ]
            for curve in (own, bound)
        ]
        yield tuple({"type": "trade_off", "points": points} for points in rows)  # type: ignore[misc]


def of_assessments(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    context: Spec = {"delta": log_uniform(random, 1e-8, 1e-3), "prior": 0.5}
    context |= {name: attacker[name] for name in ("epsilon_pmp", "dimension") if name in attacker}
    found = posted(ASSESSMENTS, {"mechanism": mechanism, "threat_model": worst, "context": context})["threat_models"]
    named = {json.dumps(each["threat_model"], sort_keys=True): each["answers"] for each in found}
    bound = named[json.dumps({"neighboring_relation": "add_or_remove_one"} | worst, sort_keys=True)]
    for each in found:
        if each["threat_model"]["type"] == attacker["type"]:
            yield from beside(each["answers"], bound)


def of_calibrations(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    del worst
    name = "noise_std" if "noise_std" in mechanism else "noise_multiplier"
    asked: list[Spec] = [{"type": "epsilon", "delta": log_uniform(random, 1e-6, 1e-2)}, {"type": "advantage"}]
    targets = [{"question": question, "at_most": limit} for question, limit in zip(asked, (0.3, 0.2), strict=True)]
    found = posted(
        CALIBRATIONS,
        {"mechanism": mechanism, "threat_model": attacker, "free": f"/mechanism/{name}", "targets": targets}
        | {"relative_tolerance": 1e-3},
    )
    yield from beside(found["answers"], [each["answer"] for each in found["worst_cases"]])


def of_attack_counts(random: Generator, mechanism: Spec, attacker: Spec, worst: Spec) -> Iterator[Pair]:
    del random, worst
    counts = {"true_positives": 90, "members": 100, "false_positives": 5, "non_members": 100}
    found = posted(ATTACK_COUNTS, counts | {"mechanism": mechanism, "threat_model": attacker})
    own, bound = found["bound"], found["worst_case"]
    if own["false_positive_rate"] == bound["false_positive_rate"]:
        yield own["power_bound"] | {"type": "power"}, bound["power_bound"] | {"type": "power"}


RESOURCES = {
    "bounds": of_bounds,
    "claims": of_claims,
    "comparisons": of_comparisons,
    "sweeps": of_sweeps,
    "curves": of_curves,
    "assessments": of_assessments,
    "calibrations": of_calibrations,
    "attack counts": of_attack_counts,
}


def numbers(answer: Spec) -> Iterator[tuple[float, bool]]:
    """Yield the safe bound of each number of an answer, and whether it increases with the power of an attack."""
    if answer["type"] == "trade_off":
        for point in answer["points"]:
            yield float(point["power"]["upper"]), True
            yield float(point["type_two_error"]["lower"]), False
        return
    falls = answer["type"] in FALLING or answer.get("question", {}).get("side") == "at_least"
    yield float(answer["lower" if falls else "upper"]), not falls


CASES = [
    (resource, attacker)
    for resource in RESOURCES
    for attacker in ATTACKERS
    if (resource, attacker) != ("assessments", "mixture")  # Assessments support no mixture of attackers.
]


LONG = [("calibrations", "practical"), ("comparisons", "mixture"), ("sweeps", "mixture")]


@pytest.mark.parametrize(
    ("resource", "attacker", "seeds"),
    [
        *((*case, 1) for case in CASES if case not in LONG),
        *(thorough(*case, 1 if "mixture" in case else 2) for case in CASES if "mixture" not in case or case in LONG),
    ],
)
def test_weaker_attacker_is_capped_by_worst_case(resource: str, attacker: str, seeds: int) -> None:
    compared = 0
    for seed in range(seeds):
        random = np.random.default_rng([28, seed, *attacker.encode()])
        model, mechanism, worst = ATTACKERS[attacker]
        for own, bound in RESOURCES[resource](random, mechanism(random), model(random), worst):
            for (weaker, rises), (most, _) in zip(numbers(own), numbers(bound), strict=True):
                compared += 1
                assert weaker <= most if rises else weaker >= most, (own["type"], weaker, most)
    assert compared > 0


def enclosure(lower: float, upper: float, evidence: Evidence = Evidence.CERTIFIED) -> Enclosure:
    return Enclosure(lower, upper, evidence)


def test_cap_changes_only_conservative_bound() -> None:
    own, worst = enclosure(0.2, 0.5), enclosure(0.1, 0.3)
    assert (capped(own, worst, "upper").lower, capped(own, worst, "upper").upper) == (0.2, 0.3)
    assert capped(worst, own, "upper") is worst
    assert (capped(worst, own, "lower").lower, capped(worst, own, "lower").upper) == (0.2, 0.3)
    assert capped(own, worst, "lower") is own


def test_approximation_neither_caps_nor_is_capped() -> None:
    own, rough = enclosure(0.2, 0.5), enclosure(0.1, 0.1, Evidence.ASYMPTOTIC)
    assert capped(own, rough, "upper") is own
    assert capped(rough, enclosure(0.0, 0.05), "upper") is rough


def test_caps_apply_to_logarithms() -> None:
    own = Enclosure.from_logs(-800.0, -790.0, Evidence.CERTIFIED)
    worst = Enclosure.from_logs(-810.0, -795.0, Evidence.CERTIFIED)
    assert capped(own, worst, "upper").log_upper == worst.log_upper


def test_points_are_capped_one_by_one() -> None:
    def points(power: float, error: float) -> CurvePoints:
        ends = (EnclosureArray(np.array([each]), np.array([each])) for each in (error, power, 0.0))
        return CurvePoints(*ends)

    found = capped_points(points(0.6, 0.4), points(0.5, 0.5))
    assert (found.power.upper[0], found.power.lower[0]) == (0.5, 0.5)
    assert (found.type_two_error.lower[0], found.type_two_error.upper[0]) == (0.5, 0.5)
