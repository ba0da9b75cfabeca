"""The curves of one mechanism under one threat model: add, remove, and both at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

from service.privacy.limit import WidthLimit
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import map_bracket
from service.privacy.trade_off.combinators.second_engine import SecondEngine
from service.privacy.trade_off.combinators.symmetrised import Symmetrised


@final
@dataclass(frozen=True)
class TradeOffPair:
    """Two curves that belong together, and what stands behind them.

    The truth that they enclose is the worst case over everything that is left open: the data sets, the mechanisms of a
    stated class, parameters of later steps chosen after earlier results, what else a release looks like. It is a curve:
    the largest convex one below the trade-off functions of all choices, which an attacker reaches who may face any.

    `add`: H0 is the data set without the record. `remove`: the hypotheses exchanged. `both` is the curve of an attacker
    who may face either (concave envelope of the larger power), built when it is first read; a symmetric mechanism
    passes one object as `add` and `remove`, and `both` is that object. `source`: the theorem. `notes`: why this engine,
    and what to know. `worst_case`: the curves of the worst case of the same mechanism where they bound these;
    readings are capped by theirs. `origin`: the key of curves of the worst case, by which a request answers an equal
    question about them once. `bracket`: where the two ends come from different theorems, the sentence that names both;
    None where both rest on one pair, whose composition some choice attains in every step. `second`: the engine that is
    asked where the first is wide; only answers in which it was say so. `limit`: why there is no second engine.
    """

    add: AbstractTradeOff
    remove: AbstractTradeOff
    source: str
    notes: tuple[str, ...] = ()
    worst_case: TradeOffPair | None = None
    bracket: str | None = None
    second: SecondEngine | None = None
    limit: WidthLimit | None = None
    origin: Hashable | None = None

    @property
    def asked(self) -> int:
        """How often the second engine was asked so far."""
        return 0 if self.second is None else self.second.times

    def notes_since(self, asked: int) -> tuple[str, ...]:
        """What an answer adds to `notes` before which the second engine had been asked so often."""
        return (self.second.note,) if self.second is not None and self.second.times > asked else ()

    @cached_property
    def both(self) -> AbstractTradeOff:
        """The larger of the two directions at every question."""
        return self.add if self.add is self.remove else map_bracket(Symmetrised, self.add, self.remove)


def brackets_of(pairs: Iterable[TradeOffPair]) -> str | None:
    """The bracket of what is made of several pairs: where one is a bracket, so is the whole."""
    return " ".join(dict.fromkeys(pair.bracket for pair in pairs if pair.bracket is not None)) or None
