"""What a hazard costs: epsilon of the run as it would be if the hazard is what happened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, final

from pydantic import ValidationError

from api_schemas.assessments import AssessmentContext
from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import DpsgdMechanism, MechanismSpec, RepeatedMechanism
from api_schemas.questions import EpsilonQuestion
from api_schemas.threat_models import WorstCaseThreatModel
from api_schemas.training_runs import listed
from service.computations.abstract import ResponseFields
from service.computations.nested import answered
from service.privacy.errors import PrivacyComputationError

Consequences: TypeAlias = list[ResponseFields]
SMALLEST_NOISE: Final = 1e-4


@final
@dataclass(frozen=True, slots=True)
class Run:
    """What is assessed: a mechanism, what is known beside it, and the worst case with the records of a unit."""

    mechanism: MechanismSpec
    context: AssessmentContext
    threat_model: WorstCaseThreatModel


def as_shuffled(run: Run) -> Consequences:
    """The run if its epochs were shuffled: a bracket. Nothing where its length in records is not known."""
    mechanism, context = run.mechanism, run.context
    size = context.dataset_size
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
    # Its neighbours are others: the relation is that of such runs, the records are those of the unit.
    model = WorstCaseThreatModel(type="worst_case", records=run.threat_model.records)
    made = lambda: DpsgdMechanism(**described)  # noqa: E731
    return _epsilon("Epsilon if its epochs were shuffled.", made, replace(run, threat_model=model))


def with_microbatches(run: Run) -> Consequences:
    """The run if averages of several gradients were clipped: half the noise."""
    mechanism = run.mechanism
    if not isinstance(mechanism, DpsgdMechanism):
        return []
    halves = tuple(max(each / 2, SMALLEST_NOISE) for each in listed(mechanism.noise_multiplier))
    noise = halves if isinstance(mechanism.noise_multiplier, tuple) else halves[0]
    changed = mechanism.model_copy(update={"noise_multiplier": noise})
    return _epsilon("Epsilon with half the noise, which is what clipped averages leave.", lambda: changed, run)


def at_consistent_rate(run: Run, rate: float) -> Consequences:
    """The run at the rate of its batches."""
    changed = run.mechanism.model_copy(update={"sample_rate": rate})
    return _epsilon(f"Epsilon at the rate of its batches, {rate:.6g}.", lambda: changed, run)


def of_all_tuning_runs(run: Run, runs: int) -> Consequences:
    """All runs together, as if all had been released."""
    repeated = lambda: RepeatedMechanism(type="repeated", mechanism=run.mechanism, steps=runs)  # noqa: E731
    return _epsilon(f"Epsilon of {runs} such runs together, all released.", repeated, run)


def _epsilon(text: str, make: Callable[[], MechanismSpec], run: Run) -> Consequences:
    """Nothing where the changed run cannot be described, or is not served: the hazard stands without a number."""
    try:
        asked = BoundsRequest(
            mechanism=make(),
            threat_model=run.threat_model,
            questions=(EpsilonQuestion(type="epsilon", delta=run.context.delta),),
            method="auto",
        )
        told: dict[str, Any] = answered(asked, {})
    except (PrivacyComputationError, ValidationError):
        return []
    return [
        {
            "text": text,
            "mechanism": asked.mechanism,
            "threat_model": asked.threat_model,
            "answer": told["answers"][0],
        }
    ]
