"""Tools that assistants call: names, descriptions and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mcp_types import Tool, ToolAnnotations

from service.mcp.schemas import input_schema
from service.resources.abstract import Computation
from service.resources.catalogue import resource


@dataclass(frozen=True, slots=True)
class ToolText:
    """Texts about a tool for assistants: the resource behind it, its title and its description."""

    resource: str
    title: str
    description: str


TOOLS: Final[Mapping[str, ToolText]] = {
    "bounds": ToolText(
        "bounds",
        "Bounds of a run",
        "Compute what an attacker can learn from a training run or a data release: epsilon, delta, power of membership "
        "inference, reconstruction, accuracy, GDP mu. Every number has a proved lower and upper bound.",
    ),
    "calibrate": ToolText(
        "calibrations",
        "Noise for a target",
        "Find the value of one number of a mechanism, for example noise_multiplier or steps, that just meets given "
        "targets. `free` is a JSON pointer to the number, for example /mechanism/noise_multiplier. Each target is a "
        "question with at_most or at_least.",
    ),
    "compare": ToolText(
        "comparisons",
        "Comparison of runs",
        "Compare several runs by the same questions and by their trade-off curves, and tell which one is safer.",
    ),
    "assess": ToolText(
        "assessments",
        "Assessment with policy",
        "Assess one run with a threat model, context and attestations, and decide a policy: met, violated or "
        "undecided, with a ruling for each limit.",
    ),
    "import_state": ToolText(
        "imports",
        "Import of a library's state",
        "Translate the state of an accountant or event of Opacus, dp_accounting, TensorFlow Privacy, JAX Privacy or "
        "riskcal into a mechanism, with the facts that the mechanism cannot express.",
    ),
    "check_claims": ToolText(
        "claims",
        "Verification of claims",
        "Check privacy claims, for example (epsilon, delta) from a model card, against proved bounds: consistent, "
        "loose or unsafe, with the attack that refutes an unsafe claim.",
    ),
    "certify": ToolText(
        "certificates",
        "Independent proof",
        "Prove one number about a Gaussian run in ball arithmetic with the independent checker: proved, refuted or not "
        "decided. Without `value`, the safe number of the question is proved.",
    ),
}
"""Tools by name, in the order in which they are listed."""


def computation_of(name: str) -> Computation[Any, Any]:
    """Return the resource behind the tool `name`. Raise KeyError for an unknown tool."""
    return resource(TOOLS[name].resource)


@cache
def listed_tools() -> list[Tool]:
    """Return all tools with their schemas."""
    return [
        Tool(
            name=name,
            title=text.title,
            description=text.description,
            input_schema=input_schema(computation_of(name).request_type),
            annotations=ToolAnnotations(
                title=text.title,
                read_only_hint=True,
                destructive_hint=False,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )
        for name, text in TOOLS.items()
    ]
