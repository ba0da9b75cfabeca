"""`POST /v1/audits/attack-counts`: what the counts of an attack prove, and whether a mechanism's bound allows them."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.attack_rates import AuditConfidence, MeasuredRate, ProvedEpsilon, ProvedNumber, Verdict
from api_schemas.base import Request, Response, Result, is_none
from api_schemas.choices import Evidence, MethodUsed
from api_schemas.enclosures import Conditional, EnclosedProbability, Notes, Source, Tight
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.scalar_types import POSITIVE_ZERO
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel

LARGEST_COUNT: Final = 10**9


class AttackCountsRequest(Request):
    """Counts of correct and false membership claims of an attack in independent trials."""

    true_positives: Annotated[
        int,
        Field(
            ge=0,
            le=LARGEST_COUNT,
            validation_alias=AliasChoices("true_positives", "tp"),
            description="Number of members that the attack classified as members.",
            examples=[180],
        ),
    ]
    members: Annotated[int, Field(ge=1, le=LARGEST_COUNT, description="Number of attacked members.", examples=[1000])]
    false_positives: Annotated[
        int,
        Field(
            ge=0,
            le=LARGEST_COUNT,
            validation_alias=AliasChoices("false_positives", "fp"),
            description="Number of non-members that the attack classified as members.",
            examples=[10],
        ),
    ]
    non_members: Annotated[
        int,
        Field(
            ge=1,
            le=LARGEST_COUNT,
            validation_alias=AliasChoices("non_members", "nonmembers"),
            description="Number of attacked non-members.",
            examples=[1000],
        ),
    ]
    confidence: AuditConfidence = 0.95
    delta: Annotated[
        Annotated[float, Field(ge=0, le=1), POSITIVE_ZERO] | None,
        Field(
            validation_alias=AliasChoices("delta", "target_delta"),
            description="Second delta for the proved epsilon, in addition to 0.",
            examples=[1e-5],
            exclude_if=is_none,
        ),
    ] = None
    mechanism: Annotated[
        MechanismSpec | None,
        Field(description="The attacked mechanism. The answer compares its bound with the counts.", exclude_if=is_none),
    ] = None
    threat_model: Annotated[
        ThreatModelSpec | None,
        Field(description="Threat model of the bound. Default: the worst case.", exclude_if=is_none),
    ] = None

    @model_validator(mode="after")
    def _counts_fit(self) -> Self:
        if self.true_positives > self.members:
            raise limit_error("/true_positives", "Must be at most `members`.")
        if self.false_positives > self.non_members:
            raise limit_error("/false_positives", "Must be at most `non_members`.")
        if self.mechanism is None:
            if self.threat_model is not None:
                raise limit_error("/threat_model", "Send a threat_model only with a mechanism.")
            return self
        check_tree(self.mechanism)
        if self.threat_model is None:
            self._settle(threat_model=WorstCaseThreatModel(type="worst_case"))
        return self


class BoundVerdict(Response):
    """Comparison of the counts with one bound. The orientation is that of the strongest contradiction."""

    threat_model: ThreatModelSpec
    verdict: Verdict
    orientation: Annotated[
        Literal["as_given", "reversed"],
        Field(description="as_given: the attack of the request. reversed: the attack with all its claims negated."),
    ]
    false_positive_rate: Annotated[
        float,
        Field(description="Upper confidence bound of the false positive rate in this orientation.", examples=[0.0129]),
    ]
    power_proved: Annotated[
        float,
        Field(description="Lower confidence bound of the true positive rate in this orientation.", examples=[0.31]),
    ]
    power_bound: Annotated[EnclosedProbability, Field(description="Bound of the power at this false positive rate.")]
    evidence: Evidence
    tight: Tight
    method: MethodUsed
    source: Source
    conditional: Conditional
    notes: Notes


class AttackCountsResponse(Result):
    """Confidence region of both rates, proved parameters, and a verdict on the mechanism if the request has one."""

    true_positive_rate: MeasuredRate
    false_positive_rate: MeasuredRate
    confidence: Annotated[
        float, Field(description="Least probability that all measured intervals hold together, from the request.")
    ]
    gdp_mu: Annotated[
        ProvedNumber,
        Field(description="Proved lower bound of mu. The attacked mechanism is not mu-GDP for any smaller mu."),
    ]
    epsilons: Annotated[
        tuple[ProvedEpsilon, ...],
        Field(description="Proved lower bounds of epsilon, at delta 0 and at the delta of the request."),
    ]
    evidence: Evidence
    tight: Tight
    source: Source
    mechanism: Annotated[
        MechanismSpec | None, Field(description="Mechanism of the request. null: the request has no mechanism.")
    ]
    bound: Annotated[
        BoundVerdict | None,
        Field(
            description="Comparison of the counts with the bound of the mechanism. null: the request has no mechanism."
        ),
    ]
    worst_case: Annotated[
        BoundVerdict | None,
        Field(description="Comparison with the worst-case bound. null: the threat model is the worst case."),
    ]
    assumptions: Assumptions
    hazards: Hazards
    notes: Notes
