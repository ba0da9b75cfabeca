"""A run in words: the title that people read."""

from __future__ import annotations

from api_schemas.mechanisms import MechanismSpec


def run_title(mechanism: MechanismSpec) -> str:
    """Return a mechanism in words."""
    return mechanism.type
