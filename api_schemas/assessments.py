"""`POST /v1/assessments`: a run, what is known about it, and what to say and to decide about it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from api_schemas.answers import Answer
from api_schemas.assessment_context import AssessmentContext
from api_schemas.assumptions_and_hazards import Assumption, HazardCode
from api_schemas.base import Probability, Request, Response, Result, is_none, named_schema
from api_schemas.bounds import Answers
from api_schemas.choices import Evidence
from api_schemas.enclosures import EnclosedNumber
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import DpsgdMechanism, MechanismSpec, NoisySgdMechanism, nodes_of
from api_schemas.policies import Decision, Policy, PolicyVerdict
from api_schemas.scalar_types import DEFAULT_TOLERANCE, RelativeTolerance
from api_schemas.threat_models import (
    GlrtThreatModel,
    PracticalThreatModel,
    ThreatModelSpec,
    WorstCaseThreatModel,
    settled,
    usual_worst_case,
)


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
        self._check_sizes()
        asked, told = self.threat_model.records, self.context.records
        if asked is not None and told is not None and asked != told:
            raise limit_error("/context/records", f"The threat model says {asked}: send one of the two, or equal.")
        threat_model = settled(self.threat_model, self.mechanism)
        if told is not None and told > 1 and asked is None:
            threat_model = threat_model.model_copy(update={"records": told})
        self._settle(threat_model=threat_model)
        if self.policy is not None:
            self._check_attackers(self.policy)
            self._settle(policy=self._settled_policy(self.policy))
        return self

    def _check_attackers(self, policy: Policy) -> None:
        """Raise PydanticCustomError where a rule describes an attacker otherwise than the context does."""
        context = self.context
        for index, rule in enumerate(policy.rules):
            match rule.threat_model:
                case GlrtThreatModel(dimension=said):
                    name, known = "dimension", context.dimension
                case PracticalThreatModel(epsilon_pmp=said):
                    name, known = "epsilon_pmp", context.epsilon_pmp
                case _:
                    continue
            if known is not None and said != known:
                place = f"/policy/rules/{index}/threat_model/{name}"
                raise limit_error(place, f"The context says {known}: send the same, or leave it out there.")

    def _settled_policy(self, policy: Policy) -> Policy:
        """Return the policy whose attackers have the neighbouring relation of the run where they name none."""
        rules = tuple(
            rule
            if rule.threat_model is None
            else rule.model_copy(update={"threat_model": settled(rule.threat_model, self.mechanism)})
            for rule in policy.rules
        )
        return policy.model_copy(update={"rules": rules})

    def _check_sizes(self) -> None:
        """Raise PydanticCustomError where the context contradicts the mechanism."""
        context = self.context
        for node in nodes_of(self.mechanism):
            if not isinstance(node, DpsgdMechanism | NoisySgdMechanism):
                continue
            for name in ("dataset_size", "batch_size"):
                said, known = getattr(context, name), getattr(node, name)
                if said is not None and known is not None and said != known:
                    raise limit_error(f"/context/{name}", f"The mechanism says {known}: send one of the two, or equal.")
            if isinstance(node, NoisySgdMechanism) and context.dimension not in (None, node.dimension):
                raise limit_error("/context/dimension", f"The mechanism says {node.dimension}.")
            size = node.dataset_size
            for name in ("batch_size", "records"):
                said = getattr(context, name)
                if size is not None and said is not None and said > size:
                    raise limit_error(f"/context/{name}", f"Must be at most the dataset_size of the mechanism, {size}.")


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


HazardEffect = Annotated[
    Literal["none", "numbers_changed", "limits_undecided", "no_bound"],
    named_schema(
        "HazardEffect",
        "What a hazard does to numbers and verdict. none: nothing, `effect_text` says why. numbers_changed: every "
        "number and limit is of the run as the hazard leaves it, see `judged_as`. limits_undecided: the numbers hold, "
        "and decide no limit that the hazard is about. no_bound: no number is known to bound anything, and no limit is "
        "decided. A possible hazard has the effect none: nothing that was sent says that it is there.",
        examples=["numbers_changed"],
    ),
]


class AssessedHazard(Response):
    """A way in which the run may be less private, or its numbers say less, than it looks; with what is known of it."""

    code: HazardCode
    title: Annotated[str, Field(description="The hazard in a short sentence, for people.")]
    text: Annotated[str, Field(description="The hazard in a sentence.")]
    status: Annotated[
        Literal["present", "possible"],
        named_schema(
            "HazardStatus",
            "present: what was sent says so; possible: nothing that was sent excludes it.",
            examples=["possible"],
        ),
    ]
    effect: HazardEffect
    effect_text: Annotated[
        str, Field(description="What the hazard does to numbers and verdict, or why it does nothing.")
    ]
    remedy: Annotated[str, Field(description="What to send, or to do, about it.")]
    consequences: Annotated[tuple[Consequence, ...], Field(description="Numbers, where they are known.")] = ()


class AssessedThreatModel(Response):
    """Answers to the standard questions about one attacker, in the order of the worst case."""

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


class JudgedRun(Response):
    """The run that all numbers are of, where hazards that are present make it another one than was described."""

    mechanism: MechanismSpec
    threat_model: WorstCaseThreatModel
    hazards: Annotated[tuple[HazardCode, ...], Field(description="The hazards that changed it, in this order.")]
    text: Annotated[str, Field(description="What was changed, in a sentence.")]


class RunSummary(Response):
    """Texts to copy. Where nothing is proved about the run they contain no bound."""

    title: Annotated[
        str,
        Field(
            description="The run in words.",
            examples=["DP-SGD, noise 1.1, batches of 256 of 60\u00a0000, 15 epochs"],
        ),
    ]
    bounded: Annotated[
        bool,
        Field(
            description="Whether any number is known to bound anything. false: an assumption is attested not to hold, "
            "or a hazard with the effect no_bound is present; the texts then contain no bound."
        ),
    ]
    sentence: Annotated[str, Field(description="The result in one sentence. Numbers are rounded to the safe side.")]
    paragraph: Annotated[str, Field(description="The result in one paragraph of at most 120 words.")]


class AssessmentsResponse(Result):
    """Assessment of a run: answers, assumptions, hazards, statement, and the verdict of a policy."""

    mechanism: MechanismSpec
    threat_model: Annotated[WorstCaseThreatModel, Field(description="The worst case, with the records of the context.")]
    context: AssessmentContext
    relative_tolerance: RelativeTolerance
    judged_as: Annotated[
        JudgedRun | None,
        Field(
            description="The run that all numbers are of, where hazards that are present changed it; null: all numbers "
            "are of the run as it was described."
        ),
    ]
    summary: RunSummary
    verdict: Annotated[PolicyVerdict | None, Field(description="That of the policy. null: none was sent.")]
    threat_models: Annotated[
        tuple[AssessedThreatModel, ...], Field(description="The worst case first, then every relaxed one that applies.")
    ]
    not_applicable: Annotated[tuple[NotApplicable, ...], Field(description="The others, and why.")]
    gdp: Annotated[
        GdpSummary | None,
        Field(
            description="null: the run has no finite mu over the range, no bound for it, perhaps no point in the "
            "range, or one that costs more than all other numbers: the question gdp_mu answers."
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

    @property
    def judged_mechanism(self) -> MechanismSpec:
        """The mechanism that all numbers are of."""
        return self.mechanism if self.judged_as is None else self.judged_as.mechanism

    @property
    def judged_threat_model(self) -> WorstCaseThreatModel:
        """The worst case that all numbers are of."""
        return self.threat_model if self.judged_as is None else self.judged_as.threat_model
