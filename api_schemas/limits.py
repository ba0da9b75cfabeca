"""Limits across several fields, and the error for a request that exceeds one."""

from __future__ import annotations

from pydantic_core import PydanticCustomError

from api_schemas.mechanisms import LARGEST_COMPONENTS, LARGEST_DEPTH, MechanismSpec, is_one_step, nodes_of, tree_size
from api_schemas.scalar_types import LARGEST_LIST, LARGEST_TOTAL_STEPS
from api_schemas.training_runs import phases_of


def limit_error(pointer: str, sentence: str) -> PydanticCustomError:
    """Return a validation error at the position that a JSON pointer names, with one sentence about the limit."""
    return PydanticCustomError("beyond_limit", "{sentence}", {"sentence": sentence, "pointer": pointer})


def check_tree(mechanism: MechanismSpec) -> None:
    """Raise PydanticCustomError for a mechanism with too many levels, components or steps."""
    if is_one_step(mechanism):
        return
    depth, components, steps = tree_size(mechanism)
    if depth > LARGEST_DEPTH:
        raise limit_error("/mechanism", f"The tree of mechanisms may be at most {LARGEST_DEPTH} levels deep.")
    if components > LARGEST_COMPONENTS:
        raise limit_error("/mechanism", f"The tree of mechanisms may have at most {LARGEST_COMPONENTS} components.")
    if phases_of(nodes_of(mechanism)) > max(LARGEST_LIST, LARGEST_COMPONENTS):
        raise limit_error("/mechanism", f"The tree of mechanisms may have at most {LARGEST_LIST} phases.")
    if steps > LARGEST_TOTAL_STEPS:
        raise limit_error(
            "/mechanism", f"All steps together may be at most {LARGEST_TOTAL_STEPS:.0e}. Nested repetitions multiply."
        )
