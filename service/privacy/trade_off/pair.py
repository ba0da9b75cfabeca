"""Trade-off curves of one mechanism under one threat model: add, remove, and both directions together."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

from service.privacy.limit import WidthLimit
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import map_bracket
from service.privacy.trade_off.combinators.extreme_of import ExtremeOf, map_extremes
from service.privacy.trade_off.combinators.second_engine import SecondEngine
from service.privacy.trade_off.combinators.symmetrised import Symmetrised


@final
@dataclass(frozen=True)
class TradeOffPair:
    """Trade-off curves of both directions, with their source.

    The curves enclose the worst case over everything that is left open. This includes the data sets, the mechanisms of
    a stated class, parameters of later steps chosen after earlier results, and the rest of a release. The worst case is
    a curve: the largest convex one below the trade-off functions of all choices. An attacker who draws a choice at
    random, and learns which one was drawn, reaches it (docs/decisions/0008-truth-and-brackets.md).

    Attributes
    ----------
    add : AbstractTradeOff
        H0 is the data set without the record.
    remove : AbstractTradeOff
        The swapped hypotheses. A symmetric mechanism has one object as `add` and `remove`.
    source : str
        The theorem.
    notes : tuple of str
        Why this engine was chosen, and remarks for the reader.
    worst_case : TradeOffPair or None
        The curves of the worst case of the same mechanism if they bound these curves. They cap the answers.
    bracket : str or None
        The sentence that names both theorems if the two bounds come from different theorems. None if both bounds rest
        on one pair of laws that some choice of data sets attains in every step.
    second : SecondEngine or None
        The engine that serves where the first engine is wide. Only answers that used it say so.
    limit : WidthLimit or None
        Why there is no second engine.
    origin : Hashable or None
        The key of curves of the worst case. A request answers equal questions about equal keys once.
    is_cut_short : bool
        Whether searches that made the curves ended because the allowed work was spent. The curves are then valid, and
        wider than with more work.
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
    is_cut_short: bool = False

    @property
    def second_uses(self) -> int:
        """Number of uses of the second engine so far, in both directions.

        The second engine evaluates numbers whose enclosures by the first engine are wide.
        """
        return 0 if self.second is None else self.second.times

    def notes_since(self, uses: int) -> tuple[str, ...]:
        """Return the note of the second engine if an answer used it, otherwise an empty tuple.

        `uses` is the number of uses before this answer.
        """
        return (self.second.note,) if self.second is not None and self.second.times > uses else ()

    @cached_property
    def both(self) -> AbstractTradeOff:
        """Curve of an attacker who may face either direction: the concave envelope of the larger power.

        The curve is built at its first use. For a symmetric mechanism the curve is the object that `add` and `remove`
        share.
        """
        return self.add if self.add is self.remove else map_bracket(_either_direction, self.add, self.remove)


def _either_direction(add: AbstractTradeOff, remove: AbstractTradeOff) -> AbstractTradeOff:
    """Return the curve of an attacker who may face either direction: the concave envelope of the larger power.

    Several attacks, and several upper bounds, are combined one by one, because the envelope needs slopes.
    """
    if add is remove:
        return add
    if isinstance(add, ExtremeOf) and isinstance(remove, ExtremeOf) and len(add.curves) == len(remove.curves):
        # Both directions of one bound belong together, so that their hull is a bound as well.
        pairs = zip(add.curves, remove.curves, strict=True)
        return type(add)(list(itertools.starmap(_either_direction, pairs)))
    return map_extremes(Symmetrised, add, remove)


def brackets_of(pairs: Iterable[TradeOffPair]) -> str | None:
    """Return the note that two theorems bound a number that depends on several `pairs` of curves, or None.

    None means that no pair is a bracket, whose bounds come from two different theorems.
    """
    found = (pair.bracket for pair in pairs)
    return " ".join(dict.fromkeys(each for each in found if each is not None)) or None
