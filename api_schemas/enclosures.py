"""Shared parts of all answers: numbers with their enclosures, and the evidence behind them."""

from __future__ import annotations

from typing import Annotated, Generic, NotRequired, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from api_schemas.base import Log10, NonNegative, Probability, Response, is_none
from api_schemas.choices import Evidence, LimitCode, MethodUsed

NumberT = TypeVar("NumberT")

VALUE = Field(
    description="The safe bound of the enclosure. Without an enclosure, the approximation.", examples=[0.0040684479]
)
LOWER = Field(
    description="The truth is at least this number. null where the evidence is asymptotic.", examples=[0.0040684478]
)
UPPER = Field(
    description="The truth is at most this number. null where the evidence is asymptotic.", examples=[0.0040684479]
)
LOGARITHM = Field(
    exclude_if=is_none,
    description="Decimal logarithm of this bound. Present when the truth is positive and below 1e-290.",
    examples=[-312.4],
)
DECIMAL = Field(
    exclude_if=is_none,
    description="This bound with all its digits. Present when a double cannot hold them.",
    examples=["1.82823666651655843207"],
)

Value = Annotated[NonNegative, VALUE]
Lower = Annotated[NonNegative | None, LOWER]
Upper = Annotated[NonNegative | None, UPPER]
Log10IfSmall = Annotated[Log10 | None, LOGARITHM]
DecimalIfKnown = Annotated[str | None, DECIMAL]


class EnclosedNumber(TypedDict):
    """lower <= truth <= upper; `value` is the safe bound."""

    # A dictionary, not a model: a response may hold twenty thousand of these.
    value: Value
    lower: Lower
    upper: Upper
    value_log10: NotRequired[Annotated[Log10, LOGARITHM]]
    lower_log10: NotRequired[Annotated[Log10, LOGARITHM]]
    upper_log10: NotRequired[Annotated[Log10, LOGARITHM]]
    value_decimal: NotRequired[Annotated[str, DECIMAL]]
    lower_decimal: NotRequired[Annotated[str, DECIMAL]]
    upper_decimal: NotRequired[Annotated[str, DECIMAL]]


class EnclosedProbability(TypedDict):
    """lower <= truth <= upper for a probability; `value` is the end that is safe to rely on."""

    value: Annotated[Probability, VALUE]
    lower: Annotated[Probability | None, LOWER]
    upper: Annotated[Probability | None, UPPER]
    value_log10: NotRequired[Annotated[Log10, LOGARITHM]]
    lower_log10: NotRequired[Annotated[Log10, LOGARITHM]]
    upper_log10: NotRequired[Annotated[Log10, LOGARITHM]]
    value_decimal: NotRequired[Annotated[str, DECIMAL]]
    lower_decimal: NotRequired[Annotated[str, DECIMAL]]
    upper_decimal: NotRequired[Annotated[str, DECIMAL]]


class Ends(Response, Generic[NumberT]):
    """Bounds of a number: lower <= truth <= upper."""

    value: Annotated[NumberT, VALUE]
    lower: Annotated[NumberT | None, LOWER]
    upper: Annotated[NumberT | None, UPPER]


class Enclosed(Ends[NumberT], Generic[NumberT]):
    """Bounds of a number, with logarithms for values outside the range of doubles."""

    value_log10: Log10IfSmall = None
    lower_log10: Log10IfSmall = None
    upper_log10: Log10IfSmall = None
    value_decimal: DecimalIfKnown = None
    lower_decimal: DecimalIfKnown = None
    upper_decimal: DecimalIfKnown = None


Tight = Annotated[
    bool | None,
    Field(
        description="true: both bounds rest on one attained pair of laws, or on a closed form. false: they come from "
        "different theorems, however close they are, and a note names both. null: the bounds are not proved "
        "(statistical), or there are none (asymptotic).",
        examples=[True],
    ),
]
Conditional = Annotated[
    bool, Field(description="Whether the answer rests on a listed modelling assumption.", examples=[False])
]
ToleranceMet = Annotated[
    bool,
    Field(description="Whether there is an enclosure that is at most `relative_tolerance` wide.", examples=[True]),
]
Source = Annotated[
    str,
    Field(
        description="The theorem behind the answer.",
        examples=["Kaissis et al. 2023 (ReRo), Theorem 1: gamma(kappa) = 1 - f(kappa)"],
    ),
]
Notes = Annotated[
    tuple[str, ...],
    Field(
        description="Sentences that a reader should know about this answer.",
        examples=[["contour: cumulant generating functions of the steps add up."]],
    ),
]


class AnswerLimit(Response):
    """Why the enclosure is wider than the tolerance, and what to send instead."""

    code: LimitCode
    advice: Annotated[
        str,
        Field(
            description="What to send for a narrower enclosure, and what it costs.",
            examples=["No request makes this narrower: the ends come from two theorems, which a note names."],
        ),
    ]


LimitIfWide = Annotated[
    AnswerLimit | None, Field(exclude_if=is_none, description="Why tolerance_met is false; absent where it is true.")
]


class EvidenceFields(Response):
    """Evidence behind an answer."""

    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    limit: LimitIfWide = None
    source: Source
    notes: Notes
