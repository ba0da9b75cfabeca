"""Policies: what an organisation allows, as a document of limits, and how a run stands to it."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.answers import Answer
from api_schemas.assumptions_and_hazards import AssumptionCode
from api_schemas.base import NonNegative, Request, Response, field_error, is_none, named_schema
from api_schemas.targets import Limit, why_idle
from api_schemas.texts import Name

LARGEST_POLICY: Final = 64
LARGEST_REQUIRED: Final = 64
Severity = Annotated[
    Literal["error", "warning"],
    named_schema(
        "Severity", "warning: a violation is reported, and does not count for the verdict.", examples=["error"]
    ),
]
Ruled = Annotated[
    Literal["met", "violated", "undecided"],
    named_schema(
        "Ruled",
        "On the safe side: met, the certified end that is worse for the run keeps the limit; violated: the better end "
        "does not; undecided: the limit lies inside the enclosure, or there is no enclosure.",
        examples=["met"],
    ),
]


PolicyVerdict = Annotated[
    Literal["met", "met_if_attested", "violated", "undecided", "void"],
    named_schema(
        "PolicyVerdict",
        "void: somebody attests that an assumption behind all numbers does not hold, so that no number bounds "
        "anything; violated: a rule of severity error is; undecided: none is, and one is undecided; met_if_attested: "
        "every limit is kept, and an attestation that the policy requires is missing; else met. Later versions may add "
        "verdicts: treat one that you do not know as not met.",
        examples=["met"],
    ),
]


class PolicyRule(Limit):
    """One limit of a policy. `threat_model` absent: the worst case of the assessment.

    A limit that no run can break, or that no run can keep, is refused: it decides nothing.
    """

    name: Annotated[Name | None, Field(description="What people call the limit.", exclude_if=is_none)] = None
    severity: Severity = "error"

    @model_validator(mode="after")
    def _decides_something(self) -> Self:
        sentence = why_idle(self)
        if sentence is not None:
            raise field_error(self.field, sentence)
        return self


class RequiredAttestation(Request):
    """An assumption that somebody has to vouch for before a run meets the policy."""

    assumption: Annotated[
        AssumptionCode,
        Field(
            description="Which assumption. For a run that does not rest on it the requirement does not apply.",
        ),
    ]
    holds: Annotated[
        Literal["yes"], named_schema("RequiredHolds", "What has to be attested: that it holds.", examples=["yes"])
    ] = "yes"


Required = Annotated[
    Annotated[tuple[RequiredAttestation, ...], Field(min_length=1, max_length=LARGEST_REQUIRED)]
    | Annotated[
        Literal["all"], named_schema("AllAssumptions", "Every assumption that the numbers rest on.", examples=["all"])
    ],
    Field(description='Attestations that the policy requires: a list, or "all" for every assumption of the run.'),
]


class Policy(Request):
    """A document of limits, which an assessment is held against."""

    name: Annotated[Name, Field(description="What people call the policy.", examples=["Model release gate"])]
    version: Annotated[int, Field(ge=1, le=1, description="Of this format.", examples=[1])] = 1
    revision: Annotated[
        Name | None, Field(description="Which edition of the policy this is.", examples=["2026-11"], exclude_if=is_none)
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
            description="All have to be met.",
        ),
    ]

    @model_validator(mode="after")
    def _can_stop_a_run(self) -> Self:
        if all(rule.severity == "warning" for rule in self.rules):
            sentence = "Every limit only warns, so that no run can break the policy. Give one limit the severity error."
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
    """How a run stands to one rule."""

    rule: PolicyRule
    meaning: Annotated[
        str,
        Field(
            description="The rule as a sentence.",
            examples=["At a false positive rate of 0.1\u00a0%, at most 5\u00a0% of members are identified."],
        ),
    ]
    verdict: Ruled
    reason: Annotated[
        str | None,
        Field(
            exclude_if=is_none,
            description="undecided: why no number decides it; absent where the limit lies inside the enclosure.",
        ),
    ] = None
    margin: Annotated[
        float | None,
        Field(
            description="How far the safe end of the answer is inside the limit, relative to the limit (absolute where "
            "that is 0); negative: outside. null: the answer is infinite.",
            examples=[0.25],
        ),
    ]
    deciding_tolerance: Annotated[
        NonNegative | None,
        Field(
            exclude_if=is_none,
            description="undecided: a relative_tolerance that decides, unless the truth is nearer to the limit than "
            "the middle of this enclosure; absent where none can: the ends come from two theorems, or are not proved.",
        ),
    ] = None
    answer: Annotated[Answer, Field(description="The answer that the limit is held against.")]
    described: Annotated[
        Answer | None,
        Field(
            exclude_if=is_none,
            description="Where hazards changed the run that is judged: the answer for the run as it was described. The "
            "limit is broken for certain only where this one breaks it, too.",
        ),
    ] = None


RequirementStatus = Annotated[
    Literal["attested", "stated", "missing", "refuted", "not_applicable"],
    named_schema(
        "RequirementStatus",
        "attested: somebody vouches for it; stated: the description of the run says so itself; missing: nobody says "
        "anything; refuted: somebody attests that it does not hold; not_applicable: this run does not rest on it.",
        examples=["attested"],
    ),
]


class Requirement(Response):
    """How an attestation that the policy requires stands."""

    assumption: AssumptionCode
    status: RequirementStatus
    by: Annotated[str | None, Field(description="Whose word it is.", exclude_if=is_none)] = None
    when: Annotated[str | None, Field(description="When it was given.", exclude_if=is_none)] = None


class Decision(Response):
    """The verdict of a policy, with what identifies it in a log."""

    id: Annotated[
        str,
        Field(
            description="Names the decision; see GET /v1/decisions/{id}. The digest of the assessment: run, context, "
            "policy and engine version determine it, and the same again has the same id."
        ),
    ]
    policy: Annotated[str, Field(description="Digest of the policy: `sha256:` of its canonical form (RFC 8785).")]
    name: Annotated[str, Field(description="Name of the policy.")]
    revision: Annotated[str | None, Field(description="Its edition.", exclude_if=is_none)] = None
    verdict: PolicyVerdict
    sentence: Annotated[
        str,
        Field(
            description="The verdict in a sentence, with what it rests on. Show it wherever the verdict is shown.",
            examples=["Every limit is kept if 3 assumptions hold that nobody vouches for."],
        ),
    ]
    requires: Annotated[
        Required | None, Field(exclude_if=is_none, description="What the policy requires, as it was sent.")
    ] = None
    requirements: Annotated[
        tuple[Requirement, ...],
        Field(description="How every attestation stands that the policy requires; empty: it requires none."),
    ]
    missing: Annotated[
        tuple[AssumptionCode, ...],
        Field(description="The required assumptions that nobody vouches for."),
    ]
    rulings: Annotated[tuple[Ruling, ...], Field(description="One for each rule, in their order.")]
