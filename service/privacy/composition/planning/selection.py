"""Plans of selections: the best of several trials, from the plan of one trial."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from service.privacy.composition.planning.cost_model import LIST_EVALUATIONS, CostModel, summed
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.selected import Selected
from service.privacy.trade_off.pair import TradeOffPair

METHODS: Final = ("auto", "closed_form", "contour", "discretised")
"""Methods whose answers about one trial are bounds."""
ENGINES: Final = ("closed_form", "contour", "discretised")
"""Engines of compositions that may bound a fixed number of trials."""
POINTS: Final = 750
"""Number of points, and of thresholds, of the curve of one trial in each direction, on average."""
HULL, NUMBER, POINT = 5_000, 800, 3
"""Cost of the hulls and attacks of both directions, of a number, and of a point, in microseconds."""
SOURCE: Final = "the best of K runs: E_Q h(l) with T of one run (upper), three zones of scores (lower)"
NOTE: Final = "selection: the bounds hold for every score. They read the whole trade-off curve of one trial."
BRACKET: Final = (
    "bracket: scores in three zones attain the lower bound. The upper bound uses that the law of the score is one test "
    "of each trial; no single score is known that attains this bound."
)
OR_COMPOSED: Final = "The upper bound is the smaller one of this bound and the composition of all trials."

Planned = Callable[[AbstractMechanism], Plan]
"""Function that returns the plan of a mechanism with the options of the request."""
Attacked = Callable[[AbstractMechanism], tuple[Plan, ...] | None]
"""Function that returns plans of attacks on a mechanism, each on one choice; None if one choice attains its curves."""


def selected_plan(mechanism: Selected, method: str, planned: Planned, attacked: Attacked) -> Plan:
    """Return the plan of a selection.

    `planned` returns plans of the trial and of the composition by `method`, and `attacked` those of attacks on a trial.
    A score orders the outcomes of one mechanism on one pair of data sets, so that the lower bound reads one attack.
    """
    if mechanism.equivalent is not None:
        return planned(mechanism.equivalent)
    if method not in METHODS:
        reason = "two theorems enclose the worst case of a selection, and an estimate of one trial is not a bound."
        raise UnsupportedCombination("method", f"{method} for selected", reason, METHODS)
    one = planned(mechanism.mechanism)
    composed = None if mechanism.composed is None else _composed(mechanism.composed, planned)
    model = one.cost
    lists = 2 * (2 * LIST_EVALUATIONS * model.evaluate + 2 * POINTS * model.per_point)
    own = CostModel(model.build + lists + HULL, NUMBER, POINT, one_curve=model.one_curve, limits_need_curve=True)
    below = attacked(mechanism.mechanism)
    others = [*(() if composed is None else (composed,)), *(below or ())]
    return Plan(
        one.engine, summed([own, *(each.cost for each in others)]), partial(_selected, mechanism, one, composed, below)
    )


def _composed(mechanism: AbstractMechanism, planned: Planned) -> Plan | None:
    """Return the plan of the composition of all trials, or None if no fast engine composes them."""
    try:
        found = planned(mechanism)
    except UnsupportedCombination:
        return None
    return found if found.engine in ENGINES else None


def _selected(mechanism: Selected, one: Plan, composed: Plan | None, below: tuple[Plan, ...] | None) -> TradeOffPair:
    from service.privacy.trade_off.selection.pair import selected_curve

    pair = one.curves
    if pair.add.largest_log_ratio.upper == 0 and pair.add.singular_power.upper == 0:
        return pair  # a trial reveals nothing
    whole = None if composed is None else _curves(composed)
    attacks = (pair,) if below is None else tuple(each.curves for each in below)
    add = selected_curve(pair, mechanism.trials.counts(), attacks, whole)
    sentences = (BRACKET, *(() if whole is None else (OR_COMPOSED,)), pair.bracket)
    sources = (SOURCE, *pair.source.split("; "), *(() if whole is None else whole.source.split("; ")))
    return TradeOffPair(
        add,
        add if pair.add is pair.remove else add.reversed(),
        "; ".join(dict.fromkeys(sources)),
        (*pair.notes, NOTE),
        bracket=" ".join(dict.fromkeys(each for each in sentences if each)),
    )


def _curves(composed: Plan) -> TradeOffPair | None:
    """Return the curves of the composition of all trials, or None if its engine refuses them."""
    try:
        return composed.curves
    except UnsupportedCombination:
        return None
