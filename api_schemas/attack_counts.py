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
    """How often an attack called members and non-members members, in independent trials."""

    true_positives: Annotated[
        int,
        Field(
            ge=0,
            le=LARGEST_COUNT,
            validation_alias=AliasChoices("true_positives", "tp"),
            description="Members that the attack called members.",
            examples=[180],
        ),
    ]
    members: Annotated[int, Field(ge=1, le=LARGEST_COUNT, description="Members that were attacked.", examples=[1000])]
    false_positives: Annotated[
        int,
        Field(
            ge=0,
            le=LARGEST_COUNT,
            validation_alias=AliasChoices("false_positives", "fp"),
            description="Non-members that the attack called members.",
            examples=[10],
        ),
    ]
    non_members: Annotated[
        int,
        Field(
            ge=1,
            le=LARGEST_COUNT,
            validation_alias=AliasChoices("non_members", "nonmembers"),
            description="Non-members that were attacked.",
            examples=[1000],
        ),
    ]
    confidence: AuditConfidence = 0.95
    delta: Annotated[
        Annotated[float, Field(ge=0, le=1), POSITIVE_ZERO] | None,
        Field(
            validation_alias=AliasChoices("delta", "target_delta"),
            description="A second delta at which to say what epsilon is proved, beside 0.",
            examples=[1e-5],
            exclude_if=is_none,
        ),
    ] = None
    mechanism: Annotated[
        MechanismSpec | None,
        Field(description="What was attacked: its bound is held against the counts.", exclude_if=is_none),
    ] = None
    threat_model: Annotated[
        ThreatModelSpec | None,
        Field(description="Whose bound that is; absent: the worst case.", exclude_if=is_none),
    ] = None

    @model_validator(mode="after")
    def _counts_fit(self) -> Self:
        if self.true_positives > self.members:
            raise limit_error("/true_positives", "Must be at most `members`.")
        if self.false_positives > self.non_members:
            raise limit_error("/false_positives", "Must be at most `non_members`.")
        if self.mechanism is None:
            if self.threat_model is not None:
                raise limit_error("/threat_model", "Only with a mechanism.")
            return self
        check_tree(self.mechanism)
        if self.threat_model is None:
            self._settle(threat_model=WorstCaseThreatModel(type="worst_case"))
        return self


class BoundVerdict(Response):
    """The counts against one bound, in the orientation in which they come closest to it or beyond."""

    threat_model: ThreatModelSpec
    verdict: Verdict
    orientation: Annotated[
        Literal["as_given", "reversed"],
        Field(description="reversed: of the attack that says the opposite."),
    ]
    false_positive_rate: Annotated[float, Field(description="The upper end of that attack's false positive rate.")]
    power_proved: Annotated[float, Field(description="The lower end of that attack's true positive rate.")]
    power_bound: Annotated[
        EnclosedProbability, Field(description="The bound of the power at that false positive rate.")
    ]
    evidence: Evidence
    tight: Tight
    method: MethodUsed
    source: Source
    conditional: Conditional
    notes: Notes


class AttackCountsResponse(Result):
    """The region of both rates, the parameters that are proved, and the verdict on the mechanism where one was sent."""

    true_positive_rate: MeasuredRate
    false_positive_rate: MeasuredRate
    confidence: Annotated[
        float, Field(description="Least probability that all measured intervals hold together; as in the request.")
    ]
    gdp_mu: Annotated[ProvedNumber, Field(description="What was attacked is not mu-GDP for any smaller mu.")]
    epsilons: Annotated[
        tuple[ProvedEpsilon, ...],
        Field(
            description="What was attacked is not (epsilon, delta)-DP for any smaller epsilon: at delta 0, at yours."
        ),
    ]
    evidence: Evidence
    tight: Tight
    source: Source
    mechanism: Annotated[MechanismSpec | None, Field(description="As in the request; null without one.")]
    bound: Annotated[BoundVerdict | None, Field(description="null without a mechanism.")]
    worst_case: Annotated[
        BoundVerdict | None,
        Field(description="The same against the worst case, where the threat model is relaxed."),
    ]
    assumptions: Assumptions
    hazards: Hazards
    notes: Notes
