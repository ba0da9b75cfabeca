"""A decision about who answers: made once, from a description alone, before any work is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

from service.privacy.composition.planning.cost_model import Ceiling, CostModel, mixed
from service.privacy.trade_off.pair import TradeOffPair

CLOSED_FORM: Final = "closed_form"


@final
@dataclass(frozen=True)
class Plan:
    """The curves of a mechanism that one engine makes, and what their readings cost.

    `engine`: the method that answers will name; of curves that are mixed, that of the most expensive. `ceiling`: of a
    closed form whose readings cost about the same whatever the arguments. `build` is called when the curves are first
    read, and may raise UnsupportedCombination for what only the engine itself can find out. `worst_case`: the plan of
    the worst case that stands beside the curves of a weaker attacker; None where it is not served.
    """

    engine: str
    cost: CostModel
    build: Callable[[], TradeOffPair]
    ceiling: Ceiling | None = None
    worst_case: Plan | None = None

    @cached_property
    def curves(self) -> TradeOffPair:
        """Made once."""
        return self.build()


def mixed_plan(parts: Sequence[Plan], build: Callable[[], TradeOffPair]) -> Plan:
    """Return the plan of curves that are mixed: their points are searched for, so that they have no ceiling."""
    most = max(parts, key=lambda part: part.cost.evaluate)
    shared = any(part.engine != CLOSED_FORM for part in parts)
    return Plan(most.engine, mixed([part.cost for part in parts], shared=shared), build)
