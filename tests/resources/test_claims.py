"""Claims: the laws of verdicts over random mechanisms and every question, and attacks that refute unsafe claims."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator

from api_schemas.bounds import BoundsRequest
from api_schemas.claims import RANGES, CheckedClaim, ClaimsResponse
from api_schemas.fields import shape_of, type_of
from api_schemas.questions import QuestionSpec
from service.privacy.enclosure import Evidence
from service.resources.bounds import BOUNDS
from service.resources.claims.checking import CLAIMS
from service.resources.read_numbers import ReadNumber
from tests.resources.request_space import QUESTIONS

Spec = dict[str, Any]
NAMED: Final = "sha256:" + "0" * 64
TOLERANCES: Final = (1e-6, 1e-3, 0.1)


def check_claims(mechanism: Spec, claims: list[Spec], **more: Any) -> ClaimsResponse:
    body = json.dumps({"mechanism": mechanism, "claims": claims, **more})
    return CLAIMS.response(CLAIMS.request_type.model_validate_json(body), NAMED, "2026.01.01")


def check_claim(mechanism: Spec, claim: Spec, **more: Any) -> CheckedClaim:
    [found] = check_claims(mechanism, [claim], **more).claims
    return found


def answers(mechanism: Spec, questions: list[Spec], **more: Any) -> list[Spec]:
    body = json.dumps({"mechanism": mechanism, "questions": questions, **more})
    request = BoundsRequest.model_validate_json(body)
    return json.loads(BOUNDS.body(request, NAMED, "2026.01.01"))["answers"]


def drawn(random: Generator) -> list[Spec]:
    """Draw one mechanism of each of many kinds, in common ranges."""
    noise, rate = random.uniform(0.6, 4), 10 ** random.uniform(-3, -0.5)
    laplace = {"type": "laplace", "noise_multiplier": random.uniform(0.5, 4)}
    gaussian = {"type": "gaussian", "noise_multiplier": noise}
    run = {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": int(random.integers(50, 3000))}
    return [
        gaussian,
        laplace,
        run,
        {"type": "pure_dp", "epsilon": random.uniform(0.1, 4)},
        {"type": "approximate_dp", "epsilon": random.uniform(0.1, 4), "delta": 10 ** random.uniform(-6, -2)},
        {"type": "gdp", "mu": random.uniform(0.1, 3)},
        {"type": "exponential", "epsilon": random.uniform(0.1, 3)},
        {"type": "poisson_sampled", "sample_rate": rate, "mechanism": laplace},
        {"type": "poisson_sampled", "sample_rate": rate, "mechanism": gaussian},
        {"type": "repeated", "steps": int(random.integers(2, 30)), "mechanism": laplace},
        {"type": "composed", "mechanisms": [gaussian, {"type": "gdp", "mu": 0.5}]},
    ]


def random_question(kind: str, random: Generator) -> Spec:
    """Draw a question of this type, away from its range limits; a curve has one rate."""
    found = {"type": kind, **QUESTIONS[kind](random)}
    usual: Spec = {
        "false_positive_rates": [10 ** random.uniform(-6, -0.3)],
        "false_positive_rate": 10 ** random.uniform(-4, -0.3),
        "delta": 10 ** random.uniform(-8, -2),
        "epsilon": random.uniform(0.05, 2),
        "baseline_success": 10 ** random.uniform(-4, -0.5),
        "prior": random.uniform(0.01, 0.6),
        "confidence": random.uniform(0.1, 0.9),
    }
    return {name: usual.get(name, value) for name, value in found.items()}


CASES: Final = [(place, mechanism) for place, mechanism in enumerate(drawn(np.random.default_rng(14)))]


@pytest.mark.parametrize(
    ("seed", "mechanism"), CASES, ids=lambda value: value["type"] if isinstance(value, dict) else ""
)
def test_verdicts_at_bounds_and_between_are_correct(seed: int, mechanism: Spec) -> None:
    random = np.random.default_rng([14, seed])
    questions = [random_question(kind, random) for kind in RANGES for _ in range(2)]
    sides = [("power", "type_two_error")[place % 2] for place in range(len(questions))]
    claims: list[Spec] = []
    expected: list[str] = []
    for question, side, answer in zip(questions, sides, answers(mechanism, questions), strict=True):
        reads = side if question["type"] == "trade_off" else "power"
        number = answer["points"][0][reads] if "points" in answer else answer
        lower, upper = (math.inf if number[end] == "Infinity" else number[end] for end in ("lower", "upper"))
        allowed, guarantee = RANGES[question["type"]], is_guaranteed(question, reads)
        for tolerance in TOLERANCES:
            tried = [
                (lower * (1 - 2 * tolerance), "loose" if guarantee else "unsafe", lower > 0),
                (upper * (1 + 2 * tolerance), "unsafe" if guarantee else "loose", upper > 0),
                (lower * (1 - tolerance / 2), "consistent", True),
                (upper * (1 + tolerance / 2), "consistent", True),
                ((lower + upper) / 2, "consistent", True),
            ]
            for value, verdict, text in tried:
                if text and math.isfinite(value) and allowed.has(value) and not allowed.integer:
                    claims.append(
                        {"question": question, "value": value, "relative_tolerance": tolerance, "reads": reads}
                    )
                    expected.append(verdict)
    found = check_claims(mechanism, claims[:256])
    assert [claim.verdict for claim in found.claims] == expected[:256]
    for claim, verdict in zip(found.claims, expected, strict=False):
        assert (claim.by is not None) == (verdict != "consistent")
        assert (claim.attack is not None) == (verdict == "unsafe")
        assert claim.holds in {"unsafe": ("no",), "loose": ("yes",)}.get(verdict, ("yes", "no", "unknown"))
    assert_attacks_beat_the_claims(mechanism, found)


def is_guaranteed(question: Spec, reads: str) -> bool:
    """Return whether the lower bound of a question is the safe one, by a rule that is independent of the
    implementation.
    """
    return (
        reads == "type_two_error"
        or question.get("side") == "at_least"
        or question["type"] in ("deletion_capacity", "unlearning_guarantee")
    )


def assert_attacks_beat_the_claims(mechanism: Spec, found: ClaimsResponse) -> None:
    """Check that the power of every attack is that of the curve, and exceeds the claim."""
    shown = [claim.attack for claim in found.claims if claim.attack is not None and claim.attack.power is not None]
    assert shown
    for direction in ("add", "remove", "both"):
        attacks = [attack for attack in shown if attack.direction == direction][:40]
        rates = [attack.false_positive_rate for attack in attacks]
        if not rates:
            continue
        [curve] = answers(mechanism, [{"type": "trade_off", "false_positive_rates": rates, "direction": direction}])
        for attack, point in zip(attacks, curve["points"], strict=True):
            assert attack.power is not None
            reached = attack.power["value"]
            assert reached == attack.power["lower"]
            assert (attack.claimed_power or 0.0) < reached <= point["power"]["upper"]
            assert reached == pytest.approx(point["power"]["lower"], rel=1e-6)


def test_compared_bounds_are_those_of_answers() -> None:
    random = np.random.default_rng(5)
    run = {"type": "laplace", "noise_multiplier": 1.5}
    for kind in RANGES:
        for _ in range(4):
            question = random_question(kind, random)
            [answer] = answers(run, [question])
            for reads in ("power", "type_two_error") if kind == "trade_off" else ("power",):
                number = answer["points"][0][reads] if kind == "trade_off" else answer
                end = "lower" if is_guaranteed(question, reads) else "upper"
                assert number["value"] == number[end]


def test_every_question_has_a_range() -> None:
    assert list(RANGES) == [type_of(model) for model in shape_of(QuestionSpec).models], (
        "edit RANGES in api_schemas/claims.py"
    )


def number(lower: float, upper: float, log10: tuple[float, float] | None = None, *, safe: str = "upper") -> ReadNumber:
    return ReadNumber(upper, lower, upper, Evidence.CERTIFIED, safe == "lower", True, log10)


@pytest.mark.parametrize("seed", range(20))
def test_comparison_is_exact_to_one_ulp(seed: int) -> None:
    random = np.random.default_rng(seed)
    lower = float(random.uniform(0.1, 10))
    tolerance = float(2.0 ** -random.integers(1, 40))
    edge = lower * (1 - tolerance)  # Rounded: the true edge is within half a unit.
    below, above = math.nextafter(math.nextafter(edge, 0), 0), math.nextafter(math.nextafter(edge, 99), 99)
    found = number(lower, 2 * lower)
    assert found.is_above(below, tolerance)
    assert not found.is_above(above, tolerance)
    assert found.is_above(math.nextafter(lower, 0))
    assert not found.is_above(lower)
    assert found.is_below(math.nextafter(2 * lower, 99))
    assert not found.is_below(2 * lower)


def test_numbers_below_smallest_double_are_compared_by_logarithms() -> None:
    question = {"type": "delta", "epsilon": 60.0}
    run = {"type": "gaussian", "noise_multiplier": 1.0}
    [answer] = answers(run, [question])
    assert answer["upper_log10"] < -300
    for value, verdict in ((0.0, "unsafe"), (5e-324, "loose"), (1e-300, "loose")):
        found = check_claim(run, {"question": question, "value": value})
        assert found.verdict == verdict
        assert found.by is not None
        assert found.by.ratio_log10 is not None
        if verdict == "loose":
            assert found.by.ratio_log10 == pytest.approx(math.log10(value) - answer["upper_log10"], rel=1e-9)
            assert found.by.ratio is None
        else:
            assert found.by.ratio == math.inf


def test_infinite_claim_is_a_string() -> None:
    question, run = {"type": "epsilon", "delta": 0.0}, {"type": "gaussian", "noise_multiplier": 1.0}
    assert check_claim(run, {"question": question, "value": "Infinity"}).verdict == "consistent"
    finite = check_claim(run, {"question": question, "value": 1e6})
    assert (finite.verdict, finite.holds) == ("unsafe", "no")
    assert finite.by is not None
    assert (finite.by.difference, finite.by.ratio) == (math.inf, math.inf)
    wasteful = check_claim({"type": "pure_dp", "epsilon": 1.0}, {"question": question, "value": "Infinity"})
    assert (wasteful.verdict, wasteful.holds) == ("loose", "yes")
    written = json.loads(wasteful.json_bytes())
    assert (written["claimed"], written["by"]["ratio"]) == ("Infinity", "Infinity")


def test_claim_inside_bracket_is_consistent() -> None:
    run = {
        "type": "dpsgd",
        "noise_multiplier": 1.0,
        "batch_size": 480,
        "dataset_size": 48_000,
        "epochs": 10,
        "sampling": "shuffled",
    }
    question = {"type": "epsilon", "delta": 1e-5}
    inside = check_claim(run, {"question": question, "value": 12.0})
    assert (inside.verdict, inside.holds) == ("consistent", "unknown")
    assert any("two theorems" in note for note in inside.notes)
    poisson = check_claim(run, {"question": question, "value": 1.8283})
    assert (poisson.verdict, poisson.holds) == ("unsafe", "no")
    assert poisson.attack is not None
    assert poisson.attack.power is not None
    assert check_claim(run, {"question": question, "value": 17.9}).verdict == "loose"


def test_approximation_decides_no_claim() -> None:
    run = {
        "type": "noisy_sgd",
        "dataset_size": 400,
        "batch_size": 400,
        "dimension": 650,
        "steps": 1,
        "noise_std": 2.84,
        "max_grad_norm": 500.0,
    }
    model = {"type": "membership", "step_curve": "gaussian"}
    found = check_claims(run, [{"question": {"type": "advantage"}, "value": v} for v in (0.0, 1.0)], threat_model=model)
    assert [(claim.verdict, claim.holds, claim.by) for claim in found.claims] == [("undecided", "unknown", None)] * 2
    assert found.worst_case is not None
    assert len(found.worst_case.answers) == 2
    assert CLAIMS.exit_code(found) == 0


def test_type_two_errors_near_one_refer_to_the_power() -> None:
    run, question = {"type": "gdp", "mu": 1.0}, {"type": "trade_off", "false_positive_rates": [1e-9]}
    near = check_claim(run, {"question": question, "value": 1 - 1e-9, "reads": "type_two_error"})
    assert near.verdict == "consistent"
    assert any("Claim the power" in note for note in near.notes)
    assert check_claim(run, {"question": question, "value": 1e-9}).verdict == "unsafe"


def test_capacities_are_claimed_as_integers() -> None:
    run = {"type": "pure_dp", "epsilon": 1.0}
    question = {"type": "deletion_capacity", "prior": 1e-4, "confidence": 0.8}
    for value, verdict in ((819, "loose"), (820, "consistent"), (821, "unsafe"), ("Infinity", "unsafe")):
        assert check_claim(run, {"question": question, "value": value}).verdict == verdict
    coarse = {"question": question, "value": 821, "relative_tolerance": 0.01}
    assert check_claim(run, coarse).verdict == "consistent"


def test_exit_code_is_nonzero_only_for_unsafe_claim() -> None:
    run, question = {"type": "gdp", "mu": 1.0}, {"type": "advantage"}
    for value, goes_on in ((0.1, False), (0.38292492254, True), (0.9, True)):
        assert (CLAIMS.exit_code(check_claims(run, [{"question": question, "value": value}])) == 0) is goes_on


def test_bytes_match_response() -> None:
    for example in CLAIMS.examples.values():
        request = CLAIMS.request_type.model_validate_json(json.dumps(example["value"]))
        body = CLAIMS.body(request, NAMED, "2026.01.01")
        assert CLAIMS.response_type.model_validate_json(body).json_bytes() == body


def test_expensive_attack_is_not_searched() -> None:
    """The verdict is given without an attack if the search for the attack would be expensive."""
    run = {"type": "dpsgd", "noise_multiplier": 0.3, "sample_rate": 0.05, "steps": 3}
    question = {"type": "positive_predictive_value", "prior": 0.1}
    found = check_claim(run, {"question": question, "value": 0.5})
    assert (found.verdict, found.holds) == ("unsafe", "no")
    assert found.attack is not None
    assert (found.attack.power, found.attack.false_positive_rate) == (None, None)
    assert "work" in found.attack.test
    request = CLAIMS.request_type.model_validate_json(
        json.dumps({"mechanism": run, "claims": [{"question": question, "value": 0.5}]})
    )
    assert CLAIMS.quote(request).cost < 200_000


@pytest.mark.parametrize("kind", RANGES)
def test_claims_at_range_limits_get_verdict(kind: str) -> None:
    random = np.random.default_rng(len(kind))
    allowed = RANGES[kind]
    ends: list[Any] = [0.0, 1.0, allowed.largest] + (["Infinity"] if allowed.infinite else [])
    for mechanism in ({"type": "pure_dp", "epsilon": 0.0}, {"type": "laplace", "noise_multiplier": 1.0}):
        for _ in range(5):
            question = {"type": kind, **QUESTIONS[kind](random)}
            if kind == "trade_off":
                question["false_positive_rates"] = question["false_positive_rates"][:1]
            for found in check_claims(mechanism, [{"question": question, "value": value} for value in ends]).claims:
                promised = found.claimed == 0 if kind in ("deletion_capacity", "unlearning_guarantee") else False
                assert not (promised and found.verdict == "unsafe")
                assert (found.attack is not None) == (found.verdict == "unsafe")
