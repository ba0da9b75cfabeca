"""`POST /v1/assessments`: a run, what is known about it, and what to say and to decide about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.answers import Answer
from api_schemas.base import Probability, Request, Response, Result, component, is_none
from api_schemas.bounds import Answers
from api_schemas.caveats import Assumption, AssumptionCode, HazardCode
from api_schemas.choices import Evidence
from api_schemas.enclosures import EnclosedNumber
from api_schemas.limits import check_tree, refusal
from api_schemas.mechanisms import DpsgdMechanism, MechanismSpec, NoisySgdMechanism, nodes_of
from api_schemas.policies import Decision, Name, Policy, PolicyVerdict
from api_schemas.quantities import (
    DEFAULT_TOLERANCE,
    LARGEST_EPSILON,
    LARGEST_RECORDS,
    POSITIVE_ZERO,
    Delta,
    RelativeTolerance,
    UnitInterval,
)
from api_schemas.threat_models import (
    LARGEST_GROUP,
    ThreatModelSpec,
    UnknownDirection,
    WorstCaseThreatModel,
    settled,
    usual_worst_case,
)

LARGEST_ATTESTED: Final = 64
LARGEST_COUNT: Final = 10**9
ONE_RECORD_UNITS: Final = ("example",)
_Day = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")

Count = Annotated[int, Field(ge=1, le=LARGEST_RECORDS)]


class Attestation(Request):
    """Somebody's word that an assumption holds, or does not. It is repeated, not checked."""

    code: AssumptionCode
    holds: Annotated[
        Literal["yes", "no"],
        component(
            "Attested", "no: the numbers that rest on it say nothing, and the verdict is void.", examples=["yes"]
        ),
    ]
    by: Annotated[Name | None, Field(description="Whose word it is.", examples=["ML platform"], exclude_if=is_none)] = (
        None
    )
    when: Annotated[
        Annotated[str, Field(min_length=10, max_length=10)] | None,
        Field(description="Day, as YYYY-MM-DD.", examples=["2026-11-23"], exclude_if=is_none),
    ] = None

    @model_validator(mode="after")
    def _is_a_day(self) -> Self:
        if self.when is not None and not _Day.fullmatch(self.when):
            raise PydanticCustomError(
                "day", "{sentence}", {"sentence": "Must be a day, as YYYY-MM-DD.", "field": "when"}
            )
        return self


class AssessmentContext(Request):
    """What is known about a run beside its mechanism. What is absent is not assumed: it is a hazard."""

    delta: Delta
    dataset_size: Annotated[
        Count | None,
        Field(
            validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
            description="Records in the data set.",
            examples=[48_000],
            exclude_if=is_none,
        ),
    ] = None
    batch_size: Annotated[
        Count | None,
        Field(
            description="Records in a batch, on average: between two updates of the model.",
            examples=[480],
            exclude_if=is_none,
        ),
    ] = None
    privacy_unit: Annotated[
        Literal["example", "sequence", "document", "device", "user", "household", "organisation"],
        component(
            "PrivacyUnit",
            "Whose data are protected together. All but example may hold several records: `records`.",
            examples=["user"],
        ),
    ] = "example"
    records: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_GROUP)] | None,
        Field(
            validation_alias=AliasChoices("records", "max_examples_per_unit", "max_examples_per_user"),
            description="Records that one privacy unit has in the data at most, enforced before training.",
            examples=[4],
            exclude_if=is_none,
        ),
    ] = None
    prior: Annotated[
        UnitInterval, Field(description="P(the record is a member) before the attack.", examples=[0.5])
    ] = 0.5
    false_positive_rate: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("false_positive_rate", "fpr", "alpha"),
            description="Rate of false accusations at which attacks are described.",
            examples=[1e-3],
        ),
    ] = 1e-3
    baseline_success: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("baseline_success", "kappa"),
            description="Chance to reconstruct the record without seeing the release.",
            examples=[1e-3],
        ),
    ] = 1e-3
    released: Annotated[
        Literal["all_checkpoints", "last_model"],
        component(
            "Released",
            "What left the training run. The bounds are for all checkpoints; a last model alone reveals no more.",
            examples=["all_checkpoints"],
        ),
    ] = "all_checkpoints"
    dimension: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(
            validation_alias=AliasChoices("dimension", "num_parameters"),
            description="Coordinates of the released vector, for attackers who do not know in which direction a record "
            "moves it.",
            exclude_if=is_none,
        ),
    ] = None
    unknown_direction: Annotated[
        UnknownDirection | None,
        Field(
            description="What an attacker who does not know the direction takes it for, where there are several steps; "
            "absent: common_to_all_steps.",
            exclude_if=is_none,
        ),
    ] = None
    epsilon_pmp: Annotated[
        Annotated[float, Field(ge=0, le=LARGEST_EPSILON), POSITIVE_ZERO] | None,
        Field(
            validation_alias=AliasChoices("epsilon_pmp", "pmp_epsilon"),
            description="Parameter epsilon of practical membership privacy that was computed for this release on its "
            "candidates (`/v1/pmp`); absent: that attacker is left out.",
            examples=[0.5],
            json_schema_extra={"x-unit": "nats"},
            exclude_if=is_none,
        ),
    ] = None
    delta_pmp: Annotated[
        Annotated[float, Field(ge=0, le=1), POSITIVE_ZERO] | None,
        Field(description="Parameter delta beside epsilon_pmp; absent: 0.", examples=[0.0], exclude_if=is_none),
    ] = None
    microbatch_size: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(description="Records whose gradients are averaged before clipping.", examples=[1], exclude_if=is_none),
    ] = None
    gradient_accumulation_steps: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(description="Backward passes between two updates of the model.", examples=[1], exclude_if=is_none),
    ] = None
    tuning_runs: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(
            description="Runs on the same data of which this is the best; 1: the settings came from elsewhere.",
            examples=[1],
            exclude_if=is_none,
        ),
    ] = None
    attested: Annotated[
        tuple[Attestation, ...], Field(max_length=LARGEST_ATTESTED, description="What is vouched for, and by whom.")
    ] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, sentence in self._contradictions():
            raise PydanticCustomError("contradiction", "{sentence}", {"sentence": sentence, "field": name})
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        if self.dataset_size is not None:
            if self.batch_size is not None and self.batch_size > self.dataset_size:
                yield "batch_size", "Must be at most dataset_size."
            if self.records is not None and self.records > self.dataset_size:
                yield "records", "Must be at most dataset_size."
        if self.privacy_unit in ONE_RECORD_UNITS and self.records is not None and self.records > 1:
            yield "records", f"A privacy_unit `{self.privacy_unit}` is one record: name the unit that has several."
        if self.delta_pmp is not None and self.epsilon_pmp is None:
            yield "delta_pmp", "Belongs to epsilon_pmp: send both, or neither."
        codes = [each.code for each in self.attested]
        if len(set(codes)) < len(codes):
            twice = next(code for code in codes if codes.count(code) > 1)
            yield "attested", f"`{twice}` is attested twice."


class AssessmentsRequest(Request):
    """A run, its context, and the policy it is held against."""

    mechanism: MechanismSpec
    # A default that is an object inside a union is beyond client generators: the document names none.
    threat_model: WorstCaseThreatModel = Field(default_factory=usual_worst_case)
    context: AssessmentContext
    policy: Annotated[Policy | None, Field(description="Limits to be kept.", exclude_if=is_none)] = None
    relative_tolerance: RelativeTolerance = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_tree(self.mechanism)
        context = self.context
        for node in nodes_of(self.mechanism):
            if isinstance(node, DpsgdMechanism | NoisySgdMechanism):
                for name in ("dataset_size", "batch_size"):
                    said, known = getattr(context, name), getattr(node, name)
                    if said is not None and known is not None and said != known:
                        raise refusal(f"/context/{name}", f"The mechanism says {known}: send one of the two, or equal.")
                if isinstance(node, NoisySgdMechanism) and context.dimension not in (None, node.dimension):
                    raise refusal("/context/dimension", f"The mechanism says {node.dimension}.")
        asked, told = self.threat_model.records, context.records
        if asked is not None and told is not None and asked != told:
            raise refusal("/context/records", f"The threat model says {asked}: send one of the two, or equal.")
        threat_model = settled(self.threat_model, self.mechanism)
        if told is not None and told > 1 and asked is None:
            threat_model = threat_model.model_copy(update={"records": told})
        vars(self)["threat_model"] = threat_model
        return self


class AssessedAssumption(Assumption):
    """An assumption, with what is attested about it."""

    by: Annotated[str | None, Field(description="Whose word it is.", exclude_if=is_none)] = None
    when: Annotated[str | None, Field(description="When it was given.", exclude_if=is_none)] = None
    if_not: Annotated[str, Field(description="What follows where it does not hold.")]


class Consequence(Response):
    """A number that a hazard has for a consequence."""

    text: Annotated[str, Field(description="What the number is of.")]
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    answer: Answer


class AssessedHazard(Response):
    """A way in which the run may be less private, or its numbers say less, than it looks; with what is known of it."""

    code: HazardCode
    text: Annotated[str, Field(description="The hazard in a sentence.")]
    status: Annotated[
        Literal["present", "possible"],
        component(
            "HazardStatus",
            "present: what was sent says so; possible: nothing that was sent excludes it.",
            examples=["possible"],
        ),
    ]
    remedy: Annotated[str, Field(description="What to send, or to do, about it.")]
    consequences: Annotated[tuple[Consequence, ...], Field(description="Numbers, where they are known.")] = ()


class AssessedThreatModel(Response):
    """What an attacker gains: the standard questions, in the order of the worst case."""

    threat_model: ThreatModelSpec
    summary: Annotated[str, Field(description="Who that is.")]
    conditional: Annotated[bool, Field(description="Relaxed: it may be quoted beside the worst case alone.")]
    answers: Answers
    assumptions: Annotated[
        tuple[AssessedAssumption, ...], Field(description="What these answers rest on, beside what all do.")
    ]


class NotApplicable(Response):
    """An attacker for whom nothing is said, and why."""

    threat_model: Annotated[str, Field(description="Its `type`.")]
    reason: Annotated[str, Field(description="What is missing: a theorem, or something in the request.")]


class GdpSummary(Response):
    """The whole curve in one number, and how much that number gives away."""

    mu: Annotated[EnclosedNumber, Field(description="Smallest mu whose Gaussian curve is nowhere above, in the range.")]
    smallest_rate: Annotated[float, Field(description="The range: rates of both errors from this one on.")]
    regret: Annotated[
        EnclosedNumber,
        Field(
            description="How far the Gaussian curve lies below that of the run: the most by which both error rates of "
            "an attack have to be raised for mu to say all about it. Small: mu may stand for the curve."
        ),
    ]
    evidence: Evidence
    source: Annotated[str, Field(description="The definitions behind both.")]


class OnePoint(Response):
    """One number of the curve, and what it would be if nothing but (epsilon, delta) were known."""

    epsilon: Annotated[float, Field(description="The certified epsilon at the delta of the context.")]
    false_positive_rate: Annotated[float, Field(description="Where the power of the best attack is compared.")]
    power: Annotated[Probability, Field(description="Of the run itself, at most.")]
    power_from_one_point: Annotated[
        Probability, Field(description="Of the worst mechanism with that epsilon and delta.")
    ]


class AssessmentsResponse(Result):
    """What to say about a run, what it rests on, and how it stands to a policy."""

    mechanism: MechanismSpec
    threat_model: Annotated[WorstCaseThreatModel, Field(description="The worst case, with the records of the context.")]
    context: AssessmentContext
    relative_tolerance: RelativeTolerance
    verdict: Annotated[PolicyVerdict | None, Field(description="That of the policy. null: none was sent.")]
    threat_models: Annotated[
        tuple[AssessedThreatModel, ...], Field(description="The worst case first, then every relaxed one that applies.")
    ]
    not_applicable: Annotated[tuple[NotApplicable, ...], Field(description="The others, and why.")]
    gdp: Annotated[
        GdpSummary | None,
        Field(
            description="null: the run has no finite mu over the range, no bound for it, or one that costs more than "
            "all other numbers: the question gdp_mu answers."
        ),
    ]
    one_point: Annotated[
        OnePoint | None,
        Field(description="What epsilon at delta alone would say; null: epsilon is infinite, or nothing is hidden."),
    ]
    statement: Annotated[str, Field(description="Plain text, in the order of the reporting checklist.")]
    hazards: Annotated[tuple[AssessedHazard, ...], Field(description="Present ones first.")]
    assumptions: Annotated[
        tuple[AssessedAssumption, ...], Field(description="What all answers rest on, and who vouches for it.")
    ]
    decision: Annotated[Decision | None, Field(description="How the run stands to the policy. null: none was sent.")]
