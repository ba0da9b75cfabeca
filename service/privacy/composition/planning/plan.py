"""A decision about who answers: made once, from a description alone, before any work is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

from service.privacy.composition.planning.tariff import Tariff, mixed_tariff
from service.privacy.trade_off.pair import TradeOffPair

CLOSED_FORM: Final = "closed_form"


@final
@dataclass(frozen=True)
class Plan:
    """The curves of a mechanism that one engine makes, and what their readings cost.

    `engine`: the method that answers will name; of curves that are mixed, that of the dearest. `closed`: one of the
    closed forms whose readings cost about the same whatever the arguments; its tariff is a ceiling then, measured over
    the whole range of them. `build` is called when the curves are first asked for, and may say, by
    UnsupportedCombination, what only the engine itself knows.
    """

    engine: str
    tariff: Tariff
    build: Callable[[], TradeOffPair]
    closed: bool = False

    @cached_property
    def curves(self) -> TradeOffPair:
        """Made once."""
        return self.build()


def mixed_plan(parts: Sequence[Plan], build: Callable[[], TradeOffPair]) -> Plan:
    """The plan of curves that are mixed: searched for, so never closed."""
    dearest = max(parts, key=lambda part: part.tariff.directed.profile)
    return Plan(
        dearest.engine,
        mixed_tariff([part.tariff for part in parts], shared=any(part.engine != CLOSED_FORM for part in parts)),
        build,
    )
