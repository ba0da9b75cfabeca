"""HTTP shared by the clients: addresses, errors, limits on answers, and repetition of refused requests."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlsplit

import httpx2
from pydantic import ValidationError

from privacy_bounds.errors import InvalidAnswer, InvalidArgument, PrivacyBoundsError, Refused, Unreachable

if TYPE_CHECKING:
    from api_schemas.problems import Problem

LARGEST_PROBLEM: Final = 2**20
LEAST_WAIT_SECONDS: Final = 0.1
JITTER: Final = 0.25
"""Largest addition to a waiting time, as a share, so that refused clients do not return at the same moment."""
BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
PROXY_FAILURES: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
CODINGS: Final = ("", "identity", "gzip")
LONGEST_SHOWN: Final = 200
CREDENTIALS: Final = re.compile(r"[!-~]+")
UNKNOWN_PROBLEM: Final = "/problems/http-error"


@final
@dataclass(frozen=True, slots=True)
class Address:
    """Address of a service, with the headers, limits and settings of every request to it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    retry_seconds: float
    max_bytes: int

    @property
    def name(self) -> str:
        """Address of the service for messages, without a password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def url_of(self, path: str) -> str:
        """Return the URL of a path of the service.

        Raise InvalidArgument for a path that does not start with `/` or has spaces, and so may lead to another host.
        """
        if not path.startswith("/") or any(ord(each) <= ord(" ") for each in path):
            raise InvalidArgument(f"A path of the service starts with / and has no spaces: {path[:LONGEST_SHOWN]!r}.")
        return self.url + path

    def client_settings(self) -> dict[str, Any]:
        """Return the arguments of clients of httpx2. Redirects are not followed."""
        return {
            "headers": {"Accept-Encoding": "gzip", **self.headers},
            "timeout": self.timeout,
            "follow_redirects": False,
        }


def with_credentials(headers: Mapping[str, str] | None, api_key: str | None) -> dict[str, str]:
    """Return headers with an API key or a token, or without `api_key` the headers alone.

    Raise InvalidArgument for a key that is empty or has spaces or accents, and for a second header `Authorization`.
    """
    sent = dict(headers or {})
    if api_key is None:
        return sent
    if not CREDENTIALS.fullmatch(api_key):
        raise InvalidArgument("api_key: an API key or a token has neither spaces nor accents, and is not empty.")
    if any(name.lower() == "authorization" for name in sent):
        raise InvalidArgument("headers: leave out Authorization, since api_key makes that header.")
    return sent | {"Authorization": f"Bearer {api_key}"}


def check_address(url: str, headers: Mapping[str, str] | None, timeout: float, retry_seconds: float) -> None:
    """Raise InvalidArgument unless the arguments of a client are valid.

    `headers` are those that the client adds to each request, or None. The address `url` needs http:// or https:// and a
    host, `timeout` is above 0, and `retry_seconds` at least 0.
    """
    if not _is_address(url):
        raise InvalidArgument("url: the address of a service starts with http:// or https://, and has a host.")
    for name, value in (headers or {}).items():
        if not f"{name}{value}".isascii() or not f"{name}{value}".isprintable():
            raise InvalidArgument(f"headers: {name!r} may have printable ASCII characters only.")
    if not timeout > 0 or not retry_seconds >= 0:
        raise InvalidArgument("timeout: a number of seconds above 0; retry_seconds: a number of seconds, at least 0.")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return has_host and not parts.query and not parts.fragment and not any(ord(each) <= ord(" ") for each in url)


@contextmanager
def translated_errors(address: Address) -> Generator[None]:
    """Turn errors of httpx2 within the block into errors of this package.

    `address` is the service that the errors name.
    """
    name = address.name
    try:
        yield
    except httpx2.TimeoutException:
        raise Unreachable(f"No answer from {name} within {address.timeout:g} s.") from None
    except httpx2.ConnectError as error:
        raise Unreachable(f"Nobody answers at {name}: {_printable(str(error))}.") from None
    except httpx2.DecodingError as error:
        raise InvalidAnswer(f"The answer of {name} cannot be decompressed: {_printable(str(error))}.") from None
    except httpx2.TransportError as error:
        raise Unreachable(f"The answer of {name} breaks off, or is not HTTP: {_printable(str(error))}.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unreachable(f"No request can be sent to {name}: {_printable(str(error))}.") from None


def check_head(response: httpx2.Response, address: Address, media_type: str) -> None:
    """Raise InvalidAnswer if the status and headers of a response are none that a client can use.

    That is a redirect, an unknown compression, or another media type than `media_type` of a successful response. A
    response without a media type is assumed to have the requested one. `address` is the service that errors name.
    """
    name, status = address.name, response.status_code
    if response.has_redirect_location or HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        target = _printable(response.headers.get("Location", "nowhere"))
        raise InvalidAnswer(f"{name} redirects to {target} ({status}). Use the address of the service itself.")
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding not in CODINGS:
        raise InvalidAnswer(f"What answers at {name} is not this service: it compresses by {_printable(coding)}.")
    received = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    requested = media_type.partition(";")[0].strip().lower()
    if not response.is_error and received not in ("", requested):
        raise InvalidAnswer(
            f"What answers at {name} is not this service, or does not know the form {requested}: it sends {status} "
            f"with {_printable(received)}."
        )


@final
class Body:
    """Body of an HTTP response that is received in pieces, with limits on its length and on its duration."""

    def __init__(self, address: Address, response: httpx2.Response) -> None:
        self._address = address
        self._response = response
        self._limit = LARGEST_PROBLEM if response.is_error else address.max_bytes
        self._until = time.monotonic() + address.timeout
        self._pieces: list[bytes] = []
        self._length = 0
        announced = response.headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced[:20]) > self._limit:
            self._reject_length()

    def add(self, piece: bytes) -> None:
        """Append a received piece. Raise InvalidAnswer if the body is too long, or Unreachable if it takes too long."""
        self._length += len(piece)
        if self._length > self._limit:
            self._reject_length()
        if time.monotonic() > self._until:
            raise Unreachable(f"The answer of {self._address.name} takes longer than {self._address.timeout:g} s.")
        self._pieces.append(piece)

    def complete(self) -> bytes:
        """Return the whole body of a successful response. Raise the error of an unsuccessful response.

        Errors of unsuccessful responses are Refused, Unreachable or InvalidAnswer.
        """
        body = b"".join(self._pieces)
        if self._response.is_error:
            raise error_of(body, self._response, self._address)
        return body

    def _reject_length(self) -> None:
        raise InvalidAnswer(
            f"The answer of {self._address.name} is longer than {self._limit / 2**20:g} MiB, the limit `max_bytes` of "
            "the client."
        )


def error_of(body: bytes, response: httpx2.Response, address: Address) -> PrivacyBoundsError:
    """Return the error that an unsuccessful HTTP response describes.

    `address` is the service that the error names. The error is Refused for a problem of the service, Unreachable for a
    status of a proxy or of lacking capacity without a problem, else InvalidAnswer.
    """
    status = response.status_code
    retry_after = _retry_after_seconds(response.headers.get("Retry-After")) if status in BUSY else None
    problem = _problem_of(body)
    if problem is not None:
        return Refused(problem, retry_after)
    message = f"What answers at {address.name} is not this service: it sends {status}, and no problem."
    kind = Unreachable if status in PROXY_FAILURES or status in BUSY else InvalidAnswer
    return kind(message, status, retry_after)


def _problem_of(body: bytes) -> Problem | None:
    from api_schemas.problems import Problem

    try:
        return Problem.model_validate_json(body)
    except ValidationError:
        pass
    try:
        sent = json.loads(body)
        return Problem.model_validate(sent | {"type": UNKNOWN_PROBLEM}) if "type" in sent else None
    except (ValidationError, ValueError, TypeError, RecursionError):
        return None


def _retry_after_seconds(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        seconds = float(header) if header.strip().isdecimal() else _seconds_until(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return max(seconds, 0.0)


def _seconds_until(date: str) -> float:
    until = parsedate_to_datetime(date)
    return (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()


@final
class Repetition:
    """Decision whether a refused request is sent again, and when. The total time of all attempts is limited."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._unnamed = LEAST_WAIT_SECONDS

    def wait_of(self, error: Exception) -> bool | float:
        """Return the seconds to wait before the next attempt, or False if no attempt should follow.

        The server names the time in `Retry-After`. Otherwise the time begins at 0.1 s and doubles with each attempt. Up
        to a quarter is added at random. The result is False for errors other than the status 429 or 503, and if the
        time of all attempts would be exceeded.
        """
        if not is_busy(error):
            return False
        named = error.retry_after if isinstance(error, PrivacyBoundsError) else None
        if named is None:
            named = self._unnamed
            self._unnamed *= 2
        seconds = max(named, LEAST_WAIT_SECONDS) * (1 + JITTER * random.random())
        return seconds if time.monotonic() + seconds < self._until else False


def is_busy(error: Exception) -> bool:
    """Return whether an error says that the same request may succeed later: status 429 or 503."""
    status = error.problem.status if isinstance(error, Refused) else getattr(error, "status", None)
    return status in BUSY


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:LONGEST_SHOWN]).rstrip(". ")
