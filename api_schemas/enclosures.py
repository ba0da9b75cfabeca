"""Shared parts of all answers: numbers with their enclosures, and the evidence behind them."""

from __future__ import annotations

from typing import Annotated, Generic, NotRequired, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from api_schemas.base import Log10, NonNegative, Probability, Response, is_none
from api_schemas.choices import Evidence, LimitCode, MethodUsed

NumberT = TypeVar("NumberT")

VALUE = Field(
    description="The safe bound of the enclosure, which never states more privacy than there is. Without an "
    "enclosure, the value is the approximation.",
    examples=[0.0040684479],
)
LOWER = Field(description="Lower bound of the true value. null: the evidence is asymptotic.", examples=[0.0040684478])
UPPER = Field(description="Upper bound of the true value. null: the evidence is asymptotic.", examples=[0.0040684479])
LOGARITHM = Field(
    exclude_if=is_none,
    description="Decimal logarithm of this bound. The field is present when the true value is positive and "
    "below 1e-290.",
    examples=[-312.4],
)
DECIMAL = Field(
    exclude_if=is_none,
    description="This bound with all its digits. The field is present when a double cannot represent them.",
    examples=["1.82823666651655843207"],
)

Value = Annotated[NonNegative, VALUE]
Lower = Annotated[NonNegative | None, LOWER]
Upper = Annotated[NonNegative | None, UPPER]
Log10IfSmall = Annotated[Log10 | None, LOGARITHM]
DecimalIfKnown = Annotated[str | None, DECIMAL]


class EnclosedNumber(TypedDict):
    """Enclosure of a number: lower <= true value <= upper. `value` is the safe bound."""

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
    """Enclosure of a probability: lower <= true value <= upper. `value` is the safe bound."""

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
    """Bounds of a number: lower <= true value <= upper."""

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
        description="true: both bounds rest on one attained pair of distributions or on a closed form. false: "
        "the bounds come from different theorems, and a note names both. null: the bounds are not "
        "proved (statistical) or absent (asymptotic).",
        examples=[True],
    ),
]
Conditional = Annotated[
    bool,
    Field(
        description="Whether the answer holds only against an attacker weaker than the worst case, under the listed "
        "assumptions.",
        examples=[False],
    ),
]
ToleranceMet = Annotated[
    bool,
    Field(
        description="Whether an enclosure exists whose relative width is at most `relative_tolerance`.", examples=[True]
    ),
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
        description="Remarks that matter for the interpretation of this answer.",
        examples=[["contour: cumulant generating functions of the steps add up."]],
    ),
]


class AnswerLimit(Response):
    """Reason why the bounds of an answer are wider than the tolerance, with advice for narrower bounds."""

    code: LimitCode
    advice: Annotated[
        str,
        Field(
            description="Change of the request that gives a narrower enclosure, with its cost.",
            examples=[
                "No request makes this narrower. The lower and the upper bound come from two theorems, which a "
                "note names."
            ],
        ),
    ]


LimitIfWide = Annotated[
    AnswerLimit | None,
    Field(
        exclude_if=is_none,
        description="Reason why `tolerance_met` is false. The field is absent when `tolerance_met` is true.",
    ),
]


class EvidenceFields(Response):
    """Evidence behind an answer: why its bounds hold."""

    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    limit: LimitIfWide = None
    source: Source
    notes: Notes
