"""What the answers rest on, and the known ways in which runs like the one described are less private than they look.

Each mechanism says its own (`premises` and `hazards`); here they are gathered from all its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, get_args

from api_schemas.caveats import Assumption
from api_schemas.caveats import Hazard as HazardSpec
from service.computations.parts import assumption_of
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.caveats import Hazard, Premise, Subject

Said = TypeVar("Said", Premise, Hazard)
PLACES = {subject: place for place, subject in enumerate(get_args(Subject))}


@dataclass(frozen=True, slots=True)
class Caveats:
    """What stands beside the answers about a mechanism."""

    assumptions: tuple[Assumption, ...]
    """What the answers rest on and the service cannot see."""
    hazards: tuple[HazardSpec, ...]
    """Known traps that the described mechanism may have fallen into."""


def caveats(mechanism: AbstractMechanism) -> Caveats:
    """The caveats of the answers about a mechanism."""
    nodes = _nodes_of(mechanism)
    ends = [node.hazards for node, is_end in nodes if is_end]
    premises = dict.fromkeys(premise for node, _ in nodes for premise in node.premises)
    hazards = dict.fromkeys(hazard for node, _ in nodes for hazard in node.hazards)
    said = (hazard for hazard in hazards if not hazard.alone or all(hazard in causes for causes in ends))
    return _written(tuple(premises), tuple(said))


@lru_cache(maxsize=64)  # mechanisms of a kind say the same, whatever their parameters
def _written(premises: tuple[Premise, ...], hazards: tuple[Hazard, ...]) -> Caveats:
    """The caveats as they travel, by what they are about; those about the same as they were said."""
    return Caveats(
        tuple(map(assumption_of, _in_order(premises))),
        tuple(HazardSpec.model_validate({"code": each.code, "text": each.text}) for each in _in_order(hazards)),
    )


def _nodes_of(mechanism: AbstractMechanism) -> list[tuple[AbstractMechanism, bool]]:
    """All mechanisms of a tree, parts before the whole, and whether each is made of no others."""
    inner = mechanism.inner
    return [*(node for part in dict.fromkeys(inner) for node in _nodes_of(part)), (mechanism, not inner)]


def _in_order(said: Iterable[Said]) -> list[Said]:
    return sorted(said, key=lambda each: PLACES[each.about])
