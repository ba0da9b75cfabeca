"""What can go wrong between a question and its answer.

PrivacyBoundsError
- Refused        the request was not answered: the problem says where and why
- Unreachable    nobody answered, or not in the words of this service
"""

from __future__ import annotations

from typing import final

from api_schemas.problems import Problem


class PrivacyBoundsError(Exception):
    """Base of all errors of this package."""


@final
class Refused(PrivacyBoundsError):
    """The request was not answered. `problem`: why (RFC 9457), with every place that is wrong."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        places = "; ".join(f"{each.pointer or 'the whole'}: {each.detail}" for each in problem.errors)
        super().__init__(f"{problem.title} ({problem.status}). {places or problem.detail}")

    @property
    def pointer(self) -> str:
        """JSON pointer to the first place of the request that is wrong; "" where it is none, or the whole."""
        return self.problem.errors[0].pointer if self.problem.errors else ""

    @property
    def remedy(self) -> str:
        """What is allowed there, or what to do."""
        return self.problem.errors[0].detail if self.problem.errors else self.problem.detail


@final
class Unreachable(PrivacyBoundsError):
    """Nobody answered at this address, or not in the words of this service."""
