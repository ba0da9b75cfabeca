"""Short texts that a client writes and the service repeats: names, days, addresses."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

LARGEST_NAME: Final = 200
LARGEST_URI: Final = 2000
LATEST_ZONE: Final = timedelta(hours=14)
"""Offset from UTC of the time zone in which a day begins first."""
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

Name = Annotated[
    str, Field(min_length=1, max_length=LARGEST_NAME, pattern=rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$")
]
"""1 to 200 characters, at least one of them visible, no control characters."""


def _check_day(text: str) -> str:
    """Return the text. Raise PydanticCustomError for a day that is not in the calendar, or has begun nowhere yet."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise PydanticCustomError("day", "Must be a day of the calendar, as YYYY-MM-DD.") from None
    if day > (datetime.now(UTC) + LATEST_ZONE).date():
        raise PydanticCustomError("day", "Must not be in the future: this day has begun in no time zone yet.")
    return text


Day = Annotated[
    str,
    Field(min_length=10, max_length=10, pattern=r"^\d{4}-\d{2}-\d{2}$"),
    AfterValidator(_check_day),
]
"""YYYY-MM-DD, not in the future in every time zone."""

Uri = Annotated[
    str,
    Field(min_length=3, max_length=LARGEST_URI, pattern=r"^[A-Za-z][A-Za-z0-9+.\-]*:[!#-;=?-\[\]_a-z~]+$"),
]
"""An absolute URI (RFC 3986): ASCII, without spaces, quotes or angle brackets. The service never opens it."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hexadecimal digits."""
