"""Requests over everything that the contract allows, by number. A number always gives the same request."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from service.privacy.mechanisms.neighbours import Neighbours
from service.resources.catalogue import RESOURCES, resource
from tests.importers.states import STATES
from tests.privacy.mixed_box import mixed_points
from tests.privacy.random_cases import FAMILIES, NEIGHBOURS, RandomQuestion, log_uniform, random_question
from tests.rendering import assessment_space
from tests.resources.nested_space import any_nested, number_pointers
from tests.resources.request_space import Spec, any_request, earlier_mechanisms, mechanism, question

SEED: Final = 20261125
QUESTIONS: Final = {
    "power": ("trade_off", "false_positive_rates"),
    "type_two_error": ("trade_off", "false_positive_rates"),
    "delta": ("delta", "epsilon"),
    "epsilon": ("epsilon", "delta"),
}
"""Type of a question and the field with its argument, by the evaluated quantity."""

LATER_RESOURCES: Final = frozenset({"certificates"})
"""Resources that are younger than the stored answers. A choice among more resources would change other requests."""

LATER_STATES: Final = frozenset({"rdp", "zcdp"})
"""Formats of imports that are younger than the stored answers."""


def _bounds(spec: Spec, neighbours: Neighbours, *asked: RandomQuestion) -> tuple[str, Spec]:
    questions: list[Spec] = []
    for one in asked:
        kind, field = QUESTIONS[one.reading]
        at = [one.at] if kind == "trade_off" else one.at
        questions.append({"type": kind, field: at, "direction": one.direction})
    threat_model: Spec = {"type": "worst_case", "neighboring_relation": neighbours.relation}
    if neighbours.records != 1:
        threat_model["records"] = neighbours.records
    return "bounds", {"mechanism": spec, "threat_model": threat_model, "questions": questions}


def _family(random: Generator) -> tuple[str, Spec]:
    """Draw a mechanism of a family that has two engines, with two questions."""
    family = str(random.choice(list(FAMILIES)))
    spec = FAMILIES[family][1](random)
    neighbours = NEIGHBOURS[family](random) if family in NEIGHBOURS else Neighbours()
    return _bounds(spec, neighbours, random_question(random), random_question(random))


def _mixed(random: Generator) -> tuple[str, Spec]:
    """Draw a composition of two to six parts of different kinds."""
    [point] = mixed_points(1, int(random.integers(2**31)))
    return _bounds(point.spec, Neighbours(), point.question)


def _sweep(random: Generator) -> tuple[str, Spec]:
    """Draw one or two varied numbers of a mechanism, and up to eight values for each."""
    run = mechanism(random)
    pointers = list(number_pointers(run, "/mechanism")) or ["/mechanism/noise_multiplier"]
    count = int(random.integers(1, 9))
    vary: Spec = {}
    for pointer in random.permutation(pointers)[: random.integers(1, 3)]:
        values = [log_uniform(random, 0.5, 5.0) for _ in range(count)]
        if pointer.endswith(("steps", "batch_size")):
            values = [max(1, int(100 * value)) for value in values]
        elif pointer.endswith("sample_rate"):
            values = [value / 50 for value in values]
        vary[str(pointer)] = {"values": values}
    asked = [question(random) for _ in range(random.integers(1, 4))]
    return "sweeps", {"mechanism": run, "vary": vary, "combine": "zip", "questions": asked}


def _assessment(random: Generator) -> tuple[str, Spec]:
    return "assessments", assessment_space.body(random)


def _state(random: Generator) -> tuple[str, Spec]:
    """Draw the state of another library, for an import or for the mechanism of a request."""
    library = str(random.choice([name for name in STATES if name not in LATER_STATES]))
    written = STATES[library][str(random.choice(list(STATES[library])))]
    state = {"format": library, "content": written["content"]}
    if random.uniform() < 0.5:
        return "imports", state
    return "bounds", {"mechanism": {"type": "imported", **state}, "questions": [question(random)]}


def _example(random: Generator) -> tuple[str, Spec]:
    """Draw an example of any resource, and change some of its numbers."""
    name = str(random.choice([name for name in RESOURCES if name not in LATER_RESOURCES]))
    examples = list(resource(name).examples.values())
    return name, _varied(examples[random.integers(len(examples))]["value"], random)


def _varied(value: Any, random: Generator) -> Any:
    if isinstance(value, dict):
        return {key: _varied(inner, random) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_varied(inner, random) for inner in value]
    if isinstance(value, bool) or not isinstance(value, int | float) or random.uniform() < 0.6:
        return value
    factor = math.exp(random.uniform(-0.5, 0.5))
    if isinstance(value, int):
        return round(value * factor)
    return value**factor if 0 < value < 1 else value * factor


SPACES: Final[tuple[tuple[int, Callable[[Generator], tuple[str, Spec]]], ...]] = (
    (8, any_request),
    (4, any_nested),
    (3, _family),
    (1, _mixed),
    (1, _sweep),
    (1, _assessment),
    (1, _state),
    (3, _example),
)
"""Number of requests from each space, out of 22."""
TURNS: Final = tuple(draw for count, draw in SPACES for _ in range(count))


def request(number: int) -> tuple[str, bytes]:
    """Return the name of the resource and the body of the request with this number."""
    with earlier_mechanisms():
        name, body = TURNS[number % len(TURNS)](np.random.default_rng([SEED, number]))
    return name, json.dumps(body).encode()
