"""Choice of the engine that composes a mechanism: one decision for the curves and for their cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final, cast

from service.privacy.composition.exact_sums.exact_runs import smoothed_responses_of
from service.privacy.composition.planning import closed_forms, contour_inversion, engines
from service.privacy.composition.planning.accuracy import BRACKET, SMOOTHED_LOSSES
from service.privacy.composition.planning.brackets import (
    ENGINES_OF_BRACKETS,
    added,
    attained,
    attained_by_one_choice,
    dominating,
    either_way,
    is_attained_as_a_whole,
    is_bracket,
    is_single,
    most_polygons,
    sentence,
    sides,
)
from service.privacy.composition.planning.cost import MOST_LAW_WORK, TABLES, expensive_laws, law_work
from service.privacy.composition.planning.cost_model import summed
from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.planning.parts import contour_parts
from service.privacy.composition.planning.plan import Plan, mixed_plan
from service.privacy.composition.planning.selection import Planners, selected_plan
from service.privacy.composition.short_runs.reach import is_short_run
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism, AbstractStep, Steps, merged
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.neighbours import ONE_ADDED, Neighbours
from service.privacy.mechanisms.selected import Selected
from service.privacy.numerics.work import is_out_of_time, within_time
from service.privacy.trade_off.abstract import CLOSED_FORM, AbstractTradeOff
from service.privacy.trade_off.atom_sums import values
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.extreme_of import EasiestOf, TighterOf
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.unknown import UnknownTradeOff

METHODS: Final = ("auto", "closed_form", "contour", *engines.ENGINES)
"""`auto`, then every engine by its name on the wire, with the strongest evidence first."""
ALONE: Final = ("auto", "closed_form")
"""Methods that evaluate the curve of a single step directly."""
CERTAIN: Final = ("auto", "closed_form", "contour", "discretised")
"""Methods whose answers are bounds."""
MOST_IN_TURN: Final = 64
"""Maximal number of steps whose dominating pairs are composed, too, where their stated bounds add up."""
MOST_PRICED: Final = 16
"""Maximal number of components of a mixture that are planned for its cost. Further components cost about as much."""


def plan(
    mechanism: AbstractMechanism,
    method: str = "auto",
    neighbours: Neighbours = ONE_ADDED,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> Plan:
    """Return the plan of the worst-case curves of a mechanism: the engine, the cost, and how to make the curves.

    The decision uses the description of the mechanism only. No memory is allocated in proportion to step counts.

    Parameters
    ----------
    mechanism : AbstractMechanism
        Steps to compose, or a mixture of mechanisms.
    method : str
        One of `METHODS`.
    neighbours : Neighbours
        Neighbouring relation of the data sets.
    options : EngineOptions
        Options of the engines.

    Returns
    -------
    Plan
        Plan whose `curves` are built on first use.

    Raises
    ------
    UnsupportedCombination
        With field `method` when that engine cannot serve the mechanism, and with field `threat_model` when the relation
        has no known curve. The error is raised here or when the curves are made.

    Notes
    -----
    `auto` takes the first of these engines that can serve, and adds `discretised` where `contour` is wide:

    - `closed_form`: one step of any kind; any number of Gaussian and gdp steps; runs of `pure_dp` and `approximate_dp`
      steps of few kinds; steps with finite lists of losses whose direct convolution is inexpensive; equal Laplace steps
      that are few enough for exact sums; one step, or such Laplace steps, composed with few steps of two losses (pure
      and approximate DP),
    - `contour`: any mix of Gaussian, gdp and Laplace steps, sampled or not, and of steps of two losses or with short
      lists of losses; the latter two alone where they are too many for sums. It does not serve a mix without a Gaussian
      step whose Laplace steps are so few that atoms dominate,
    - `discretised`: any steps.

    One step composed with steps of two losses is evaluated on contours first. The curves of a mixture are those of its
    components, mixed, each by the same method.
    """
    if method not in METHODS:
        raise UnsupportedCombination("method", f"method {method!r}", "no engine has that name.", METHODS)
    if type(mechanism) in closed_forms.PLAIN and method in ALONE:
        step = cast("AbstractStep", mechanism).under(neighbours)
        if type(step) in closed_forms.PLAIN:  # fast path: no merging and counting of steps
            return closed_forms.one_step(step)
    match mechanism:
        case Mixture():
            return _mixture(mechanism, method, neighbours, options)
        case Selected():
            in_lists = replace(options, long_lists=True)
            planners = Planners(
                partial(plan, method=method, neighbours=neighbours, options=in_lists),
                partial(plan, method=method, neighbours=neighbours, options=options),
                partial(_attained_as_a_whole, neighbours=neighbours, options=in_lists),
                partial(_short, neighbours=neighbours, method=method),
                (method, neighbours, options),
            )
            return selected_plan(mechanism, method, planners)
        case _:
            steps = steps_of(mechanism, neighbours)
            known = _composition(steps, mechanism.type, method, options)
            return replace(known, build=partial(_in_both_directions, known, steps))


def _short(
    mechanism: AbstractMechanism, neighbours: Neighbours, method: str
) -> Callable[[], TradeOffPair | None] | None:
    """Return a function that makes the curves of a short run as a whole; None if `mechanism` is no such run.

    `neighbours` is the neighbouring relation, and `method` the engine of the request.
    """
    if isinstance(mechanism, Mixture) or method not in ("auto", "discretised"):
        return None
    steps = steps_of(mechanism, neighbours)
    if not is_short_run(steps):
        return None
    return partial(_curves_of_short_run, steps)


def _curves_of_short_run(steps: Steps) -> TradeOffPair | None:
    from service.privacy.composition.short_runs.curves import short_run

    return short_run(steps)


def _attained_as_a_whole(
    mechanism: AbstractMechanism, neighbours: Neighbours, options: EngineOptions
) -> tuple[Plan, ...] | None:
    """Return plans of attacks on a mechanism, each attained by one choice of neighbouring data sets, or None.

    The result is None if one choice attains the curves of `mechanism` itself. The plans serve the lower bounds of
    selections, which need several points of one attained curve. A mixture of mechanisms has one plan, with one attack
    on each component. `neighbours` is the neighbouring relation.
    """
    if isinstance(mechanism, Mixture):
        drawn = _drawn(mechanism)
        found = [_attained_as_a_whole(part, neighbours, options) for _, part in drawn]
        if all(attacks is None for attacks in found):
            return None
        # One attack on each component: the attacker knows which component was drawn.
        parts = [
            plan(part, "auto", neighbours, options) if attacks is None else attacks[0]
            for (_, part), attacks in zip(drawn, found, strict=True)
        ]
        return (mixed_plan(parts, partial(_mixed_parts, drawn, parts)),)
    steps = steps_of(mechanism, neighbours)
    if is_attained_as_a_whole(steps):
        return None
    known = [(sides(step) or (((step, 1),), step, None), count) for step, count in steps]
    below = merged((part, count * times) for (parts, _, _), count in known for part, times in parts)
    return tuple(_composition(run, mechanism.type, "auto", options) for run in attained_by_one_choice(below))


def _in_both_directions(known: Plan, steps: Steps) -> TradeOffPair:
    """Return the curves of the plan `known` of `steps` for both directions, record added and record removed.

    Both directions share one curve object if every step is symmetric.
    """
    pair = known.curves
    if pair.add is pair.remove or not all(step.is_symmetric for step, _ in steps):
        return pair
    return replace(pair, remove=pair.add)


@lru_cache(maxsize=256)  # needed by every engine of a request, and again for its computation
def steps_of(mechanism: AbstractMechanism, neighbours: Neighbours) -> Steps:
    """Return the steps of a mechanism with their counts, each with its worst-case pair of laws between `neighbours`."""
    return merged((step.under(neighbours), count) for step, count in mechanism.elementary_steps())


@lru_cache(maxsize=16)
def _drawn(mechanism: Mixture) -> Sequence[tuple[Fraction, AbstractMechanism]]:
    return tuple(mechanism.drawn())


def pair(
    mechanism: AbstractMechanism,
    method: str = "auto",
    neighbours: Neighbours = ONE_ADDED,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> TradeOffPair:
    """Return the trade-off curves of a mechanism for both directions; parameters as for `plan`.

    `method` names the engine, `neighbours` the relation of the data sets, and `options` the accuracy.
    """
    return plan(mechanism, method, neighbours, options).curves


def _composition(steps: Steps, kind: str, method: str, options: EngineOptions) -> Plan:
    if method in ALONE and is_single(steps) and type(steps[0][0]) in closed_forms.PLAIN:
        return closed_forms.one_step(steps[0][0])
    if law_work(steps) > MOST_LAW_WORK:
        return _planned_later(steps, kind, method, options)
    return _planned_now(steps, kind, method, options)


def _planned_later(steps: Steps, kind: str, method: str, options: EngineOptions) -> Plan:
    """Plan a run whose laws cost too much for a plan: the engine is chosen when curves are first needed.

    Plans are made in the thread that serves all clients, and curves in a worker. `kind` is the type of the mechanism,
    and `method` the engine of the request.
    """
    engine = CLOSED_FORM if is_single(steps) else "discretised"
    known = closed_forms.one_step(steps[0][0]) if is_single(steps) else engines.lattices(steps, options)
    build = partial(_built_later, steps, kind, method, options)
    return Plan(engine if method == "auto" else method, summed([expensive_laws(steps), known.cost]), build)


def _built_later(steps: Steps, kind: str, method: str, options: EngineOptions) -> TradeOffPair:
    return _planned_now(steps, kind, method, options).curves


def _planned_now(steps: Steps, kind: str, method: str, options: EngineOptions) -> Plan:
    if any(step.sides() is not None for step, _ in steps):
        return _between(steps, kind, method, options)
    if is_bracket(steps):
        return _bracket(steps, kind, method, options)
    named = engines.by_name(method, steps, options)
    if named is not None:
        return named
    known = None if method == "contour" else _in_closed_form(steps, options)
    if known is not None:
        return known
    far = closed_forms.with_large_losses(steps) if method == "auto" else None
    if far is not None:
        return _beside_large_losses(far, kind, options)
    parts = contour_parts(steps)
    gaussians = closed_forms.gaussian_sum(parts) if method != "contour" else None
    if gaussians is not None:
        return gaussians
    asked = None if method == "contour" else engines.discretised
    if method != "closed_form" and parts is not None:
        return contour_inversion.invert(steps, parts, options, asked)
    beside = _beside_noise_or_losses(steps, method, options)
    if beside is not None:
        return beside
    if method == "auto":
        return _on_lattices(steps, options)
    raise _refusal(kind, method)


def _beside_large_losses(far: closed_forms.LargeLosses, kind: str, options: EngineOptions) -> Plan:
    """Plan a run with a few large losses: the plan of the other steps is shifted by the losses of the steps `far`.

    `kind` is the type of the mechanism.
    """
    rest = _composition(far.others, kind, "auto", options)
    model = rest.cost.scaled(values(far.laws))
    return Plan(rest.engine, model, partial(_shifted, rest, far))


def _shifted(rest: Plan, far: closed_forms.LargeLosses) -> TradeOffPair:
    return closed_forms.shifted_by_large_losses(rest.curves, far)


def _in_closed_form(steps: Steps, options: EngineOptions) -> Plan | None:
    """Return the plan of a single step, or of a run whose loss is an exact or tabulated sum; None for other runs."""
    if is_single(steps):
        return closed_forms.one_step(steps[0][0])
    if any(step.is_tabulated for step, _ in steps):
        return _tabulated(steps, options)
    return closed_forms.summed(steps)


def _tabulated(steps: Steps, options: EngineOptions) -> Plan:
    """Return the plan of a run whose laws of losses are built from tables when curves are first needed."""
    lattices = _on_lattices(steps, options)
    model = summed([TABLES.scaled(len(steps)), lattices.cost])
    return Plan(CLOSED_FORM, model, partial(_from_tables, steps, lattices))


def _from_tables(steps: Steps, lattices: Plan) -> TradeOffPair:
    known = within_time(closed_forms.summed, lambda _: None, steps)  # tables need seconds for very many reports
    return (known or lattices).curves


def _beside_noise_or_losses(steps: Steps, method: str, options: EngineOptions) -> Plan | None:
    """Return the plan of a run whose loss has no density and too many values for exact sums, or None.

    Such a run is evaluated on contours with a little added Gaussian noise, or as a closed form shifted by the losses
    +-epsilon of other steps. `method` is the engine of the request. The result is None for other runs.
    """
    asked = None if method == "contour" else engines.discretised
    many = smoothed_responses_of(steps) if method != "closed_form" else None
    if many is not None:
        return contour_inversion.beside_a_little_noise(many, steps, options, asked)
    beside = None if method == "contour" else closed_forms.beside_two_points(steps)
    if beside is not None or method == "closed_form":
        return beside
    return contour_inversion.listed_beside_a_little_noise(steps, options, asked)


def _on_lattices(steps: Steps, options: EngineOptions) -> Plan:
    """Return the plan of the lattice engine, with lower bounds from sub-runs (some of the steps).

    For two steps, a closed form serves requests of few numbers.
    """
    options = options.no_finer_than(SMOOTHED_LOSSES) if contour_inversion.has_many_losses(steps) else options
    known = engines.lattices(steps, options)
    return replace(known, build=partial(_bounded_lattices, known, steps, options))


def _bounded_lattices(known: Plan, steps: Steps, options: EngineOptions) -> TradeOffPair:
    pair = contour_inversion.few_of_two_steps(steps, known.curves)
    return contour_inversion.bounded_by_sub_runs(contour_inversion.smoothed_where_wide(pair, steps, options), steps)


def _bracket(steps: Steps, kind: str, method: str, options: EngineOptions) -> Plan:
    """Plan a run without a single worst-case pair between two compositions.

    The lower bound composes the pair that an attack on one choice attains in every step. The upper bound composes the
    dominating pairs of all steps. If that choice serves both directions, as the step's own pair does, both directions
    of the attained runs are lower bounds of both curves. `kind` is the type of the mechanism, and `method` the engine
    of the request.
    """
    if method not in ENGINES_OF_BRACKETS:
        reason = (
            "no pair of data sets is known that is the worst case of every step, so no single loss "
            "distribution exists. Two theorems enclose the worst case."
        )
        raise UnsupportedCombination("method", f"{method} for steps of {kind}", reason, ENGINES_OF_BRACKETS)
    looser, loose = map(options.no_finer_than, BRACKET)
    below = [_composition(each, kind, "auto", looser) for each in attained(steps)]
    above = _above(steps, kind, method, options, loose)
    cost = summed([*(each.cost for each in below), *(each.cost for each in above)])
    return Plan(above[0].engine, cost, partial(_between_theorems, below, above, steps))


def _above(steps: Steps, kind: str, method: str, options: EngineOptions, loose: EngineOptions) -> list[Plan]:
    """Plan the upper bounds of a run: compositions of dominating pairs, and stated bounds that add up.

    `kind` and `method` choose the engine of a composition as in `_composition`. `options` are those of the request.
    `loose` are coarser options, for upper bounds that are not attained in any case.
    """
    plans: list[Plan] = []
    together = added(steps)
    if together != steps:
        if is_single(together):
            plans.append(closed_forms.one_step(together[0][0]))
        else:
            plans += _above(together, kind, method, options, loose)
        if len(steps) - len(together) >= most_polygons(steps) or sum(count for _, count in steps) > MOST_IN_TURN:
            return plans
    most = dominating(steps)
    if not is_bracket(most) or contour_parts(most) is not None:
        return [*plans, _composition(most, kind, method, options)]
    if method == "auto" and any(step.is_tabulated for step, _ in most):
        known = closed_forms.one_step(most[0][0]) if is_single(most) else _tabulated(most, loose)
        return [*plans, known]
    known = engines.lattices(most, loose)
    return [*plans, replace(known, build=partial(_guaranteed, known, most))]


def _guaranteed(known: Plan, steps: Steps) -> TradeOffPair:
    return contour_inversion.bounded_by_guarantees(known.curves, steps)


def _between_theorems(below: Sequence[Plan], above: Sequence[Plan], steps: Steps) -> TradeOffPair:
    lower, upper = [plan.curves for plan in below], _tightest([plan.curves for plan in above])
    if either_way(steps):
        attained = _strongest([each.both for each in lower])
        add = Bracketed(attained, upper.add)
        pairs = [step.curves() for step, _ in steps]
        remove = add if all(each.add is each.remove for each in pairs) else Bracketed(attained, upper.remove)
    else:
        add = Bracketed(_strongest([each.add for each in lower]), upper.add)
        remove = Bracketed(_strongest([each.remove for each in lower]), upper.remove)
    return TradeOffPair(add, remove, upper.source, upper.notes, bracket=sentence(steps))


def _strongest(curves: Sequence[AbstractTradeOff]) -> AbstractTradeOff:
    """Return a lower bound of the worst case: at each rate, the strongest of several attacks.

    Each of the `curves` is that of an attained run.
    """
    return curves[0] if len(curves) == 1 else EasiestOf(tuple(curves))


def _tightest(pairs: Sequence[TradeOffPair]) -> TradeOffPair:
    """Return the pair of curves whose numbers are the smallest of several upper bounds of a worst case.

    Each of the `pairs` bounds both directions of the worst case from above.
    """
    if len(pairs) == 1:
        return pairs[0]
    add, remove = (TighterOf(curves) for curves in zip(*((each.add, each.remove) for each in pairs), strict=True))
    return replace(pairs[-1], add=add, remove=add if all(each.add is each.remove for each in pairs) else remove)


def _between(steps: Steps, kind: str, method: str, options: EngineOptions) -> Plan:
    """Plan a run whose steps have separate bounds: one composition for lower and one for upper bounds.

    The lower bounds compose attained pairs of laws, and the upper bounds dominating pairs. `kind` is the type of the
    mechanism, and `method` the engine of the request.
    """
    known = [(sides(step) or (((step, 1),), step, None), count) for step, count in steps]
    above = merged((dominating, count) for (_, dominating, _), count in known)
    sentences = dict.fromkeys(bracket for (_, _, bracket), _ in known if bracket)
    if method not in CERTAIN:
        if sentences:
            reason = (
                "two theorems enclose its worst case, and an estimate of one theorem is not an estimate of "
                "the worst case."
            )
            raise UnsupportedCombination("method", f"{method} for {kind} of several records", reason, CERTAIN)
        return _composition(above, kind, method, options)
    below = merged((part, count * times) for (parts, _, _), count in known for part, times in parts)
    least = _composition(below, kind, "auto" if sentences else method, options)
    most = _composition(above, kind, method, options)
    return Plan(most.engine, summed([least.cost, most.cost]), partial(_enclosed, least, most, tuple(sentences)))


def _enclosed(least: Plan, most: Plan, sentences: tuple[str, ...]) -> TradeOffPair:
    lower, upper = least.curves, most.curves
    add = Bracketed(lower.add, upper.add)
    one_curve = lower.add is lower.remove and upper.add is upper.remove
    remove = add if one_curve else Bracketed(lower.remove, upper.remove)
    brackets = dict.fromkeys((*sentences, *(each.bracket for each in (lower, upper) if each.bracket)))
    return TradeOffPair(add, remove, upper.source, upper.notes, bracket=" ".join(brackets) or None)


def _mixture(mechanism: Mixture, method: str, neighbours: Neighbours, options: EngineOptions) -> Plan:
    drawn = _drawn(mechanism)
    if len(drawn) == 1:
        return plan(drawn[0][1], method, neighbours, options)
    options = options.for_components(len(drawn))
    priced = [plan(part, method, neighbours, options) for _, part in drawn[:MOST_PRICED]]
    build = partial(_mixed, mechanism, priced, method, neighbours, options)
    return mixed_plan([priced[number % len(priced)] for number in range(len(drawn))], build)


def _mixed(
    mechanism: Mixture, priced: list[Plan], method: str, neighbours: Neighbours, options: EngineOptions
) -> TradeOffPair:
    """Return the curves of a mixture from those of its components, each by the engine `method`.

    `neighbours` is the neighbouring relation. `priced` holds the plans of the first components, which were made to
    estimate the cost.
    """
    drawn = _drawn(mechanism)
    rest = [plan(part, method, neighbours, options) for _, part in drawn[len(priced) :]]
    return _mixed_parts(drawn, [*priced, *rest])


def _mixed_parts(drawn: Sequence[tuple[Fraction, AbstractMechanism]], plans: Sequence[Plan]) -> TradeOffPair:
    """Return the curves of a mixture of mechanisms.

    `drawn` has pairs (probability, component), and `plans` the plan of each component.
    """
    from service.privacy.trade_off.mixture.curve import mixed

    reason = (
        "mixture: the profiles of the components mix linearly. The bound holds even if the attacker "
        "learns which component was drawn."
    )
    source = "Leemann et al. 2023, Definition 4.1 (stochastic composition), by joint convexity"
    return mixed([share for share, _ in drawn], [_curves_in_time(each) for each in plans], source, reason)


def _curves_in_time(known: Plan) -> TradeOffPair:
    """Return the curves of a component of a mixture, or curves of which nothing is known in a request out of time."""
    if not is_out_of_time() or known.engine not in CERTAIN:
        return known.curves
    unknown = UnknownTradeOff()
    return TradeOffPair(unknown, unknown, "bounds of guessing")


def _refusal(kind: str, method: str) -> UnsupportedCombination:
    others = tuple(name for name in METHODS if name != method)
    if method == "closed_form":
        reason = (
            "a closed form of several steps needs steps of one kind: all Gaussian, all pure or approximate DP with few "
            "different parameters, "
        )
        reason += "or a moderate number of equal Laplace steps."
        return UnsupportedCombination("method", f"closed_form for {kind}", reason, others)
    reason = (
        "contour inversion needs a Gaussian step, many Laplace steps of moderate loss, or many steps "
        "of pure or approximate DP alone. It also needs known cumulants."
    )
    return UnsupportedCombination("method", f"contour for {kind}", reason, others)
