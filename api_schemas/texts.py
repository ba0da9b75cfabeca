"""Short texts that a client sends and the service repeats: names, days, addresses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

LARGEST_NAME: Final = 200
LARGEST_URI: Final = 2000
LATEST_ZONE: Final = timedelta(hours=14)
"""Offset from UTC of the time zone in which a day begins first."""
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Control characters, line breaks, and marks that turn the direction of the text after them."""


@final
@dataclass(frozen=True, slots=True)
class Written:
    """Metadata of a text in a request: its format in words, to follow "must be", unless its length describes it."""

    words: str


Name = Annotated[
    str, Field(min_length=1, max_length=LARGEST_NAME, pattern=rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$")
]
"""1 to 200 characters, at least one visible, no control characters, no marks that turn the direction of text."""


DAY: Final = "a day of the calendar, as YYYY-MM-DD"


def _check_day(text: str) -> str:
    """Return the text of a day unchanged. Raise PydanticCustomError for an invalid day.

    Invalid days are not in the calendar, or lie in the future in every time zone.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise PydanticCustomError("day", "{sentence}", {"sentence": f"Must be {DAY}."}) from None
    if day > (datetime.now(UTC) + LATEST_ZONE).date():
        sentence = "Must not be in the future in every time zone."
        raise PydanticCustomError("day", "{sentence}", {"sentence": sentence})
    return text


Day = Annotated[
    str,
    Field(min_length=10, max_length=10, pattern=r"^\d{4}-\d{2}-\d{2}$"),
    AfterValidator(_check_day),
    Written(DAY),
]
"""YYYY-MM-DD, not in the future in every time zone."""

Uri = Annotated[
    str,
    Field(min_length=3, max_length=LARGEST_URI, pattern=r"^[A-Za-z][A-Za-z0-9+.\-]*:[!#-;=?-\[\]_a-z~]+$"),
    Written(f"an absolute URI of at most {LARGEST_URI} ASCII characters, such as https://models.example.org/next-word"),
]
"""An absolute URI (RFC 3986): ASCII, without spaces, quotes or angle brackets. The service never opens it."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), Written("64 hexadecimal digits in lower case")]
"""64 lower-case hexadecimal digits."""
