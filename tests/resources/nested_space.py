"""Random bodies of requests that evaluate bounds many times: calibrations, assessments, comparisons and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from numpy.random import Generator

from tests.resources.request_space import THREATS, Spec, delta, mechanism, probability, question, spread

FREE: Final = ("noise_multiplier", "noise_std", "sample_rate", "steps", "epsilon", "mu", "batch_size", "max_grad_norm")
"""Numbers of mechanisms that may be free."""


def _with_attacker(random: Generator, found: Spec) -> Spec:
    """Add a random attacker to the fields `found` of a request with probability 1/5, else return `found` unchanged."""
    if random.uniform() < 0.2:
        found["threat_model"] = THREATS[random.integers(len(THREATS))](random)
    return found


def number_pointers(spec: Any, place: str) -> Iterator[str]:
    """Yield pointers to the numbers of a mechanism."""
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name in FREE and isinstance(value, float | int):
                yield f"{place}/{name}"
            yield from number_pointers(value, f"{place}/{name}")
    elif isinstance(spec, list):
        for index, value in enumerate(spec):
            yield from number_pointers(value, f"{place}/{index}")


def _limit(random: Generator, asked: Spec) -> float:
    """Draw a limit near an answer to the question `asked`."""
    match asked["type"]:
        case "epsilon":
            return spread(0.1, 10.0)(random)
        case "gdp_mu":
            return spread(0.05, 5.0)(random)
        case "deletion_capacity":
            return float(random.integers(1, 50))
        case _:
            return float(random.uniform(0.0, 1.0))


def _question(random: Generator) -> Spec:
    """Draw a question with one answer."""
    found = question(random)
    if found["type"] == "trade_off":
        found["false_positive_rates"] = [probability(random)]
    return found


def calibration(random: Generator) -> Spec:
    """Draw a calibration of one number of any mechanism with one or two targets."""
    run = mechanism(random)
    places = list(number_pointers(run, "/mechanism")) or ["/mechanism/noise_multiplier"]
    targets: list[Spec] = []
    for _ in range(int(random.integers(1, 3))):
        asked = _question(random)
        side = "at_most" if random.uniform() < 0.8 else "at_least"
        targets.append({"question": asked, side: _limit(random, asked)})
    return _with_attacker(random, {"mechanism": run, "free": str(random.choice(places)), "targets": targets})


def assessment(random: Generator) -> Spec:
    """Draw an assessment of any mechanism, one in three with a policy."""
    found: Spec = {"mechanism": mechanism(random), "context": {"delta": delta(random)}}
    if random.uniform() < 0.3:
        found["context"]["dimension"] = int(spread(1, 1e4)(random))
    if random.uniform() < 0.3:
        rules = [
            {"question": asked, "at_most": _limit(random, asked)} for asked in (_question(random), _question(random))
        ]
        found["policy"] = {"name": "any", "rules": rules}
    return found


def comparison(random: Generator) -> Spec:
    """Draw a comparison of two to four mechanisms."""
    runs = [
        _with_attacker(random, {"name": name, "mechanism": mechanism(random)})
        for name in "abcd"[: random.integers(2, 5)]
    ]
    return {"runs": runs, "questions": [_question(random) for _ in range(random.integers(1, 4))]}


def claims(random: Generator) -> Spec:
    """Draw claims about any mechanism, most of them wrong."""
    stated: list[Spec] = []
    for _ in range(random.integers(1, 4)):
        asked = _question(random)
        stated.append({"question": asked, "value": _limit(random, asked)})
    return _with_attacker(random, {"mechanism": mechanism(random), "claims": stated})


NESTED: Final[dict[str, Callable[[Generator], Spec]]] = {
    "calibrations": calibration,
    "assessments": assessment,
    "comparisons": comparison,
    "claims": claims,
}


def any_nested(random: Generator) -> tuple[str, Spec]:
    """Draw the name of a resource that contains requests for bounds, and a body for it."""
    name = str(random.choice(list(NESTED)))
    return name, NESTED[name](random)
