"""Responses with their charts, for the tests of this package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from api_schemas.base import Result
from service.command.in_process import evaluate, render
from service.rendering.charts.style import VEGA_LITE
from service.resources.catalogue import resource

DPSGD = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 2.0}
HOSTILE = "<script>alert(1)</script>\"'&]]> url(#part0) datum.x"
NAME = "a<b>\"'&]]> url(#part0)"
REQUESTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "curves": {
        "default": {"mechanism": GAUSSIAN},
        "attackers": {
            "mechanism": GAUSSIAN,
            "threat_models": [
                {"type": "worst_case"},
                {"type": "glrt", "dimension": 9},
                {"type": "glrt", "dimension": 99},
            ],
            "false_positive_rates": [0.0, 1e-6, 1e-3, 0.01, 0.5, 1.0],
        },
        "methods": {
            "mechanism": DPSGD,
            "methods": ["auto", "clt"],
            "directions": ["add", "remove"],
            "grid": {"smallest": 1e-300, "largest": 1.0, "count": 20},
        },
        "no_rate_to_draw": {"mechanism": GAUSSIAN, "false_positive_rates": [0.0]},
    },
    "comparisons": {
        "two": {
            "runs": [{"name": NAME, "mechanism": DPSGD}, {"name": "other", "mechanism": GAUSSIAN}],
            "questions": [{"type": "advantage"}],
        }
    },
    "assessments": {
        "usual": {"mechanism": DPSGD, "context": {"delta": 1e-5, "dimension": 100}},
        "attackers": {"mechanism": GAUSSIAN, "context": {"delta": 1e-6, "dimension": 100}},
        "everybody": {"mechanism": GAUSSIAN, "context": {"delta": 1e-6, "dimension": 9, "epsilon_pmp": 3.0}},
        "dear_attacker": {
            "mechanism": {**DPSGD, "steps": 20},
            "context": {"delta": 1e-5, "dimension": 9, "unknown_direction": "fresh_each_step"},
        },
        "nothing_hidden": {
            "mechanism": {"type": "approximate_dp", "epsilon": 0.0, "delta": 1.0},
            "context": {"delta": 0},
        },
        "refuted": {
            "mechanism": GAUSSIAN,
            "context": {"delta": 1e-6, "attested": [{"code": "noise_is_fresh", "holds": "no"}]},
        },
        "unproved": {
            "mechanism": {
                "type": "noisy_sgd",
                "dataset_size": 50,
                "batch_size": 50,
                "dimension": 20,
                "steps": 2,
                "noise_std": 0.5,
                "max_grad_norm": 1.0,
            },
            "context": {"delta": 1e-5, "microbatch_size": 4},
        },
        "changed": {"mechanism": DPSGD, "context": {"delta": 1e-5, "microbatch_size": 4}},
        "no_epsilon": {"mechanism": GAUSSIAN, "context": {"delta": 0.0}},
        "said_by_people": {
            "mechanism": GAUSSIAN,
            "context": {
                "delta": 1e-6,
                "attested": [{"code": "noise_is_fresh", "holds": "yes", "by": HOSTILE, "when": "2026-11-23"}],
            },
            "policy": {
                "name": HOSTILE,
                "revision": HOSTILE,
                "rules": [{"name": HOSTILE, "question": {"type": "advantage"}, "at_most": 0.1}],
            },
        },
    },
    "sweeps": {
        "two_places": {
            "mechanism": DPSGD,
            "vary": {
                "/mechanism/noise_multiplier": {"values": [0.8, 1.0, 2.0]},
                "/mechanism/steps": {"values": [10, 100]},
            },
            "questions": [{"type": "epsilon", "delta": 1e-5}, {"type": "trade_off", "false_positive_rates": [0.01]}],
        },
        "with_problems": {
            "mechanism": GAUSSIAN,
            "vary": {"/mechanism/noise_multiplier": {"values": [-1.0, 0.5, 1.0]}},
            "questions": [{"type": "epsilon", "delta": 0.0}, {"type": "advantage"}],
        },
    },
}
DEAR = "dear_attacker"
CASES = [(name, case) for name, cases in REQUESTS.items() for case in cases if case != DEAR]


@cache
def answer(name: str, case: str) -> bytes:
    """Return the response to the case of a resource as JSON bytes."""
    found = evaluate(resource(name), json.dumps(REQUESTS[name][case]).encode(), "")
    assert isinstance(found, bytes), found
    return found


def response(name: str, case: str) -> Result:
    found: Result = resource(name).response_type.model_validate_json(answer(name, case))
    return found


@cache
def form(name: str, case: str, media_type: str) -> bytes:
    return render(resource(name), answer(name, case), media_type)


def spec(name: str, case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(form(name, case, VEGA_LITE))
    return found


def charts(name: str, case: str) -> dict[str, dict[str, Any]]:
    """Return the charts of the case of a resource, by name."""
    whole = spec(name, case)
    return {each["name"]: each for each in whole.get("vconcat", [whole])}


def nodes(part: Any) -> Iterator[Any]:
    """Yield every object, list, number and string in a Vega-Lite specification."""
    yield part
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        yield from nodes(each)
