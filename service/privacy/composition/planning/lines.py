"""Runs that the contour engine reads, with lattices beside it where it is wide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from service.privacy.composition.exact_sums.exact_runs import Responses, smoothed_curve
from service.privacy.composition.inversion.loss_shape import is_direct
from service.privacy.composition.inversion.two_step_run import is_two_steps, two_steps_pair
from service.privacy.composition.planning import closed_forms, cost
from service.privacy.composition.planning.accuracy import DEFAULT_ACCURACY, SECOND_ENGINE, SMOOTHED_RESPONSES, Accuracy
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.parts import Counted, contour_parts
from service.privacy.composition.planning.plan import Plan
from service.privacy.composition.planning.sub_runs import with_parts
from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import between
from service.privacy.trade_off.combinators.by_size_of_query import BySizeOfQuery
from service.privacy.trade_off.combinators.intersected import Intersected
from service.privacy.trade_off.combinators.second_engine import SecondEngine
from service.privacy.trade_off.combinators.with_singular_mass import SingularMass, WithSingularMass
from service.privacy.trade_off.pair import TradeOffPair

CONTOUR: Final = "contour"
SMALLEST_SECOND: Final = 1e-6
"""About the standard deviation of the loss below which no second engine is asked: such runs reveal next to nothing."""
MOST_ON_LATTICES: Final = 128
"""Different steps up to which a second engine is asked: each has a law of its own on every lattice, some 10 ms."""

Lattices = Callable[[Steps, EngineOptions], TradeOffPair]


def on_lines(steps: Steps, parts: tuple[Counted, ...], options: EngineOptions, lattices: Lattices | None) -> Plan:
    """`parts`: of the steps. `lattices`: what is asked where lines are wide; None where nothing is. Raises
    UnsupportedCombination for a relation under which a sampled step has no pair.
    """
    if (
        closed_forms.root_of_squares((part.spread, count) for part, count in parts) < SMALLEST_SECOND
        or len(steps) > MOST_ON_LATTICES
    ):
        lattices = None

    ends = tuple(dict.fromkeys(tuple((step.rounded(side), count) for step, count in steps) for side in (-1, 1)))
    model = cost.contour(parts, len(ends), beside_lattices=lattices is not None)
    return Plan(CONTOUR, model, partial(_on_contours, steps, ends, options, lattices))


def _on_contours(
    steps: Steps, ends: tuple[Steps, ...], options: EngineOptions, lattices: Lattices | None
) -> TradeOffPair:
    read = [_lines(end, options, lattices) for end in ends]
    if len(read) == 1:
        return read[0]
    bracket = replace(read[0], add=between([one.add for one in read]), remove=between([one.remove for one in read]))
    covered = [(step.covered(), count) for step, count in steps]
    known = tuple((part, count) for part, count in covered if part is not None)
    return bracket if len(known) < len(covered) else _before(_contour(known, options.accuracy), bracket, options)


def _before(lines: TradeOffPair, bracket: TradeOffPair, options: EngineOptions) -> TradeOffPair:
    """Lines that know the errors of weights, and where they are wide what is read at two roundings of them."""
    tolerance = options.no_finer_than(SECOND_ENGINE).relative_tolerance
    add = Intersected(lines.add, lambda: bracket.add, tolerance)
    return replace(bracket, add=add, remove=add.reversed())


def few_of_two_steps(steps: Steps, lattices: TradeOffPair) -> TradeOffPair:
    """The curves of lattices, where few numbers of a run of two steps are asked for those of its closed form."""
    direct = two_steps_pair(steps) if is_two_steps(steps) else None
    if direct is None:
        return lattices
    add = BySizeOfQuery(direct.add, lattices.add)
    return replace(lattices, add=add, remove=add.reversed(), notes=(*lattices.notes, *direct.notes))


def beside_a_little_noise(run: Responses, steps: Steps, options: EngineOptions, lattices: Lattices | None) -> Plan:
    """Runs of too many responses for exact sums."""

    return Plan(CONTOUR, cost.smoothed(len(run.answers)), partial(_smoothed, run, steps, options, lattices))


def _smoothed(run: Responses, steps: Steps, options: EngineOptions, lattices: Lattices | None) -> TradeOffPair:
    curve = smoothed_curve(run)
    reason = "contour: a line reads the run beside a Gaussian step of next to no shift; what that step adds is bounded."
    source = "Murtagh, Vadhan 2016, Theorem 1.5; Kairouz, Oh, Viswanath 2015, Theorem 3.5"
    lines = TradeOffPair(curve, curve, source, (reason,))
    if lattices is None:
        return lines
    return beside_parts(_with_second(lines, steps, options.no_finer_than(SMOOTHED_RESPONSES), lattices), steps)


def _lines(steps: Steps, options: EngineOptions, lattices: Lattices | None) -> TradeOffPair:
    """A run that has lines, all of whose parameters are doubles."""
    lines = _contour(contour_parts(steps) or (), options.accuracy)
    if lattices is None:
        return lines
    return beside_parts(_with_second(lines, steps, options, lattices), steps)


def _contour(parts: tuple[Counted, ...], accuracy: Accuracy = DEFAULT_ACCURACY) -> TradeOffPair:
    # Imported when first needed: closed forms answer without it.
    from service.privacy.composition.inversion.engine import contour_pair
    from service.privacy.composition.summands.catalogue import described_run

    run = described_run(parts)
    reason = "contour: cumulant generating functions of the steps add up; a certified line integral reads the sum."
    add, remove = contour_pair(run.gaussian_mu_squared, run.summands, accuracy=accuracy)
    mass = SingularMass.of(run.revealing)
    if mass.mass.upper > 0:
        add = WithSingularMass(add, mass)
        remove = add.reversed()
    return TradeOffPair(
        add, remove, "Zhu, Dong, Wang 2022, Theorems 10 and 11 (composition of dominating pairs)", (reason,)
    )


def _with_second(lines: TradeOffPair, steps: Steps, options: EngineOptions, lattices: Lattices) -> TradeOffPair:
    options = options.no_finer_than(SECOND_ENGINE)
    tolerance = options.relative_tolerance
    direct = two_steps_pair(steps) if is_two_steps(steps) else None
    if direct is not None and is_direct(contour_parts(steps) or ()):
        return _few_directly(direct, lines, tolerance)

    def second() -> AbstractTradeOff:
        if direct is not None:
            return direct.add
        return lattices(steps, options).add

    name = "discretised" if direct is None else "closed_form of one step, shifted by the other"
    asked = SecondEngine(f"{name}: also asked, since contour was wider than {tolerance:g}; both enclosures hold.")
    add = Intersected(lines.add, second, tolerance, asked)
    return replace(lines, add=add, remove=add.reversed(), second=asked)


def _few_directly(direct: TradeOffPair, lines: TradeOffPair, tolerance: float) -> TradeOffPair:
    """Two steps of which one has so little noise that lines would be wide: they read long lists, and what is wide."""
    asked = SecondEngine(f"contour: also asked, since closed_form was wider than {tolerance:g}; both enclosures hold.")
    add = BySizeOfQuery(Intersected(direct.add, lambda: lines.add, tolerance, asked), lines.add)
    return replace(lines, add=add, remove=add.reversed(), notes=(*lines.notes, *direct.notes), second=asked)


def beside_parts(whole: TradeOffPair, steps: Steps) -> TradeOffPair:
    """The curves of a run, where they are wide no lower than those of parts with a closed form or a line."""
    return with_parts(whole, steps, _cheaply)


def _cheaply(part: Steps) -> TradeOffPair | None:
    if len(part) == 1 and part[0][1] == 1:
        return part[0][0].curves()
    summed = closed_forms.summed(part)
    if summed is not None:
        return summed.curves
    part = tuple((step.rounded(-1), count) for step, count in part)  # revealing no more
    known = contour_parts(part)
    if known is None:
        return None
    gaussians = closed_forms.gaussian_sum(known)
    return _contour(known) if gaussians is None else gaussians.curves
