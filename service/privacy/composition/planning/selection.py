"""Plans of selections: the best of several trials, from the plan of one trial."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final, final

from service.privacy.composition.planning.cost_model import LIST_EVALUATIONS, CostModel, summed
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.mechanisms.selected import Selected
from service.privacy.numerics.work import compute_once
from service.privacy.trade_off.abstract import CLOSED_FORM
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.trade_off.combinators.bracketed import Bracketed
    from service.privacy.trade_off.selection.pair import TrialCurves
    from service.privacy.trade_off.selection.trial_counts import TrialCounts

METHODS: Final = ("auto", "closed_form", "contour", "discretised")
"""Methods whose answers about one trial are bounds."""
ENGINES: Final = ("closed_form", "contour", "discretised")
"""Engines of compositions that may bound a fixed number of trials."""
MANY: Final = 1_000
"""Number of trials whose composition shows whether compositions have closed forms."""
POINT_OF_MANY: Final = 5
"""Largest cost of a point of such a composition, in microseconds."""
POINTS: Final = 750
"""Number of points, and of thresholds, of the curve of one trial in each direction, on average."""
SHORT: Final = 60_000
"""Cost of the laws of a trial of few steps, in microseconds."""
HULL, NUMBER, POINT, SEARCH_OF_MU = 25_000, 800, 3, 100_000
"""Cost of the hulls and attacks of both directions, of a number, of a point, and of a search for mu, in microseconds.
"""
SOURCE: Final = "the best of K runs: E_Q h(l) with T of one run (upper), zones of scores (lower)"
NOTE: Final = "selection: the bounds hold for every score. They read the whole trade-off curve of one trial."
BRACKET: Final = (
    "bracket: scores in zones attain the lower bound. The upper bound uses that the law of the score is one test "
    "of each trial; no single score is known that attains this bound."
)
OR_COMPOSED: Final = "The upper bound is the smaller one of this bound and the composition of all trials."

Planned = Callable[[AbstractMechanism], Plan]
"""Function that returns the plan of a mechanism with the options of the request."""
Attacked = Callable[[AbstractMechanism], tuple[Plan, ...] | None]
"""Function that returns plans of attacks on a mechanism, each on one choice; None if one choice attains its curves."""


@final
@dataclass(frozen=True)
class Planners:
    """Functions that plan a trial, compositions of trials, and attacks on a trial, with the options of a request.

    Attributes
    ----------
    trial, composed : callable
        Plans of a mechanism whose numbers are evaluated in long lists, or one by one.
    attacks : callable
        Plans of attacks.
    short : callable
        Function that returns a maker of the curves of a trial of few steps, or None for other trials.
    key : hashable
        The options. Equal trials with equal keys share their curves within a request.
    """

    trial: Planned
    composed: Planned
    attacks: Attacked
    short: Callable[[AbstractMechanism], Callable[[], TradeOffPair | None] | None]
    key: Hashable


def selected_plan(mechanism: Selected, method: str, planners: Planners) -> Plan:
    """Return the plan of a selection of the best of several trials, by the engine named `method`.

    The upper bound holds for every score. The lower bound is an attack with one score on one pair of data sets. Raises
    UnsupportedCombination for engines that do not prove bounds. A plan has trade-off curves and their cost. `planners`
    are the functions that plan the trials.
    """
    if mechanism.equivalent is not None:
        return planners.composed(mechanism.equivalent)
    if method not in METHODS:
        reason = "two theorems enclose the worst case of a selection, and an estimate of one trial is not a bound."
        raise UnsupportedCombination("method", f"{method} for selected", reason, METHODS)
    one = planners.trial(mechanism.mechanism)
    short = planners.short(mechanism.mechanism) if mechanism.trials.fixed is None else None
    composed = _composed(mechanism, planners) if mechanism.trials.fixed is not None else None
    model = one.cost
    lists = 2 * (2 * LIST_EVALUATIONS * model.evaluate + 2 * POINTS * model.per_point)
    making = model.build + lists + HULL
    own = CostModel(making, NUMBER, POINT, one_curve=model.one_curve, search_mu=SEARCH_OF_MU, limits_need_curve=True)
    below = planners.attacks(mechanism.mechanism)
    others = [*(() if composed is None else (composed,)), *(below or ())]
    key = mechanism.mechanism, planners.key
    trials = partial(_trials, one, below, key)
    if short is not None and below is None:
        own = replace(own, build=SHORT + HULL)
        build = partial(_selected, mechanism, one, None, trials, planners, partial(_short_trials, short, key))
        return Plan("discretised", own, build)
    cost = summed([own, *(each.cost for each in others)])
    return Plan(one.engine, cost, partial(_selected, mechanism, one, composed, trials, planners))


def _composed(mechanism: Selected, planners: Planners) -> Plan | None:
    """Return the plan of the composition of all trials of a selection with a fixed number of trials, or None.

    `mechanism` is the selection, and `planners` has the function that plans the composition. The result is None if the
    trials cannot be composed, or only by an engine outside `ENGINES`.
    """
    try:
        whole = mechanism.composed
        found = None if whole is None else planners.composed(whole)
    except UnsupportedCombination:
        return None
    return found if found is not None and found.engine in ENGINES else None


def _trials(one: Plan, below: tuple[Plan, ...] | None, key: Hashable) -> TrialCurves:
    """Return the trade-off curves of one trial, which all selections of the trial in a request share.

    `one` is the plan of the trial. `below` has the plans of its lower bounds, or None if the plan `one` is attained.
    `key` identifies the trial in the request.
    """
    from service.privacy.trade_off.selection.pair import TrialCurves

    def made() -> TrialCurves:
        pair = one.curves
        return TrialCurves(pair, (pair,) if below is None else tuple(each.curves for each in below))

    return compute_once(("trials of a selection", key), made)


def _short_trials(short: Callable[[], TradeOffPair | None], key: Hashable) -> TrialCurves | None:
    """Return the trade-off curves of one trial of few steps, which all selections of the trial in a request share.

    `short` returns the curves, or None if they are out of reach. `key` identifies the trial in the request.
    """
    from service.privacy.trade_off.selection.pair import TrialCurves

    def made() -> TrialCurves | None:
        pair = short()
        return None if pair is None else TrialCurves(pair, (pair,))

    return compute_once(("short trials of a selection", key), made)


def _selected(
    mechanism: Selected,
    one: Plan,
    composed: Plan | None,
    trials: Callable[[], TrialCurves],
    planners: Planners,
    short: Callable[[], TrialCurves | None] | None = None,
) -> TradeOffPair:
    from service.privacy.trade_off.selection.pair import selected_curve

    pair = one.curves
    if pair.add.largest_log_ratio.upper == 0 and pair.add.singular_power.upper == 0:
        return pair  # a trial reveals nothing
    whole = None if composed is None else _curves(composed)
    several = _in_closed_form(mechanism, one, planners) if whole is None else partial(_always, whole)
    counts = mechanism.trials.counts()
    few = None if short is None else short()
    add = selected_curve(trials(), counts, several) if few is None else _with_rare(few, counts, trials)
    sentences = (BRACKET, *(() if whole is None else (OR_COMPOSED,)), pair.bracket)
    sources = (SOURCE, *pair.source.split("; "), *(() if whole is None else whole.source.split("; ")))
    return TradeOffPair(
        add,
        add if pair.add is pair.remove else add.reversed(),
        "; ".join(dict.fromkeys(sources)),
        (*pair.notes, NOTE),
        bracket=" ".join(dict.fromkeys(each for each in sentences if each)),
    )


def _with_rare(few: TrialCurves, counts: TrialCounts, trials: Callable[[], TrialCurves]) -> Bracketed:
    """Return the curve of a selection of trials of few steps, whose tiny numbers come from contours.

    `few` has the curves of one trial on few cells, `trials` returns those on contours, and `counts` is the law of the
    number of trials.
    """
    from service.privacy.trade_off.combinators.bracketed import Bracketed
    from service.privacy.trade_off.combinators.rare_numbers import with_rare_numbers
    from service.privacy.trade_off.selection.pair import selected_curve

    known = selected_curve(few, counts)
    rare = cache(lambda: selected_curve(trials(), counts))
    ratios = known.dominating.outer_log_ratios
    return Bracketed(
        with_rare_numbers(known.attained, lambda: rare().attained, ratios),
        with_rare_numbers(known.dominating, lambda: rare().dominating, ratios),
    )


def _in_closed_form(mechanism: Selected, one: Plan, planners: Planners) -> Callable[[int], TradeOffPair] | None:
    """Return a function of n that gives the trade-off curves of n composed trials, in closed form.

    `planners` plan compositions of the trial. The result is None if the number of trials of `mechanism` is fixed, or if
    compositions of the trial have no fast closed form. `one` is the plan of the trial.
    """

    def composed(count: int) -> Plan:
        return planners.composed(Repeated(mechanism=mechanism.mechanism, steps=count))

    if mechanism.trials.fixed is not None or one.engine != CLOSED_FORM:
        return None
    try:
        plans = [composed(2), composed(MANY)]
    except UnsupportedCombination:
        return None
    if any(plan.engine != CLOSED_FORM or plan.cost.per_point > POINT_OF_MANY for plan in plans):
        return None
    return lambda count: composed(count).curves


def _always(known: TradeOffPair, _: int) -> TradeOffPair:
    return known


def _curves(composed: Plan) -> TradeOffPair | None:
    """Return the curves of the plan `composed` of all trials together, or None if its engine refuses them."""
    try:
        return composed.curves
    except UnsupportedCombination:
        return None
