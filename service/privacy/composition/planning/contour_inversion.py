"""Plans of runs for the contour engine, with a second engine where its enclosures are wide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from service.privacy.composition.exact_sums.exact_runs import Responses, smoothed_curve
from service.privacy.composition.inversion.loss_shape import has_distant_shifts, is_direct
from service.privacy.composition.inversion.two_step_run import is_two_steps, two_steps_pair
from service.privacy.composition.planning import closed_forms, cost
from service.privacy.composition.planning.accuracy import (
    DEFAULT_ACCURACY,
    SECOND_ENGINE,
    SMOOTHED_LOSSES,
    SMOOTHED_RESPONSES,
    Accuracy,
)
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.parts import (
    LARGEST_LAPLACE,
    MOST_LAPLACE,
    Counted,
    contour_parts,
    listed_laws,
    shifts_beside,
)
from service.privacy.composition.planning.plan import Plan
from service.privacy.composition.planning.sub_runs import with_guarantees, with_sub_runs
from service.privacy.limit import WidthLimit
from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.atom_sums import lattice_of
from service.privacy.trade_off.combinators.advantage_sum import AdvantageSum
from service.privacy.trade_off.combinators.bracketed import between
from service.privacy.trade_off.combinators.by_size_of_query import BySizeOfQuery
from service.privacy.trade_off.combinators.intersected import Intersected
from service.privacy.trade_off.combinators.second_engine import SecondEngine
from service.privacy.trade_off.combinators.with_singular_mass import with_singular_mass
from service.privacy.trade_off.pair import TradeOffPair

CONTOUR: Final = "contour"
SMALLEST_SECOND: Final = 1e-6
"""Approximate deviation of the loss below which there is no second engine: such runs reveal next to nothing."""
MOST_ON_LATTICES: Final = 128
"""Maximal number of different steps with a second engine. Each step costs about 10 ms on every lattice."""

MOST_LOSSES: Final = 32
"""Maximal number of losses of all steps of two losses together, beside the closed form of another step.

The closed form is evaluated for each of these losses.
"""

MOST_SMOOTHED: Final = 1_024
"""Maximal number of losses of all steps, some of them rare and large, on contours beside a little noise."""

Lattices = Callable[[Steps, EngineOptions], TradeOffPair]


def invert(steps: Steps, parts: tuple[Counted, ...], options: EngineOptions, lattices: Lattices | None) -> Plan:
    """Plan contour inversion of a run.

    Parameters
    ----------
    steps : Steps
        Steps of the run.
    parts : tuple of Counted
        Descriptions of the steps for the contour engine, with counts.
    options : EngineOptions
        Options of the engines.
    lattices : callable or None
        Function that builds the curves of the second engine, on lattices; None without this engine.

    Raises
    ------
    UnsupportedCombination
        For a neighbouring relation under which a sampled step has no known worst-case pair.
    """
    limit = _why_one_engine(steps, parts, lattices)
    if limit is not None:
        lattices = None
    roundings = tuple(dict.fromkeys(tuple((step.rounded(side), count) for step, count in steps) for side in (-1, 1)))
    model = cost.contour(parts, len(roundings), beside_lattices=lattices is not None)
    return Plan(CONTOUR, model, partial(_with_limit, steps, roundings, options, lattices, limit))


def _why_one_engine(steps: Steps, parts: tuple[Counted, ...], lattices: Lattices | None) -> WidthLimit | None:
    """Return the reason why no lattice supplements the contours of a run; None if one does.

    `parts` are the step descriptions of the run, and `lattices` is the function that builds its curves on lattices, or
    None.
    """
    if len(steps) > MOST_ON_LATTICES:
        return WidthLimit.MANY_STEPS
    if closed_forms.root_of_squares((part.spread, count) for part, count in parts) < SMALLEST_SECOND:
        return WidthLimit.SMALL_LOSS
    return WidthLimit.ONE_ENGINE if lattices is None else None


def _with_limit(
    steps: Steps,
    roundings: tuple[Steps, ...],
    options: EngineOptions,
    lattices: Lattices | None,
    limit: WidthLimit | None,
) -> TradeOffPair:
    pair = _on_contours(steps, roundings, options, lattices)
    if limit is WidthLimit.SMALL_LOSS:
        pair = bounded_by_sub_runs(_below_advantages(pair, roundings[-1]), roundings[0], roundings[-1])
    return replace(pair, limit=limit)


def _below_advantages(whole: TradeOffPair, steps: Steps) -> TradeOffPair:
    """Return the curves `whole` of a run, bounded by the sum of the total variation distances of its steps.

    The total variation distance of a step is the delta of the step at epsilon 0.
    """

    def advantages() -> float:
        return math.fsum(count * step.curves().add.profile_at(0.0).upper for step, count in steps) * (1 + 1e-15)

    add = AdvantageSum(whole.add, advantages)
    return replace(whole, add=add, remove=add if whole.remove is whole.add else add.reversed())


def _on_contours(
    steps: Steps, roundings: tuple[Steps, ...], options: EngineOptions, lattices: Lattices | None
) -> TradeOffPair:
    covered = [(step.covered(), count) for step, count in steps]
    known = tuple((part, count) for part, count in covered if part is not None)
    if len(known) == len(covered):
        return _inverted(known, roundings, options, lattices)
    read = [_inverted(contour_parts(rounding) or (), (rounding,), options, lattices) for rounding in roundings]
    return replace(read[0], add=between([one.add for one in read]), remove=between([one.remove for one in read]))


def few_of_two_steps(steps: Steps, lattices: TradeOffPair) -> TradeOffPair:
    """Return the curves of a run: few numbers of a two-step run in closed form, and the others by lattices.

    `lattices` are the curves from lattices, returned unchanged for runs that are not two such `steps`.
    """
    direct = two_steps_pair(steps) if is_two_steps(steps) else None
    if direct is None:
        return lattices
    add = BySizeOfQuery(direct.add, lattices.add)
    return replace(lattices, add=add, remove=add.reversed(), notes=(*lattices.notes, *direct.notes))


def beside_a_little_noise(run: Responses, steps: Steps, options: EngineOptions, lattices: Lattices | None) -> Plan:
    """Plan a run of (epsilon, delta)-DP steps that has too many different steps for exact sums.

    The plan inverts the transform of the run composed with a little Gaussian noise. `lattices` is a second engine, or
    None. `run` has these steps, and `options` are the engine options of the request.
    """
    return Plan(CONTOUR, cost.smoothed(len(run.answers)), partial(_smoothed, run, steps, options, lattices))


def listed_beside_a_little_noise(steps: Steps, options: EngineOptions, lattices: Lattices | None) -> Plan | None:
    """Plan a run of steps with finite lists of losses, too many for direct sums; None for other runs.

    The plan inverts the transform of the run composed with a little Gaussian noise. `lattices` is a second engine, or
    None. `options` are the engine options of the request.
    """
    laws = listed_laws(steps)
    are_listed = all(part is not None and part.has_finite_losses for part in (step.part() for step, _ in steps))
    is_run = sum(count for _, count in steps) > 1
    if not (is_run and are_listed and laws):
        return None
    if lattices is not None and has_many_losses(steps):
        return None
    losses = sum(law.heavy for law in laws)
    return Plan(CONTOUR, cost.listed(losses), partial(_listed_smoothed, steps, options, lattices))


def has_many_losses(steps: Steps) -> bool:
    """Return whether the lists of losses of a run are long, with a list that is neither symmetric nor on a lattice.

    Contours of such runs are long if large losses are rare. `steps` has pairs (mechanism, number of steps).
    """
    laws = listed_laws(steps)
    are_many = sum(law.heavy for law in laws) > MOST_SMOOTHED
    return are_many and any(lattice_of(law) is None and not law.is_symmetric for law in laws)


def smoothed_where_wide(whole: TradeOffPair, steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Return the curves `whole` of a run on lattices, supplemented by contours where their enclosures are wide.

    Contours serve runs of steps with finite lists of losses and of Laplace steps. They invert the transform of the run
    composed with a little Gaussian noise. `options` are the engine options of the request.
    """
    parts = [part for step, _ in steps if (part := step.part()) is not None]
    laplace = [part.laplace[0] for part in parts if part.laplace is not None]
    is_served = sum(part.has_finite_losses for part in parts) + len(laplace) == len(steps)
    if not is_served or options.long_lists or len(laplace) > MOST_LAPLACE or max(laplace, default=0) > LARGEST_LAPLACE:
        return whole
    tolerance = options.no_finer_than(SMOOTHED_RESPONSES).relative_tolerance
    asked = SecondEngine(_note_of_second("discretised", CONTOUR, tolerance))
    add = Intersected(whole.add, lambda: _smoothed_sum(steps, options), tolerance, asked)
    return replace(whole, add=add, remove=add.reversed(), second=asked)


def _smoothed_sum(steps: Steps, options: EngineOptions) -> AbstractTradeOff:
    """Return the add curve of a run whose losses have no density, from contours with a little added Gaussian noise."""
    from service.privacy.composition.exact_sums.smoothed_atoms import SmoothedAtoms
    from service.privacy.composition.summands.catalogue import described_run

    run = described_run([(part, count) for step, count in steps if (part := step.part()) is not None])
    return with_singular_mass(SmoothedAtoms.of(run.summands, options.accuracy), run.revealing)


def _listed_smoothed(steps: Steps, options: EngineOptions, lattices: Lattices | None) -> TradeOffPair:
    add = _smoothed_sum(steps, options)
    reason = (
        "contour: contour inversion gives the run beside a Gaussian step of negligible shift. Two such steps bound the "
        "effect of the step."
    )
    source = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)"
    inverted = TradeOffPair(add, add.reversed(), source, (reason,))
    if lattices is None:
        return inverted
    return bounded_by_sub_runs(
        _with_second(inverted, (steps,), options.no_finer_than(SMOOTHED_LOSSES), lattices), steps
    )


def _smoothed(run: Responses, steps: Steps, options: EngineOptions, lattices: Lattices | None) -> TradeOffPair:
    curve = smoothed_curve(run)
    reason = (
        "contour: contour inversion gives the run without a Gaussian step of negligible shift. A "
        "bound covers the effect of that step."
    )
    source = "Murtagh, Vadhan 2016, Theorem 1.5; Kairouz, Oh, Viswanath 2015, Theorem 3.5"
    inverted = TradeOffPair(curve, curve, source, (reason,))
    if lattices is None:
        return inverted
    return bounded_by_sub_runs(
        _with_second(inverted, (steps,), options.no_finer_than(SMOOTHED_RESPONSES), lattices), steps
    )


def _inverted(
    parts: tuple[Counted, ...], roundings: tuple[Steps, ...], options: EngineOptions, lattices: Lattices | None
) -> TradeOffPair:
    """Return the curves of a run by contour inversion, and by a second engine, `lattices`, unless None.

    `parts` are the step descriptions of the run, with bounds of the errors of parameters that are not doubles.
    `roundings` holds the steps of the run with parameters rounded to doubles, once down and once up.
    """
    inverted = _contour(parts, options.accuracy)
    if lattices is None:
        return inverted
    return bounded_by_sub_runs(_with_second(inverted, roundings, options, lattices), roundings[0], roundings[-1])


def _contour(parts: tuple[Counted, ...], accuracy: Accuracy = DEFAULT_ACCURACY) -> TradeOffPair:
    # Imported when first needed, because closed forms do not need it.
    from service.privacy.composition.inversion.engine import contour_pair
    from service.privacy.composition.summands.catalogue import described_run

    run = described_run(parts)
    reason = (
        "contour: the cumulant generating functions of the steps add up, and a certified contour "
        "integral inverts the sum."
    )
    known, remove = contour_pair(run.gaussian_mu_squared, run.summands, accuracy=accuracy)
    add = with_singular_mass(known, run.revealing)
    remove = remove if add is known else add.reversed()
    return TradeOffPair(
        add, remove, "Zhu, Dong, Wang 2022, Theorems 10 and 11 (composition of dominating pairs)", (reason,)
    )


def _with_second(
    inverted: TradeOffPair, roundings: tuple[Steps, ...], options: EngineOptions, lattices: Lattices
) -> TradeOffPair:
    if options.long_lists:
        return inverted
    options = options.no_finer_than(SECOND_ENGINE)
    tolerance = options.relative_tolerance
    direct = _closed_form_of(roundings)
    if direct is not None and is_direct(contour_parts(roundings[0]) or ()):
        return _few_first(direct, inverted, "closed_form", tolerance)

    def second() -> AbstractTradeOff:
        if direct is not None:
            return direct.add
        return between([lattices(rounding, options).add for rounding in roundings])

    if direct is None and has_distant_shifts(contour_parts(roundings[0]) or ()):
        return _few_first(replace(inverted, add=second(), notes=()), inverted, "discretised", tolerance)
    asked = SecondEngine(_note_of_second("contour", "discretised" if direct is None else "closed_form", tolerance))
    add = Intersected(inverted.add, second, tolerance, asked)
    return replace(inverted, add=add, remove=add.reversed(), second=asked)


def _closed_form_of(roundings: tuple[Steps, ...]) -> TradeOffPair | None:
    """Return the closed form of a short run, enclosed by those of its roundings; None if one has no closed form.

    `roundings` holds the steps with parameters rounded to doubles, once down and once up.
    """
    pairs = [pair for rounding in roundings if (pair := _of_few_steps(rounding)) is not None]
    if len(pairs) < len(roundings):
        return None
    add = between([pair.add for pair in pairs])
    return replace(pairs[0], add=add, remove=add.reversed())


def _of_few_steps(steps: Steps) -> TradeOffPair | None:
    """Return the closed form of a short run; None for other runs.

    Short runs have two steps, or one step and few steps with two losses +-epsilon.
    """
    found = shifts_beside(steps)
    if found is None or found[1] > MOST_LOSSES or found[1] == 1:
        return two_steps_pair(steps)
    return closed_forms.shifted(steps, (found[0],))


def _few_first(first: TradeOffPair, inverted: TradeOffPair, name: str, tolerance: float) -> TradeOffPair:
    """Return the curves of a run whose contours need many nodes, from two engines.

    The engine `first`, with the given name, serves requests of few numbers. The curves `inverted` of contour inversion
    serve long lists, and numbers of `first` with a relative width above `tolerance`.
    """
    asked = SecondEngine(_note_of_second(name, "contour", tolerance))
    add = BySizeOfQuery(Intersected(first.add, lambda: inverted.add, tolerance, asked), inverted.add)
    return replace(inverted, add=add, remove=add.reversed(), notes=(*inverted.notes, *first.notes), second=asked)


def _note_of_second(first: str, second: str, tolerance: float) -> str:
    return f"{second}: also computed, because the result of {first} was wider than {tolerance:g}. Both enclosures hold."


def bounded_by_sub_runs(whole: TradeOffPair, steps: Steps, above: Steps | None = None) -> TradeOffPair:
    """Return the curves `whole` of a run, with bounds from sub-runs where enclosures are wide.

    A sub-run has some of the steps, and its own closed form or contour. No sub-run is easier to attack than the run,
    and the guarantees of sub-runs add up. `steps` reveal no more than those of the run, and `above` no less; by default
    both are equal.
    """
    return with_sub_runs(bounded_by_guarantees(whole, steps if above is None else above), steps, _inexpensive_curves)


def bounded_by_guarantees(whole: TradeOffPair, steps: Steps) -> TradeOffPair:
    """Return the curves `whole` of a run, with upper bounds from guarantees of sub-runs where enclosures are wide.

    `steps` reveal no less than those of the run.
    """
    return with_guarantees(whole, steps, partial(_inexpensive_curves, side=1))


def _inexpensive_curves(part: Steps, side: Literal[-1, 1] = -1) -> TradeOffPair | None:
    """Return the trade-off curves of a sub-run `part` in closed form or by contours; None if neither serves.

    Parameters are rounded so that the sub-run reveals no more (`side` -1) or no less (`side` 1).
    """
    if len(part) == 1 and part[0][1] == 1:
        return part[0][0].curves()
    summed = closed_forms.summed(part)
    if summed is not None:
        return summed.curves
    part = tuple((step.rounded(side), count) for step, count in part)
    known = contour_parts(part)
    if known is None:
        return None
    gaussians = closed_forms.gaussian_sum(known)
    return _contour(known) if gaussians is None else gaussians.curves
