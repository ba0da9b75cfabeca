"""A limit of a policy as a sentence for people."""

from __future__ import annotations

from api_schemas.targets import Limit


def meaning(limit: Limit) -> str:
    """Return what a limit demands, in a sentence."""
    side = "at most" if limit.at_most is not None else "at least"
    return f"{limit.question.type.replace('_', ' ').capitalize()} is {side} {limit.limit:g}."
