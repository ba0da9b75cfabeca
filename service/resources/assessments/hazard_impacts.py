"""Impacts of hazards: epsilon of the training run if the hazard is real."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import DpsgdMechanism, MechanismSpec
from api_schemas.questions import EpsilonQuestion
from api_schemas.threat_models import WorstCaseThreatModel
from api_schemas.training_runs import listed
from service.privacy.errors import PrivacyComputationError
from service.rendering.numbers import SHOWN, rounded_up
from service.resources.abstract import ResponseFields
from service.resources.assessments.judged import AssessedRun, Change, drawn_run, made_by
from service.resources.nested import evaluate_nested

HazardImpacts: TypeAlias = list[ResponseFields]


def as_shuffled(run: AssessedRun) -> HazardImpacts:
    """Return the epsilon of the run with shuffled epochs instead of Poisson samples, as fields of a `Consequence`.

    The list has one entry. It is empty if the number of records is unknown, and for other mechanisms than a DP-SGD run
    of one phase.
    """
    mechanism, context = run.mechanism, run.context
    size = max(run.sizes, default=None)
    if not isinstance(mechanism, DpsgdMechanism) or size is None or mechanism.phases > 1:
        return []
    rate, steps = listed(mechanism.sample_rate or 1.0)[0], listed(mechanism.steps or 1)[0]
    batch = min(max(mechanism.batch_size or context.batch_size or round(rate * size), 1), size)
    described: dict[str, Any] = {
        "type": "dpsgd",
        "noise_multiplier": mechanism.noise_multiplier,
        "sampling": "shuffled",
        "batch_size": batch,
        "dataset_size": size,
        "epochs": float(math.ceil(steps * batch / size)),
    }
    # Shuffled runs have their own neighbouring relation. The records are those of the privacy unit.
    model = WorstCaseThreatModel(type="worst_case", records=run.threat_model.records)
    made = lambda: DpsgdMechanism(**described)  # noqa: E731
    return _epsilon_of_changed_run("Epsilon with shuffled epochs.", made, replace(run, threat_model=model))


def changed_alone(change: Change, run: AssessedRun) -> HazardImpacts:
    """Return the epsilon of `run` after `change` alone, at the delta of its context, as fields of a `Consequence`.

    The list has one entry. It is empty if the changed run cannot be described or the service cannot answer for it.
    """
    made = made_by(change, run.mechanism)
    return [] if made is None else _epsilon_of_changed_run(_text(change), lambda: made, run)


def judged_alone(change: Change, judged: AssessedRun, epsilon: ResponseFields) -> HazardImpacts:
    """Return `epsilon`, the answer for the run `judged`, as fields of a `Consequence` in a list of one entry.

    `change` is the only change of this run, and its text begins the entry.
    """
    return [_consequence(_text(change), judged.mechanism, judged.threat_model, epsilon)]


def tuning_advice(run: AssessedRun, epsilon: ResponseFields, described: MechanismSpec) -> str | None:
    """Return how much a geometric number of tuning runs would reduce epsilon, as a sentence, or None.

    `run` selects among a fixed number of runs of the mechanism `described`, and `epsilon` is the answer for it. The
    result is None if epsilon would not fall, or if one of both epsilons has no finite upper bound.
    """
    runs = run.context.tuning_runs or 1
    drawn = _epsilon_of_changed_run("", lambda: drawn_run(described, runs), run)
    if not drawn or epsilon["upper"] is None:
        return None
    fixed, less = epsilon["upper"], drawn[0]["answer"]["upper"]
    if less is None or not less < fixed or math.isinf(fixed):
        return None
    return (
        f"Draw the number of runs from a geometric law with mean {runs}: epsilon falls from {rounded_up(fixed, SHOWN)} "
        f"to {rounded_up(less, SHOWN)}."
    )


def _text(change: Change) -> str:
    return f"Epsilon of the run {change.text}."


def _consequence(
    text: str, mechanism: MechanismSpec, threat_model: WorstCaseThreatModel, answer: ResponseFields
) -> ResponseFields:
    return {"text": text, "mechanism": mechanism, "threat_model": threat_model, "answer": answer}


def _epsilon_of_changed_run(text: str, make: Callable[[], MechanismSpec], run: AssessedRun) -> HazardImpacts:
    # the impact of a hazard that changes the run: none without a description of the changed run or an answer for it
    try:
        asked = BoundsRequest(
            mechanism=make(),
            threat_model=run.threat_model,
            questions=(EpsilonQuestion(type="epsilon", delta=run.context.delta),),
            method="auto",
        )
        response: dict[str, Any] = evaluate_nested(asked, {})
    except (PrivacyComputationError, ValidationError):
        return []
    return [_consequence(text, asked.mechanism, run.threat_model, response["answers"][0])]
