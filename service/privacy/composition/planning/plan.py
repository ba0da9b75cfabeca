"""Plan of a mechanism: which engine answers, decided once from a description before any work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from service.privacy.composition.planning.cost_model import Ceiling, CostModel, mixed
from service.privacy.numerics.work import run_to_end
from service.privacy.trade_off.abstract import CLOSED_FORM
from service.privacy.trade_off.pair import TradeOffPair


@final
@dataclass(frozen=True)
class Plan:
    """Engine of a mechanism's curves, the curves themselves, and the cost of their numbers.

    Attributes
    ----------
    engine : str
        Name of the method in answers; for a mixture of mechanisms, that of its most expensive component.
    cost : CostModel
        Estimated cost.
    build : callable
        Function that makes the curves when they are first used. It may raise UnsupportedCombination for limits that
        only the engine itself can find.
    ceiling : Ceiling or None
        Largest costs of a closed form whose numbers cost about the same for all arguments.
    worst_case : Plan or None
        Plan of the worst case, for curves of a weaker attacker. None for the worst case itself, and if its curves are
        not known.
    """

    engine: str
    cost: CostModel
    build: Callable[[], TradeOffPair]
    ceiling: Ceiling | None = None
    worst_case: Plan | None = None

    @cached_property
    def curves(self) -> TradeOffPair:
        """Trade-off curves of the mechanism in both directions, made on first use."""
        found, is_complete = run_to_end(self.build)
        return found if is_complete else replace(found, is_cut_short=True)


def mixed_plan(parts: Sequence[Plan], build: Callable[[], TradeOffPair]) -> Plan:
    """Return the plan of a mixture of mechanisms from the plans of its components.

    The plan has no `ceiling` (upper limit of the cost), because the points of a mixture's curve need a search. `build`
    makes the curves of the mixture from those of the components.
    """
    most = max(parts, key=lambda part: part.cost.evaluate)
    shared = any(part.engine != CLOSED_FORM for part in parts)
    return Plan(most.engine, mixed([part.cost for part in parts], shared=shared), build)
