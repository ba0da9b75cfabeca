"""Errors of the clients.

PrivacyBoundsError
- Refused        the service rejected the request; `problem` has the reason
- Unreachable    no service answered, or the answer is not from this service
"""

from __future__ import annotations

from typing import final

from api_schemas.problems import Problem


class PrivacyBoundsError(Exception):
    """Base of all errors of this package."""


@final
class Refused(PrivacyBoundsError):
    """Rejection of a request. `problem` has the reason (RFC 9457) and every invalid member of the request."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        places = "; ".join(f"{each.pointer or 'the whole'}: {each.detail}" for each in problem.errors)
        super().__init__(f"{problem.title} ({problem.status}). {places or problem.detail}")

    @property
    def pointer(self) -> str:
        """JSON pointer to the first invalid member. "": the whole request is invalid, or no member."""
        return self.problem.errors[0].pointer if self.problem.errors else ""

    @property
    def remedy(self) -> str:
        """Rule or remedy for the first invalid member."""
        return self.problem.errors[0].detail if self.problem.errors else self.problem.detail


@final
class Unreachable(PrivacyBoundsError):
    """Failure to reach a service at its address. Another server may have answered."""
