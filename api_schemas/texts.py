"""Short texts that a client writes and the service repeats: names, days, addresses."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

LARGEST_NAME: Final = 200
LARGEST_URI: Final = 2000
LATEST_ZONE: Final = timedelta(hours=14)
"""Offset from UTC of the time zone in which a day begins first."""
DAY: Final = r"\d{4}-\d{2}-\d{2}"
URI: Final = r"[A-Za-z][A-Za-z0-9+.\-]*:[!#-;=?-\[\]_a-z~]+"
SHA256: Final = r"[0-9a-f]{64}"
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

Name = Annotated[
    str, Field(min_length=1, max_length=LARGEST_NAME, pattern=rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$")
]
"""1 to 200 characters, at least one of them visible, no control characters."""


def _refusal(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("text", "{sentence}", {"sentence": sentence})


def _check_day(text: str) -> str:
    """Return the text. Raise PydanticCustomError for a day that is not in the calendar, or has begun nowhere yet."""
    try:
        day = date.fromisoformat(text) if re.fullmatch(DAY, text) else None
    except ValueError:
        day = None
    if day is None:
        raise _refusal("Must be a day of the calendar, as YYYY-MM-DD.")
    if day > (datetime.now(UTC) + LATEST_ZONE).date():
        raise _refusal("Must not be in the future: this day has begun in no time zone yet.")
    return text


def _matching(pattern: str, sentence: str) -> AfterValidator:
    """Return a check that raises PydanticCustomError with the sentence for a text that the pattern does not match."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise _refusal(sentence)
        return text

    return AfterValidator(check)


Day = Annotated[
    str, Field(max_length=10, json_schema_extra={"minLength": 10, "pattern": f"^{DAY}$"}), AfterValidator(_check_day)
]
"""YYYY-MM-DD, not in the future in every time zone."""

Uri = Annotated[
    str,
    Field(max_length=LARGEST_URI, json_schema_extra={"pattern": f"^{URI}$"}),
    _matching(URI, "Must be an absolute URI (RFC 3986) in ASCII, such as https://models.example.org/next-word/2.1.0."),
]
"""An absolute URI (RFC 3986): ASCII, without spaces, quotes or angle brackets. The service never opens it."""

Sha256 = Annotated[
    str,
    Field(max_length=64, json_schema_extra={"minLength": 64, "pattern": f"^{SHA256}$"}),
    _matching(SHA256, "Must be 64 lower-case hexadecimal digits, as sha256sum prints them."),
]
"""64 lower-case hexadecimal digits."""
