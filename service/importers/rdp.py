"""Reader for the orders and bounds of an accountant of Renyi divergences.

Accountants hold two lists of equal length: the orders, and the Renyi divergences of all steps together (`_orders` and
`_rdp` of `RdpAccountant` in dp_accounting; `alphas` and the result of `compute_rdp` in Opacus and TensorFlow Privacy).
Orders may have any sequence. A bound that exceeds that of a larger order is replaced by it, because divergences rise
with their order.
"""

from __future__ import annotations

import math
from typing import Final

from service.importers.reading import DraftSpec, ImportedRun, SourceValue

DESCRIPTION: Final = "rdp (an object with orders and rdp)"
ORDERS: Final = ("orders", "alphas", "_orders")
BOUNDS: Final = ("rdp", "epsilons", "_rdp")
DROPPED: Final = {
    "delta": 'delta is part of a question: {"type": "epsilon", "delta": ...}.',
    "neighboring_relation": "The neighbouring relation belongs in the threat model of the request.",
}
LOWERED: Final = "Bounds above that of a larger order were replaced by it: divergences rise with their order."
LARGEST_ORDER, LARGEST_BOUND = 1e9, 1e6


def matches(state: SourceValue) -> bool:
    """Return whether a state (JSON value) has lists of orders and bounds of Renyi divergences."""
    sent = state.as_object
    return any(name in sent for name in ORDERS) and any(name in sent for name in BOUNDS) and "type" not in sent


def read_state(state: SourceValue) -> ImportedRun:
    """Return the class of all mechanisms whose Renyi divergences have the bounds in a state. Raise ValidationError."""
    sent = state.as_object
    names = [next((name for name in choices if name in sent), choices[0]) for choices in (ORDERS, BOUNDS)]
    members = state.members(names, ("directions", *DROPPED))
    orders, bounds = (members[name].items() for name in names)
    if len(orders) != len(bounds):
        members[names[1]].reject("There must be as many bounds as orders.")
    notes = [sentence for name, sentence in DROPPED.items() if name in members]
    ranked = sorted(zip(map(_order, orders), map(_bound, bounds), strict=True))
    kept: list[tuple[float, float]] = []
    least = math.inf
    for order, bound in reversed(ranked):
        if bound > least and LOWERED not in notes:
            notes.append(LOWERED)
        least = min(least, bound)
        kept.append((order, least))
    finite = {order: bound for order, bound in kept if math.isfinite(bound)}
    if not finite:
        state.reject("At least one bound must be finite. Send the bounds of the accountant.")
    listed = sorted(finite)
    fields = {name: members[name] for name in ("directions",) if name in members}
    run = DraftSpec(
        state,
        type="rdp",
        orders=[_written(order) for order in listed],
        epsilons=[finite[order] for order in listed],
        **fields,
    )
    return ImportedRun(run, notes=tuple(notes))


def _order(node: SourceValue) -> float:
    return math.inf if node.value in ("Infinity", "infinity", "inf") else node.number(1.0, LARGEST_ORDER)


def _bound(node: SourceValue) -> float:
    return math.inf if node.value in ("Infinity", "infinity", "inf") else node.number(0.0, LARGEST_BOUND)


def _written(order: float) -> float | str:
    return "Infinity" if math.isinf(order) else order
