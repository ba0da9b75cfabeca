"""Policies: what an organisation allows, as a document of limits, and the result of these limits for a run."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.answers import Answer
from api_schemas.assumptions_and_hazards import AssumptionCode
from api_schemas.base import EXAMPLE_DIGEST, NonNegative, Request, Response, field_error, is_none, named_schema
from api_schemas.targets import Limit, why_idle
from api_schemas.texts import Name

LARGEST_POLICY: Final = 64
LARGEST_REQUIRED: Final = 64
Severity = Annotated[
    Literal["error", "warning"],
    named_schema(
        "Severity",
        "error: a violation determines the verdict. warning: the answer reports a violation, but the "
        "verdict ignores it.",
        examples=["error"],
    ),
]
Ruled = Annotated[
    Literal["met", "violated", "undecided"],
    named_schema(
        "Ruled",
        "met: the less private bound of the enclosure keeps the limit. violated: the more private bound breaks "
        "the limit. undecided: the limit lies inside the enclosure, or there is no enclosure.",
        examples=["met"],
    ),
]


PolicyVerdict = Annotated[
    Literal["met", "met_if_attested", "violated", "undecided", "void"],
    named_schema(
        "PolicyVerdict",
        "void: an attestation refutes an assumption of all numbers, so no number is a bound. violated: a rule "
        "of severity error is violated. undecided: no rule is violated, and one rule is undecided. "
        "met_if_attested: every limit is kept, but a required attestation is missing. met: none of these. "
        "Later versions may add verdicts; treat unknown verdicts as not met.",
        examples=["met"],
    ),
]


class PolicyRule(Limit):
    """One limit of a policy.

    The default threat model is the worst case of the assessment. The service rejects limits that every run meets and
    limits that no run meets.
    """

    name: Annotated[
        Name | None,
        Field(description="Name of the rule.", examples=["Power at a false positive rate of 1 %"], exclude_if=is_none),
    ] = None
    severity: Severity = "error"

    @model_validator(mode="after")
    def _decides_something(self) -> Self:
        sentence = why_idle(self)
        if sentence is not None:
            raise field_error(self.field, sentence)
        return self


class RequiredAttestation(Request):
    """An assumption that has to be attested before a run meets the policy."""

    assumption: Annotated[
        AssumptionCode,
        Field(
            description="Code of the assumption. The requirement applies only to runs that rest on this assumption.",
        ),
    ]
    holds: Annotated[
        Literal["yes"],
        named_schema("RequiredHolds", "Required content of the attestation: the assumption holds.", examples=["yes"]),
    ] = "yes"


Required = Annotated[
    Annotated[tuple[RequiredAttestation, ...], Field(min_length=1, max_length=LARGEST_REQUIRED)]
    | Annotated[Literal["all"], named_schema("AllAssumptions", "Every assumption of the answers.", examples=["all"])],
    Field(description='Attestations that the policy requires: a list, or "all" for every assumption of the run.'),
]


class Policy(Request):
    """A document of limits for assessments."""

    name: Annotated[Name, Field(description="Name of the policy.", examples=["Model release gate"])]
    version: Annotated[int, Field(ge=1, le=1, description="Version of the policy format.", examples=[1])] = 1
    revision: Annotated[
        Name | None, Field(description="Revision of the policy.", examples=["2026-11"], exclude_if=is_none)
    ] = None
    requires: Annotated[
        Required | None,
        Field(
            description='Attestations that the policy requires: a list, or "all" for every assumption of the run.',
            examples=[[{"assumption": "sampling_is_poisson", "holds": "yes"}]],
            exclude_if=is_none,
        ),
    ] = None
    rules: Annotated[
        tuple[PolicyRule, ...],
        Field(
            min_length=1,
            max_length=LARGEST_POLICY,
            validation_alias=AliasChoices("rules", "limits"),
            description="Rules of the policy. A run must meet all of them.",
        ),
    ]

    @model_validator(mode="after")
    def _can_stop_a_run(self) -> Self:
        if all(rule.severity == "warning" for rule in self.rules):
            sentence = "Give at least one limit the severity error. With only warnings, no run can violate the policy."
            raise field_error("rules", sentence)
        return self

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if isinstance(self.requires, tuple):
            seen: set[str] = set()
            for index, each in enumerate(self.requires):
                if each.assumption in seen:
                    sentence = f"`{each.assumption}` is required twice. Name every assumption once."
                    place = {"sentence": sentence, "field": f"requires/{index}/assumption"}
                    raise PydanticCustomError("twice", "{sentence}", place)
                seen.add(each.assumption)
        return self


class Ruling(Response):
    """Result of one rule of a policy for a run."""

    rule: PolicyRule
    meaning: Annotated[
        str,
        Field(
            description="The rule in one sentence.",
            examples=["At a false positive rate of 0.1\u00a0%, at most 5\u00a0% of members are identified."],
        ),
    ]
    verdict: Ruled
    reason: Annotated[
        str | None,
        Field(
            exclude_if=is_none,
            description="Reason why no number decides the rule. The field is absent if the limit lies inside "
            "the enclosure.",
            examples=["A present hazard changes the run, and no bound is known for the changed run."],
        ),
    ] = None
    margin: Annotated[
        float | None,
        Field(
            description="Distance between the safe bound and the limit, relative to the limit (absolute for a "
            "limit of 0). A negative margin is a violation. null: the answer is infinite.",
            examples=[0.25],
        ),
    ]
    deciding_tolerance: Annotated[
        NonNegative | None,
        Field(
            exclude_if=is_none,
            description="A relative_tolerance that is likely to decide an undecided rule. The field is absent "
            "if the bounds come from two theorems or are not proved.",
            examples=[0.0001],
        ),
    ] = None
    answer: Annotated[Answer, Field(description="Answer behind the ruling.")]
    described: Annotated[
        Answer | None,
        Field(
            exclude_if=is_none,
            description="Answer for the described run, if hazards changed the judged run. A violation requires "
            "that the described run also breaks the limit.",
        ),
    ] = None


RequirementStatus = Annotated[
    Literal["attested", "stated", "missing", "refuted", "not_applicable"],
    named_schema(
        "RequirementStatus",
        "attested: an attestation confirms the assumption. stated: the description of the run confirms the "
        "assumption. missing: there is no attestation. refuted: an attestation denies the assumption. "
        "not_applicable: the run does not rest on the assumption.",
        examples=["attested"],
    ),
]


class Requirement(Response):
    """Status of an attestation that the policy requires."""

    assumption: AssumptionCode
    status: RequirementStatus
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


class Decision(Response):
    """Verdict of a policy, with identifiers for a log."""

    id: Annotated[
        str,
        Field(
            description="Identifier of the decision for `GET /v1/decisions/{id}`. The digest of the assessment "
            "serves as identifier, so equal requests have equal decisions.",
            examples=[EXAMPLE_DIGEST],
        ),
    ]
    policy: Annotated[
        str,
        Field(
            description="Digest of the policy: `sha256:` of its canonical form (RFC 8785).",
            examples=[EXAMPLE_DIGEST],
        ),
    ]
    name: Annotated[str, Field(description="Name of the policy.", examples=["Release policy"])]
    revision: Annotated[
        str | None, Field(description="Revision of the policy.", examples=["3"], exclude_if=is_none)
    ] = None
    verdict: PolicyVerdict
    sentence: Annotated[
        str,
        Field(
            description="The verdict in one sentence, with its assumptions. Display this sentence together with "
            "the verdict.",
            examples=["Every limit is kept if 3 unattested assumptions hold."],
        ),
    ]
    requires: Annotated[
        Required | None,
        Field(exclude_if=is_none, description="Attestations that the policy requires, from the request."),
    ] = None
    requirements: Annotated[
        tuple[Requirement, ...],
        Field(description="Status of every required attestation. The list is empty without requirements."),
    ]
    missing: Annotated[
        tuple[AssumptionCode, ...],
        Field(description="Required assumptions without an attestation."),
    ]
    rulings: Annotated[tuple[Ruling, ...], Field(description="One ruling for each rule, in their order.")]
