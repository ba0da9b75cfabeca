"""Seeded assessments of every kind that documents describe, and names that are hard to write."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any, Final

from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from service.engine_version import ENGINE_VERSION
from service.importers.catalogue import validate_with_imports
from service.resources.assessments.assessment import ASSESSMENTS
from service.resources.digest import digest

SEED: Final = 20271
COUNT: Final = 40
SOME: Final = (*range(7), 10, 12, 18, 19, 20, 23)
"""Numbers of assessments of every kind, which `make test` renders. `make thorough` renders the others too."""
HOSTILE: Final = (
    "<script>alert(1)</script><b>&amp;</b>",
    '"}], "value": "0", "x": [{"',
    "--- !!python/object/apply:os.system [id]",
    "...",
    "*alias &anchor !tag %TAG @at `tick`",
    "key: value # comment",
    "- item, {a: b}, [c]",
    "| block > fold ? key",
    "\\n\\u0000 \\x00 'single' \"double\"",
    "1e3",
    "0o17",
    "0x1F",
    "1_000",
    "12:30:45",
    "2026-11-23",
    ".inf",
    "null",
    "~",
    "Yes",
    "off",
    "=",
    "<<",
    " leading and trailing ",
    "\ufeffmark \u200fright to left\u200e \u200bzero width",
    "emoji \U0001f600 and \U0010fffd",
    "a" * 200,
)
"""Allowed names that readers of JSON, YAML or HTML may take for something else."""

DPSGD: Final[dict[str, Any]] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
GAUSSIAN: Final[dict[str, Any]] = {"type": "gaussian", "noise_multiplier": 2.0}
MECHANISMS: Final[tuple[dict[str, Any], ...]] = (
    DPSGD,
    GAUSSIAN,
    {"type": "laplace", "noise_multiplier": 2.0},
    {"type": "gdp", "mu": 0.7},
    {"type": "pure_dp", "epsilon": 1.5},
    {"type": "approximate_dp", "epsilon": 1.5, "delta": 1e-6},
    {"type": "noisy_sgd", "dataset_size": 50, "batch_size": 50, "dimension": 20, "steps": 1, "noise_std": 0.1}
    | {"max_grad_norm": 1.0},
)
EPSILON: Final = {"type": "epsilon", "delta": 1e-6}
RULES: Final[tuple[dict[str, Any], ...]] = (
    {"question": EPSILON, "at_most": 40.0},
    {"question": {"type": "advantage"}, "at_most": 0.01, "severity": "warning"},
    {"question": {"type": "trade_off", "false_positive_rates": [0.001]}, "at_most": 0.25},
)
FIXED: Final[tuple[dict[str, Any], ...]] = (
    {"mechanism": DPSGD, "context": {"delta": 1e-6}},
    {"mechanism": GAUSSIAN, "context": {"delta": 0.0}},
    {"mechanism": GAUSSIAN, "context": {"delta": 1.0}},
    {"mechanism": GAUSSIAN, "context": {"delta": 1e-6, "dimension": 30, "epsilon_pmp": 0.5}},
    {
        "mechanism": GAUSSIAN,
        "context": {
            "delta": 1e-6,
            "epsilon_pmp": 0.5,
            "attested": [{"code": "epsilon_pmp_is_of_the_release", "holds": "no", "by": "audit"}],
        },
    },
    {"mechanism": DPSGD, "context": {"delta": 1e-6, "microbatch_size": 4}},
    {"mechanism": DPSGD, "context": {"delta": 1e-6, "attested": [{"code": "sampling_is_poisson", "holds": "no"}]}},
)
"""Requests that a random draw may miss.

Plain, infinite epsilon, no guarantee, several attackers, an attacker with a refuted assumption, a hazard that changes
the numbers, void.
"""


def assess(sent: dict[str, Any], engine_version: str = ENGINE_VERSION) -> AssessmentsResponse:
    """Return the assessment of a request, with the digest of the service."""
    request = validate_with_imports(AssessmentsRequest, json.dumps(sent).encode())
    return ASSESSMENTS.response(request, digest(ASSESSMENTS.name, engine_version, request), engine_version)


@cache
def assessment(number: int) -> AssessmentsResponse:
    """Return an assessment: first one for each fixed request, then random ones."""
    return assess(request(number))


@cache
def request(number: int) -> dict[str, Any]:
    """Return the request of an assessment. The random numbers of a draw follow those of the draw before."""
    if number < len(FIXED):
        return FIXED[number]
    request(number - 1)
    return _drawn(_RANDOM)


_RANDOM: Final = Random(SEED)


def _drawn(random: Random) -> dict[str, Any]:
    mechanism = random.choice(MECHANISMS)
    context: dict[str, Any] = {"delta": random.choice([0.0, 1e-9, 1e-6, 1e-5, 1.0])}
    if random.random() < 0.7:
        context["subject"] = {"name": random.choice(HOSTILE)} | _some(random, _SUBJECT)
    context |= _some(random, _CONTEXT)
    if mechanism["type"] != "noisy_sgd":
        context |= _some(random, {"epsilon_pmp": [0.5, 2.0]})
    if mechanism is GAUSSIAN:
        context |= _some(random, {"dimension": [30]})
    if random.random() < 0.5:
        without = {name: value for name, value in context.items() if name != "tuning_runs"}  # Takes less time.
        known = [each.code for each in assess({"mechanism": mechanism, "context": without}).assumptions]
        context["attested"] = [
            {"code": code, "holds": random.choice(["yes", "yes", "yes", "no"])} | _some(random, _ATTESTED)
            for code in random.sample(known, random.randint(1, len(known)))
        ]
    sent: dict[str, Any] = {"mechanism": mechanism, "context": context}
    if random.random() < 0.6:
        rules = random.sample(RULES, random.randint(1, len(RULES)))
        named = [{**rule, **_some(random, {"name": HOSTILE})} for rule in rules]
        named[0].pop("severity", None)  # A policy whose limits all warn is rejected.
        sent["policy"] = {"name": random.choice(HOSTILE), "rules": named} | _some(random, {"requires": ["all"]})
    return sent


_SUBJECT: Final[dict[str, Any]] = {
    "version": HOSTILE,
    "uri": ["https://models.example.org/next-word/2.1.0", "urn:uuid:0e0c1f1e-0000-4000-8000-000000000000"],
    "sha256": ["0123456789abcdef" * 4],
}
_CONTEXT: Final[dict[str, Any]] = {
    "date": ["2026-11-23", "2024-02-29"],
    "prepared_by": HOSTILE,
    "dataset_size": [50],
    "tuning_runs": [20],
}
_ATTESTED: Final[dict[str, Any]] = {"by": HOSTILE, "when": ["2026-11-23"]}


def _some(random: Random, offered: dict[str, Any]) -> dict[str, Any]:
    """Draw some of the members, each with one of its values."""
    return {name: random.choice(values) for name, values in offered.items() if random.random() < 0.5}
