"""Descriptions of attackers in words, to follow "against" in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api_schemas.choices import NeighboringRelation
from api_schemas.threat_models import (
    GlrtThreatModel,
    MembershipThreatModel,
    MixtureThreatModel,
    PracticalThreatModel,
    ThreatModelSpec,
    WorstCaseThreatModel,
)
from service.rendering.numbers import format_exact, group_digits, percent_exact
from service.rendering.sentences.title import joined

LONGEST_ATTACKER: Final = 200
NEIGHBOURS: Final[Mapping[NeighboringRelation, str]] = {
    "add_or_remove_one": "added or removed",
    "replace_one": "replaced by another one",
    "zero_out": "replaced by an empty one",
}


def attacker(model: ThreatModelSpec) -> str:
    """Return an attacker in words with all its parameters, to follow "against".

    The populations and the attackers of a mixture are listed up to 200 characters, with an ellipsis for the others.
    """
    match model:
        case WorstCaseThreatModel():
            return _worst_case(model)
        case GlrtThreatModel(dimension=dimension, unknown_direction=direction):
            fresh = " who assumes a new direction in every step"
            return f"the GLRT attacker in {_dimensions(dimension)}{fresh if direction == 'fresh_each_step' else ''}"
        case MembershipThreatModel():
            return joined(("the membership attacker", *_approximations(model)), LONGEST_ATTACKER)
        case PracticalThreatModel(epsilon_pmp=epsilon, delta=delta):
            return f"the practical attacker at epsilon_pmp {format_exact(epsilon)} and delta {format_exact(delta)}"
        case MixtureThreatModel(components=parts):
            named = (f"{attacker(part.threat_model)} ({percent_exact(part.weight)})" for part in parts)
            return joined((f"one of {group_digits(len(parts))} attackers", *named), LONGEST_ATTACKER, "; ")


def _worst_case(model: WorstCaseThreatModel) -> str:
    records = model.records or 1
    who = "a record" if records == 1 else f"{group_digits(records)} records together"
    return f"the worst case with {who} {NEIGHBOURS[model.neighboring_relation]}"


def _dimensions(number: int) -> str:
    return "1 dimension" if number == 1 else f"{group_digits(number)} dimensions"


def _approximations(model: MembershipThreatModel) -> list[str]:
    found: list[str] = []
    if model.step_curve == "gaussian":
        found.append("steps in the Gaussian approximation")
    if model.composition == "clt":
        found.append("composed by the central limit theorem")
    if model.composition == "root_sum_square":
        found.append("composed without the effect of sampling")
    if model.population == "chi_square":
        found.append("susceptibilities of Gaussian gradients")
    elif model.population is not None:
        parts = (f"{format_exact(each.susceptibility)} ({percent_exact(each.weight)})" for each in model.population)
        found.append(f"susceptibilities {joined(parts, LONGEST_ATTACKER // 2)}")
    return found
