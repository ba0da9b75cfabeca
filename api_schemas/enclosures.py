"""What every answer is made of: numbers with their enclosures, and what stands behind them."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api_schemas.base import Log10, NonNegative, is_none

Value = Annotated[NonNegative, Field(description="The safe end of the enclosure; without one, the approximation.")]
Lower = Annotated[
    NonNegative | None, Field(description="The truth is at least this; null where the evidence is asymptotic.")
]
Upper = Annotated[
    NonNegative | None, Field(description="The truth is at most this; null where the evidence is asymptotic.")
]
Log10IfSmall = Annotated[
    Log10 | None,
    Field(exclude_if=is_none, description="Decimal logarithm; present when the truth is positive and below 1e-290."),
]
DecimalIfKnown = Annotated[
    str | None,
    Field(
        exclude_if=is_none, description="The same end with all its digits; present when they are more than a double's."
    ),
]


class EnclosedNumber(TypedDict):
    """lower <= truth <= upper; `value` is the end that is safe to rely on."""

    # A dictionary, not a model: a response may hold twenty thousand of these.
    value: Value
    lower: Lower
    upper: Upper
    value_log10: NotRequired[Log10]
    lower_log10: NotRequired[Log10]
    upper_log10: NotRequired[Log10]
    value_decimal: NotRequired[str]
    lower_decimal: NotRequired[str]
    upper_decimal: NotRequired[str]


Tight = Annotated[
    bool | None,
    Field(
        description="true: both ends rest on the same attained pair of laws, or closed form; false: they come from "
        "different theorems, however close they are, and a note names both; null: the ends are not proved "
        "(statistical), or there are none (asymptotic)."
    ),
]
Conditional = Annotated[bool, Field(description="The answer rests on a modelling assumption that is listed.")]
ToleranceMet = Annotated[bool, Field(description="There is an enclosure, and it is at most relative_tolerance wide.")]
Source = Annotated[str, Field(description="The theorem behind the answer.")]
