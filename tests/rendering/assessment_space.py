"""Random requests for assessments over the whole contract, by seed. Most mechanisms are inexpensive."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from pydantic import ValidationError

from api_schemas.assessments import AssessmentsRequest, AssessmentsResponse
from service.privacy.errors import PrivacyComputationError
from service.resources.assessments.assessment import ASSESSMENTS
from tests.resources.request_space import ELEMENTS, Spec, delta, probability, question, spread

DIGEST: Final = "sha256:" + "0" * 64
ENGINE: Final = "engine"
HOSTILE: Final = (
    "next-word model",
    "<script>alert(1)</script>",
    "a|b `c` *d* _e_ [f](http://g.example) <b>",
    '"; rm -rf / \\ & ]]> ../..',
    "www.example.org :smile: ~~gone~~ @everybody #1",
    "Größe 3 äöü 模型",
    " ".join("word" for _ in range(40)),
)
INEXPENSIVE: Final = ("gaussian", "laplace", "gdp", "pure_dp", "exponential")
UNITS: Final = ("example", "sequence", "document", "device", "user", "household", "organisation")
CODES: Final = {
    "gaussian": "noise_is_fresh",
    "laplace": "noise_is_fresh",
    "exponential": "scores_bounded",
    "gdp": "parameters_are_proved",
    "pure_dp": "parameters_are_proved",
    "poisson_sampled": "sampling_is_poisson",
    "dpsgd": "sampling_is_poisson",
}
"""Assumptions of a mechanism."""
COMPOSES: Final = ("gaussian", "gdp")
"""Mechanisms whose composition has a closed form."""
limit: Final = spread(1e-6, 50.0, 0.5, 0.05, 0.9, 1.0)


def mechanism(random: Generator) -> Spec:
    """Draw a mechanism: fifteen of sixteen have closed forms, the rest are short runs with batches."""
    if random.uniform() < 15 / 16:
        return ELEMENTS[str(random.choice(INEXPENSIVE))](random)
    noise, chance = float(random.uniform(0.8, 3.0)), float(random.uniform(0.01, 0.3))
    if random.uniform() < 0.5:
        inner = {"type": "gaussian", "noise_multiplier": noise}
        return {"type": "poisson_sampled", "sample_rate": chance, "mechanism": inner}
    return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": chance, "steps": 1}


def _optional(random: Generator, fields: dict[str, Any]) -> Spec:
    """Draw some of the fields: one in three."""
    return {name: value for name, value in fields.items() if random.uniform() < 1 / 3}


def context(random: Generator, kind: str) -> Spec:
    """Draw the context of a mechanism."""
    name = lambda: str(random.choice(HOSTILE))  # noqa: E731
    subject = {"name": name(), **_optional(random, {"version": name(), "uri": "https://models.example.org/a?b=c&d"})}
    size = int(10 ** random.uniform(1, 8))
    unit = str(random.choice(UNITS))
    attested = {"code": CODES[kind], "holds": str(random.choice(["yes", "no"])), "by": name()}
    found = _optional(
        random,
        {
            "subject": subject,
            "date": "2026-10-01",
            "prepared_by": name(),
            "dataset_size": size,
            "batch_size": int(random.integers(1, size + 1)),
            "privacy_unit": unit,
            "prior": probability(random),
            "false_positive_rate": probability(random),
            "baseline_success": probability(random),
            "released": "last_model",
            "microbatch_size": int(random.integers(1, 5)),
            "gradient_accumulation_steps": int(random.integers(1, 4)),
            "tuning_runs": int(random.integers(1, 4)),
            "attested": [attested],
        },
    )
    if found.get("privacy_unit", "example") != "example" and random.uniform() < 0.5:
        found["records"] = int(random.integers(1, 5))
    if kind not in COMPOSES:
        found.pop("tuning_runs", None)
    return {"delta": delta(random), **found}


def policy(random: Generator) -> Spec:
    """Draw a policy of one to three limits on the worst case."""
    rules = [
        {
            "question": question(random),
            str(random.choice(["at_most", "at_least"])): limit(random),
            **_optional(random, {"name": str(random.choice(HOSTILE)), "severity": "warning"}),
        }
        for _ in range(random.integers(1, 4))
    ]
    rules[0].pop("severity", None)  # A policy whose limits all warn is rejected.
    found: Spec = {"name": str(random.choice(HOSTILE)), "rules": rules}
    return found if random.uniform() < 0.7 else {**found, "requires": "all"}


def body(random: Generator) -> Spec:
    """Draw the body of a request for an assessment. Some bodies are invalid."""
    described = mechanism(random)
    found = {"mechanism": described, "context": context(random, described["type"])}
    return found if random.uniform() < 0.5 else {**found, "policy": policy(random)}


def respond(sent: Spec) -> AssessmentsResponse:
    """Return the response to the body of an assessment, without a cache.

    Raise ValidationError or PrivacyComputationError.
    """
    return ASSESSMENTS.response(AssessmentsRequest.model_validate_json(json.dumps(sent)), DIGEST, ENGINE)


def drawn(seed: int) -> tuple[Spec, AssessmentsResponse]:
    """Return the first valid body of an assessment that a seed gives, and its response."""
    random = np.random.default_rng([28, seed])
    while True:
        sent = json.loads(json.dumps(body(random)))
        try:
            return sent, respond(sent)
        except (ValidationError, PrivacyComputationError):
            continue


@cache
def assessment(seed: int) -> AssessmentsResponse:
    """Return the response to the random assessment of a seed."""
    return drawn(seed)[1]
