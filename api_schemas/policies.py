"""Policies: what an organisation allows, as a document of limits, and how a run stands to it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AliasChoices, Field

from api_schemas.answers import Answer
from api_schemas.base import NonNegative, Request, Response, component, is_none
from api_schemas.targets import Limit

LARGEST_POLICY: Final = 64
LARGEST_NAME: Final = 200

Name = Annotated[str, Field(min_length=1, max_length=LARGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Severity = Annotated[
    Literal["error", "warning"],
    component("Severity", "warning: a violation is reported, and does not count for the verdict.", examples=["error"]),
]
Ruled = Annotated[
    Literal["met", "violated", "undecided"],
    component(
        "Ruled",
        "On the safe side: met, the certified end that is worse for the run keeps the limit; violated: the better end "
        "does not; undecided: the limit lies inside the enclosure, or there is no enclosure.",
        examples=["met"],
    ),
]


PolicyVerdict = Annotated[
    Literal["met", "violated", "undecided", "void"],
    component(
        "PolicyVerdict",
        "violated: a rule of severity error is; undecided: none is, and one is undecided; void: something that the "
        "numbers rest on is attested not to hold, so that no number says anything; else met.",
        examples=["met"],
    ),
]


class PolicyRule(Limit):
    """One limit of a policy. `threat_model` absent: the worst case of the assessment."""

    name: Annotated[Name | None, Field(description="What people call the limit.", exclude_if=is_none)] = None
    severity: Severity = "error"


class Policy(Request):
    """A document of limits, which an assessment is held against."""

    name: Annotated[Name, Field(description="What people call the policy.", examples=["Model release gate"])]
    version: Annotated[int, Field(ge=1, le=1, description="Of this format.", examples=[1])] = 1
    revision: Annotated[
        Name | None, Field(description="Which edition of the policy this is.", examples=["2026-11"], exclude_if=is_none)
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


class Ruling(Response):
    """How a run stands to one rule."""

    rule: PolicyRule
    verdict: Ruled
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
    answer: Answer


class Decision(Response):
    """The verdict of a policy, with what identifies it in a log."""

    id: Annotated[str, Field(description="`sha256:` of run, context and policy: the same again for the same.")]
    policy: Annotated[str, Field(description="Digest of the policy: `sha256:` of its canonical form (RFC 8785).")]
    name: Annotated[str, Field(description="Name of the policy.")]
    revision: Annotated[str | None, Field(description="Its edition.", exclude_if=is_none)] = None
    verdict: PolicyVerdict
    rulings: Annotated[tuple[Ruling, ...], Field(description="One for each rule, in their order.")]
