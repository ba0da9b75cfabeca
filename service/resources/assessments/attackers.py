"""Attackers of the run of an assessment: the worst case, and every weaker attacker whose theory covers the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import NotApplicable
from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import MechanismSpec, NoisySgdMechanism, nodes_of
from api_schemas.questions import (
    AdvantageQuestion,
    AttackAccuracyQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
    ReconstructionQuestion,
    TradeOffQuestion,
)
from api_schemas.threat_models import (
    GlrtThreatModel,
    MembershipThreatModel,
    PracticalThreatModel,
    ThreatModelSpec,
)
from service.privacy.errors import UnsupportedCombination
from service.resources.abstract import Quote
from service.resources.assessments.judged import AssessedRun
from service.resources.bounds import bounds_quote

PLACES: Final[Mapping[str, str]] = {"/questions": "/context"}
"""Pointers of questions: an assessment derives its questions from the context."""
SUMMARIES: Final[Mapping[str, str]] = {
    "worst_case": "The attacker of differential privacy knows all other records and the training procedure, sees the "
    "whole release, and uses the best test.",
    "glrt": "An attacker who knows how far the record moves the release, but not the direction.",
    "membership": "An attacker who knows the law of the data, but no other record.",
    "practical": "An attacker who knows twice as many candidates as there are records in the data, but not which "
    "half is in the data.",
}
OTHER_NEIGHBOURS: Final = "The attacker of differential privacy under the neighbouring relation of the next attacker."
LARGEST_COST: Final = 5_000_000
"""Microseconds. A relaxed attacker with more expensive answers does not delay those of the worst case."""
MU_RANGE: Final = 1e-9
MU: Final = GdpMuQuestion(type="gdp_mu", false_positive_rate_min=MU_RANGE, type_two_error_min=MU_RANGE, direction="add")
"""One direction suffices: the curve of the other direction is the inverse, with the same mu over a symmetric range."""


def standard_questions(context: AssessmentContext) -> tuple[QuestionSpec, ...]:
    """Return the six questions that an assessment answers against every attacker.

    The questions are about epsilon at the delta of the context, the advantage, the power at four false positive rates,
    reconstruction, and accuracy and positive predictive value at the prior of the context.
    """
    rate = context.false_positive_rate
    return (
        EpsilonQuestion(type="epsilon", delta=context.delta),
        AdvantageQuestion(type="advantage"),
        TradeOffQuestion(type="trade_off", false_positive_rates=tuple(sorted({1e-6, 1e-4, 1e-2, rate}))),
        ReconstructionQuestion(type="reconstruction", baseline_success=context.baseline_success),
        AttackAccuracyQuestion(type="attack_accuracy", prior=context.prior),
        PositivePredictiveValueQuestion(
            type="positive_predictive_value", prior=context.prior, false_positive_rate=rate
        ),
    )


@dataclass(frozen=True, slots=True)
class Attackers:
    """Attackers of a run that are weaker than the worst case.

    Attributes
    ----------
    requests : tuple
        Requests for bounds of the attackers that apply, with their estimated costs.
    others : tuple of NotApplicable
        Attackers without answers and the reason: those that do not apply, and those in `expensive`.
    expensive : tuple
        Attackers that apply, but cost more than 5 s of CPU time.
    """

    requests: tuple[tuple[BoundsRequest, Quote], ...]
    others: tuple[NotApplicable, ...]
    expensive: tuple[ThreatModelSpec, ...] = ()


def relaxed_attackers(run: AssessedRun, tolerance: float) -> Attackers:
    """Return the attackers of a run that are weaker than the worst case, with requests for their answers.

    `tolerance` is the relative width of answers that the requests ask for.
    """
    if (run.threat_model.records or 1) > 1:
        reason = (
            "The theory of this attacker covers one record. The numbers of this assessment are for all records of one "
            "unit together."
        )
        names = ("glrt", "membership", "practical")
        return Attackers((), tuple(NotApplicable(threat_model=name, reason=reason) for name in names))
    candidates, others = _described_weaker_attackers(run.for_relaxed, run.context)
    found: list[tuple[BoundsRequest, Quote]] = []
    expensive: list[ThreatModelSpec] = []
    for candidate in candidates:
        asked = BoundsRequest(
            mechanism=run.for_relaxed,
            threat_model=candidate,
            questions=standard_questions(run.context),
            relative_tolerance=tolerance,
        )
        try:
            quote = bounds_quote(asked)
        except UnsupportedCombination as error:
            others.append(not_applicable(candidate, error))
            continue
        if quote.cost > LARGEST_COST:
            reason = (
                f"The answers of this attacker take an estimated {math.ceil(quote.cost / 1000000.0)} s. Send a "
                "request to /v1/bounds for them."
            )
            others.append(NotApplicable(threat_model=candidate.type, reason=reason))
            expensive.append(candidate)
        else:
            found.append((asked, quote))
    return Attackers(tuple(found), tuple(others), tuple(expensive))


def _described_weaker_attackers(
    mechanism: MechanismSpec, context: AssessmentContext
) -> tuple[list[ThreatModelSpec], list[NotApplicable]]:
    found: list[ThreatModelSpec] = [MembershipThreatModel(type="membership")]
    others: list[NotApplicable] = []
    runs = [node for node in nodes_of(mechanism) if isinstance(node, NoisySgdMechanism)]
    dimension = context.dimension or (runs[0].dimension if runs else None)
    if dimension is None:
        others.append(NotApplicable(threat_model="glrt", reason="Send `dimension` in the context."))
    else:
        direction = context.unknown_direction or "common_to_all_steps"
        found.insert(0, GlrtThreatModel(type="glrt", dimension=dimension, unknown_direction=direction))
    if context.epsilon_pmp is None:
        needs = "Send `epsilon_pmp` in the context. Compute it from the data with /v1/pmp."
        others.append(NotApplicable(threat_model="practical", reason=needs))
    else:
        delta = context.delta_pmp or 0.0
        found.append(PracticalThreatModel(type="practical", epsilon_pmp=context.epsilon_pmp, delta=delta))
    return found, others


def not_applicable(threat_model: ThreatModelSpec, error: UnsupportedCombination) -> NotApplicable:
    """Return the entry of an attacker whose theory does not cover the run or the questions.

    `error` has the reason.
    """
    return NotApplicable(threat_model=threat_model.type, reason=str(error))
