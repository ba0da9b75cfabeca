"""Assessments, `POST /v1/assessments`: a run, facts about it, and what the service states and decides about it."""

from __future__ import annotations

from collections.abc import Iterator
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
    """A run, its context and the policy that the service applies."""

    mechanism: MechanismSpec
    # A default that is an object inside a union is beyond client generators: the document names none.
    threat_model: WorstCaseThreatModel = Field(default_factory=usual_worst_case)
    context: AssessmentContext
    policy: Annotated[Policy | None, Field(description="Limits that the run must keep.", exclude_if=is_none)] = None
    relative_tolerance: RelativeTolerance = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_tree(self.mechanism)
        self._check_sizes()
        sent, stated = self.threat_model.records, self.context.records
        if sent is not None and stated is not None and sent != stated:
            raise limit_error(
                "/context/records",
                f"The threat model has {sent} records. Send only one of the two numbers, or equal numbers.",
            )
        threat_model = settled(self.threat_model, self.mechanism)
        if stated is not None and stated > 1 and sent is None:
            threat_model = threat_model.model_copy(update={"records": stated})
        self._settle(threat_model=threat_model)
        if self.policy is not None:
            self._check_attackers(self.policy)
            self._settle(policy=self._settled_policy(self.policy))
        return self

    def _check_attackers(self, policy: Policy) -> None:
        """Raise PydanticCustomError if a policy rule describes an attacker differently from the context."""
        for index, rule in enumerate(policy.rules):
            for name, sent, described, known in self._described_twice(rule.threat_model):
                if known is not None and sent != known:
                    place = f"/policy/rules/{index}/threat_model/{name}"
                    raise limit_error(
                        place, f"The context has {described} {known}. Send the same value in both places."
                    )

    def _described_twice(self, attacker: ThreatModelSpec | None) -> Iterator[tuple[str, float, str, float | None]]:
        """Yield the fields of an attacker that the context has, too: name and value here, name and value there.

        The value of the context is None if it states none.
        """
        context = self.context
        match attacker:
            case GlrtThreatModel(dimension=sent):
                yield "dimension", sent, "dimension", context.dimension
            case PracticalThreatModel(epsilon_pmp=sent, delta=sent_delta):
                yield "epsilon_pmp", sent, "epsilon_pmp", context.epsilon_pmp
                known = None if context.epsilon_pmp is None else context.delta_pmp or 0.0
                yield "delta", sent_delta, "delta_pmp", known
            case _:
                return

    def _settled_policy(self, policy: Policy) -> Policy:
        """Return the policy with complete attackers: a missing neighbouring relation becomes that of the run."""
        rules = tuple(
            rule
            if rule.threat_model is None
            else rule.model_copy(update={"threat_model": settled(rule.threat_model, self.mechanism)})
            for rule in policy.rules
        )
        return policy.model_copy(update={"rules": rules})

    def _check_sizes(self) -> None:
        """Raise PydanticCustomError if the context contradicts the sizes of the mechanism."""
        context = self.context
        for node in nodes_of(self.mechanism):
            if not isinstance(node, DpsgdMechanism | NoisySgdMechanism):
                continue
            for name in ("dataset_size", "batch_size"):
                stated, known = getattr(context, name), getattr(node, name)
                if stated is not None and known is not None and stated != known:
                    raise limit_error(
                        f"/context/{name}",
                        f"The mechanism has {name} {known}. Send only one of the two numbers, or equal numbers.",
                    )
            if isinstance(node, NoisySgdMechanism) and context.dimension not in (None, node.dimension):
                raise limit_error(
                    "/context/dimension", f"Must be equal to the dimension of the mechanism, {node.dimension}."
                )
            size = node.dataset_size
            for name in ("batch_size", "records"):
                stated = getattr(context, name)
                if size is not None and stated is not None and stated > size:
                    raise limit_error(f"/context/{name}", f"Must be at most the dataset_size of the mechanism, {size}.")


class AssessedAssumption(Assumption):
    """An assumption behind the numbers, with the attestation of the request."""

    by: Annotated[
        str | None,
        Field(
            description="Person or organisation who attests the assumption.",
            examples=["J. Doe, data protection officer"],
            exclude_if=is_none,
        ),
    ] = None
    when: Annotated[
        str | None,
        Field(description="Day of the attestation, as YYYY-MM-DD.", examples=["2026-11-23"], exclude_if=is_none),
    ] = None
    if_not: Annotated[
        str,
        Field(
            description="Consequence for the answers if the assumption does not hold.",
            examples=["The mechanism may be less private than every number says."],
        ),
    ]


class Consequence(Response):
    """A number that quantifies the effect of a hazard."""

    text: Annotated[
        str, Field(description="Meaning of the number.", examples=["Epsilon with half the noise multiplier"])
    ]
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    answer: Answer


HazardEffect = Annotated[
    Literal["none", "numbers_changed", "limits_undecided", "no_bound"],
    named_schema(
        "HazardEffect",
        "Effect of a hazard on numbers and verdict. none: no effect, and `effect_text` gives the reason. "
        "numbers_changed: every number belongs to the run with the hazard, see `judged_as`. limits_undecided: "
        "the numbers hold, but decide no limit that the hazard concerns. no_bound: no number is a bound, and no "
        "limit is decided. A possible hazard has the effect none.",
        examples=["numbers_changed"],
    ),
]


class AssessedHazard(Response):
    """A known reason why the run may be less private than its parameters suggest, with its status and effect."""

    code: HazardCode
    title: Annotated[
        str, Field(description="The hazard in a short sentence.", examples=["The sampler is not recorded"])
    ]
    text: Annotated[
        str,
        Field(
            description="The hazard in one sentence.", examples=["The request does not record how batches were drawn."]
        ),
    ]
    status: Annotated[
        Literal["present", "possible"],
        named_schema(
            "HazardStatus",
            "present: the request confirms the hazard. possible: the request does not exclude the hazard.",
            examples=["possible"],
        ),
    ]
    effect: HazardEffect
    effect_text: Annotated[
        str,
        Field(
            description="Effect of the hazard on numbers and verdict, or the reason why there is none.",
            examples=["The numbers hold only for Poisson sampling."],
        ),
    ]
    remedy: Annotated[
        str,
        Field(
            description="Recommended action against the hazard.", examples=["Record the sampler of the training code."]
        ),
    ]
    consequences: Annotated[
        tuple[Consequence, ...], Field(description="Numbers that quantify the hazard, if known.")
    ] = ()


class AssessedThreatModel(Response):
    """Answers to the standard questions about one attacker, in the order of those about the worst case."""

    threat_model: ThreatModelSpec
    summary: Annotated[
        str,
        Field(
            description="Description of the attacker in one sentence.",
            examples=["An adversary who knows all records but one"],
        ),
    ]
    conditional: Annotated[
        bool,
        Field(
            description="Whether the attacker is weaker than the worst case. Answers against a weaker attacker may "
            "be quoted only together with the worst case."
        ),
    ]
    answers: Answers
    assumptions: Annotated[
        tuple[AssessedAssumption, ...],
        Field(description="Assumptions of these answers, in addition to the assumptions of all answers."),
    ]


class NotApplicable(Response):
    """A threat model without a result, and the reason."""

    threat_model: Annotated[str, Field(description="Type of the threat model.", examples=["membership"])]
    reason: Annotated[
        str,
        Field(
            description="Missing theorem, or missing field of the request.",
            examples=["The threat model applies only to noisy_sgd."],
        ),
    ]


class GdpSummary(Response):
    """Approximation of the whole trade-off curve by one mu-GDP curve, with the loss of the approximation."""

    mu: Annotated[
        EnclosedNumber,
        Field(description="Smallest mu whose Gaussian curve is nowhere above the true curve in the range."),
    ]
    smallest_rate: Annotated[
        float, Field(description="Smallest value of both error rates in the range.", examples=[1e-06])
    ]
    regret: Annotated[
        EnclosedNumber,
        Field(
            description="How far the Gaussian curve lies below the curve of the run: both error rates on the Gaussian "
            "curve have to rise by at most this much to reach it. A small value means that mu may replace the curve."
        ),
    ]
    evidence: Evidence
    source: Annotated[
        str, Field(description="Sources of both definitions.", examples=["Dong, Roth and Su 2022, Definition 2.6"])
    ]


class OnePoint(Response):
    """Power of an attack on the run, and the weaker bound that follows from one (epsilon, delta) alone."""

    epsilon: Annotated[
        float, Field(description="Certified epsilon, in nats, at the delta of the context.", examples=[1.82])
    ]
    false_positive_rate: Annotated[
        float, Field(description="False positive rate of the compared powers.", examples=[0.01])
    ]
    power: Annotated[Probability, Field(description="Upper bound of the power against the run.", examples=[0.031])]
    power_from_one_point: Annotated[
        Probability,
        Field(description="Power against the worst mechanism with the same epsilon and delta.", examples=[0.062]),
    ]


class JudgedRun(Response):
    """Run behind all numbers of an assessment: the described run after the changes by present hazards."""

    mechanism: MechanismSpec
    threat_model: WorstCaseThreatModel
    hazards: Annotated[
        tuple[HazardCode, ...], Field(description="Hazards that changed the run, in the order of the changes.")
    ]
    text: Annotated[
        str, Field(description="Changes of the run in one sentence.", examples=["The noise multiplier is halved."])
    ]


class RunSummary(Response):
    """Texts about a run for reports. The texts contain no bound if nothing is proved about the run."""

    title: Annotated[
        str,
        Field(
            description="Description of the run in words.",
            examples=["DP-SGD, noise 1.1, batches of 256 of 60\u00a0000, 15 epochs"],
        ),
    ]
    bounded: Annotated[
        bool,
        Field(
            description="Whether any number of the assessment is a bound. false: an attestation denies an "
            "assumption, or a hazard has the effect no_bound."
        ),
    ]
    sentence: Annotated[
        str,
        Field(
            description="Result in one sentence, with numbers rounded to the safe side.",
            examples=["No attacker with a false positive rate of 1 % detects more than 4 % of the members."],
        ),
    ]
    paragraph: Annotated[
        str,
        Field(
            description="Result in one paragraph of at most 120 words.",
            examples=[
                "The run is DP-SGD with 1000 steps. At a false positive rate of 1 %, attacks detect at most 4 %."
            ],
        ),
    ]


class AssessmentsResponse(Result):
    """Assessment of a run: answers, assumptions, hazards, statement, and the verdict of a policy."""

    mechanism: MechanismSpec
    threat_model: Annotated[
        WorstCaseThreatModel, Field(description="The worst case, with the number of records from the context.")
    ]
    context: AssessmentContext
    relative_tolerance: RelativeTolerance
    judged_as: Annotated[
        JudgedRun | None,
        Field(
            description="The run behind all numbers, if hazards changed the described run. null: all numbers "
            "belong to the described run."
        ),
    ]
    summary: RunSummary
    verdict: Annotated[
        PolicyVerdict | None, Field(description="Verdict of the policy. null: the request has no policy.")
    ]
    threat_models: Annotated[
        tuple[AssessedThreatModel, ...],
        Field(description="The worst case first, then every weaker threat model that applies."),
    ]
    not_applicable: Annotated[
        tuple[NotApplicable, ...], Field(description="Threat models that do not apply, with reasons.")
    ]
    gdp: Annotated[
        GdpSummary | None,
        Field(
            description="Summary of the curve by one Gaussian parameter. null: no finite or affordable mu "
            "exists over the range. The question gdp_mu answers in more detail."
        ),
    ]
    one_point: Annotated[
        OnePoint | None,
        Field(
            description="Comparison of the curve with one pair (epsilon, delta). null: epsilon or the power has no "
            "upper bound, epsilon exceeds 1e6, or the mechanism itself is stated by its epsilon and delta."
        ),
    ]
    statement: Annotated[
        str,
        Field(
            description="Plain text, in the order of the reporting checklist.",
            examples=["Training by DP-SGD with 1000 steps; one record is protected."],
        ),
    ]
    hazards: Annotated[
        tuple[AssessedHazard, ...],
        Field(description="Hazards of the run. Present hazards come before possible hazards."),
    ]
    assumptions: Annotated[
        tuple[AssessedAssumption, ...], Field(description="Assumptions of all answers, with their attestations.")
    ]
    decision: Annotated[
        Decision | None, Field(description="Decision of the policy about the run. null: the request has no policy.")
    ]

    @property
    def judged_mechanism(self) -> MechanismSpec:
        """The mechanism to which all numbers belong, after the changes by hazards."""
        return self.mechanism if self.judged_as is None else self.judged_as.mechanism

    @property
    def judged_threat_model(self) -> WorstCaseThreatModel:
        """The worst-case attacker to which all numbers belong."""
        return self.threat_model if self.judged_as is None else self.judged_as.threat_model
