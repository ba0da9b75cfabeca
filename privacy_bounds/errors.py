"""Errors of the clients.

PrivacyBoundsError
- Refused          the service rejected the request; `problem` has the reason
- Unreachable      no usable answer arrived: nobody answers, the answer breaks off, or it takes too long
  - InvalidAnswer  the answer is not from this service: another server, a redirect, too long, or an unknown form
- InvalidArgument  an argument has no request that could be sent
- NotInstalled     a part of the package is not installed; the message names the extra
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from typing_extensions import override

if TYPE_CHECKING:
    from api_schemas.problems import Problem


class PrivacyBoundsError(Exception):
    """Base of all errors of this package.

    `retry_after` is the time in seconds after which the same request may succeed. It is None if the service names no
    time.
    """

    retry_after: float | None = None


@final
class Refused(PrivacyBoundsError):
    """Rejection of a request. `problem` has the reason (RFC 9457) and every invalid member of the request."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        self.problem = problem
        self.retry_after = retry_after
        places = "; ".join(f"{each.pointer}: {each.detail}".removeprefix(": ") for each in problem.errors)
        unnamed = [each for each in problem.supported or () if each not in places]
        known = f" Supported: {', '.join(unnamed)}." if unnamed else ""
        super().__init__(f"{problem.title} ({problem.status}). {places or problem.detail}{known}")

    @override
    def __reduce__(self) -> tuple[type[Refused], tuple[Problem, float | None]]:
        return Refused, (self.problem, self.retry_after)

    @property
    def pointer(self) -> str:
        """JSON pointer to the first invalid member; "" if the whole request is invalid, or if no member is named."""
        return self.problem.errors[0].pointer if self.problem.errors else ""

    @property
    def remedy(self) -> str:
        """Rule or remedy for the first invalid member, or the detail of the problem if no member is named."""
        return self.problem.errors[0].detail if self.problem.errors else self.problem.detail


class Unreachable(PrivacyBoundsError):
    """Failure to get a usable answer: nobody answers, the answer breaks off, or it takes too long.

    `status` is the HTTP status of the answer. It is None if no complete answer arrived.
    """

    def __init__(self, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        super().__init__(message)

    @override
    def __reduce__(self) -> tuple[type[Unreachable], tuple[str, int | None, float | None]]:
        return type(self), (str(self), self.status, self.retry_after)


@final
class InvalidAnswer(Unreachable):
    """Raised for an answer that is too long, that has an unknown form, or that is not from this service."""


@final
class InvalidArgument(PrivacyBoundsError, ValueError, TypeError):
    """Raised for an argument from which no request can be made."""


@final
class NotInstalled(PrivacyBoundsError, ImportError):
    """Part of the package that is not installed. The message names the extra that installs it."""
