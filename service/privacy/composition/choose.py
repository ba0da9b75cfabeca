"""Which engine composes a mechanism, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from service.privacy.composition.brackets import (
    ENGINES_OF_BRACKETS,
    attained,
    dominating,
    is_bracket,
    is_single,
    sentence,
)
from service.privacy.composition.laplace_reach import can_sum
from service.privacy.composition.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.parts import Counted, contour_parts, several_exponentials, shifts_beside
from service.privacy.composition.responses import Responses, responses_of, smoothed_responses_of
from service.privacy.composition.sub_runs import with_parts
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import (
    AbstractMechanism,
    AbstractStep,
    GaussianPart,
    LaplacePart,
    SampledGaussianPart,
    Steps,
    TwoPointPart,
)
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.bracketed import Bracketed, between
from service.privacy.trade_off.gaussian import gaussian_curve
from service.privacy.trade_off.intersected import Intersected
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.second_engine import SecondEngine
from service.privacy.trade_off.with_singular_mass import SingularMass, WithSingularMass

METHODS: Final = (
    "auto",
    "closed_form",
    "contour",
    "discretised",
    "saddlepoint",
    "edgeworth",
    "clt",
    "monte_carlo",
    "ground_truth",
)
"""`auto`, then every engine by its name on the wire, strongest evidence first among equals."""
SMALLEST_SECOND: Final = 1e-6
"""About the standard deviation of the loss below which no second engine is asked: such runs reveal next to nothing."""
WIDEST_SECOND: Final = 1e-6
"""Relative width to which a second engine is asked: further, its lattices would cost seconds for every number."""

DIRECT_NOISE: Final = 0.5
"""Noise multiplier of a sampled step below which the line of two steps is long, and often wide."""

SMOOTHED_TOLERANCE: Final = 1e-3
"""The same for a run that is read with a little noise: where losses are far apart, lattices are no better by much."""

BRACKET_TOLERANCES: Final = (1e-4, 1e-6)
"""Relative widths to which the ends of a bracket are asked for at best. Below, both directions are read for every
number, mostly on lines, which have more digits than are asked for; where lattices are needed, they cost seconds each.
"""

Engine = Callable[[Steps, float, EngineOptions], TradeOffPair]
"""(steps, sensitivity, options) -> curves; UnsupportedCombination with field `method` for what it cannot serve."""


def pair(
    mechanism: AbstractMechanism,
    method: str = "auto",
    sensitivity: float = 1.0,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> TradeOffPair:
    """The worst-case curves of a mechanism.

    `closed_form` serves one step of any kind, any number of Gaussian and gdp steps, runs of `pure_dp` and
    `approximate_dp` steps of few kinds, and runs of equal Laplace steps that are not too long for exact sums, or one
    step or such a run beside few steps of two losses (pure and approximate DP); `contour` any mix of Gaussian, gdp and
    Laplace steps, sampled or not, and of steps of two losses, unless no Gaussian is among them and the Laplace steps
    are so few that atoms rule, and steps of two losses alone that are too many for sums; `discretised` any steps.
    `auto` takes the first that can, and asks `discretised` too where `contour` is wide. A mixture has the mixed curves
    of its components, each by the same method.
    Raises UnsupportedCombination with field `method` when the engine asked for cannot, with field `threat_model` when
    the relation has no known curve.
    """
    if method not in METHODS:
        raise UnsupportedCombination("method", f"method {method!r}", "no engine has that name.", METHODS)
    if isinstance(mechanism, Mixture):
        return _mixture(mechanism, method, sensitivity, options)
    return _composition(mechanism.elementary_steps(), mechanism.type, method, sensitivity, options)


def _composition(steps: Steps, kind: str, method: str, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    """`pair` of the steps of a mechanism of this kind."""
    if is_bracket(steps, sensitivity):
        return _bracket(steps, kind, method, sensitivity, options)
    engine = _engine(method, steps)
    if engine is not None:
        return engine(steps, sensitivity, options)
    if method != "contour" and is_single(steps):
        alone = steps[0][0].curves(sensitivity)
        return replace(alone, notes=(*alone.notes, "closed_form: a single step has an exact curve."))
    summed = _summed(steps, sensitivity) if method != "contour" else None
    if summed is not None:
        return summed
    parts = contour_parts(steps, sensitivity)
    gaussians = _gaussians(parts)
    if method != "contour" and gaussians is not None:
        return _composed_gaussians(gaussians)
    if method != "closed_form" and parts is not None:
        for step, _ in steps:
            if sensitivity != 1 and isinstance(step, PoissonSampled):
                step.curves(sensitivity)  # refuses
        ends = dict.fromkeys(tuple((step.rounded(side), count) for step, count in steps) for side in (-1, 1))
        alone = method == "contour" or _root_of_squares(map(_loss_of, parts)) < SMALLEST_SECOND
        read = [_lines(end, sensitivity, None if alone else options) for end in ends]
        return replace(read[0], add=between([end.add for end in read]), remove=between([end.remove for end in read]))
    many = smoothed_responses_of(steps) if method != "closed_form" else None
    if many is not None:
        return _smoothed(many, steps, sensitivity, None if method == "contour" else options)
    beside = None if method == "contour" else _beside_two_points(steps, sensitivity)
    if beside is not None:
        return beside
    if method == "auto":
        whole = _two_steps(steps, sensitivity) or _discretised(steps, sensitivity, options)
        return _with_parts(whole, steps, sensitivity)
    raise _refusal(kind, method)


def methods_for(
    mechanism: AbstractMechanism,
    sensitivity: float = 1.0,
    options: EngineOptions = DEFAULT_OPTIONS,
    methods: Sequence[str] = METHODS[1:],
) -> dict[str, TradeOffPair]:
    """The curves of a mechanism by every one of `methods` that can serve it, in their order.

    Cheap: engines say what they cannot serve when curves are asked for, and work when these are read.
    """
    found: dict[str, TradeOffPair] = {}
    for method in methods:
        try:
            found[method] = pair(mechanism, method, sensitivity, options)
        except UnsupportedCombination:
            continue
    return found


def _bracket(steps: Steps, kind: str, method: str, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    """The worst case between what one choice attains in every step and the composition of all pairs.

    The choice may be read in either direction, like the step's own pair, so that both directions of what is attained
    are lower ends of both curves.
    """
    if method not in ENGINES_OF_BRACKETS:
        reason = (
            "no pair is known that dominates its steps and that one choice of data sets attains in all of them, so "
            "there is no law of one loss: its worst case is enclosed by two theorems."
        )
        raise UnsupportedCombination("method", f"{method} for several steps of {kind}", reason, ENGINES_OF_BRACKETS)
    # Theorems leave more open than coarser lattices do.
    looser, loose = (
        replace(options, relative_tolerance=max(options.relative_tolerance, least)) for least in BRACKET_TOLERANCES
    )
    below = _composition(attained(steps, sensitivity), kind, "auto", sensitivity, looser).both
    above = _discretised(dominating(steps), sensitivity, loose)
    add = Bracketed(below, above.add)
    pairs = [step.curves(sensitivity) for step, _ in steps]
    remove = add if all(each.add is each.remove for each in pairs) else Bracketed(below, above.remove)
    return TradeOffPair(add, remove, above.source, above.notes, bracket=sentence(steps, sensitivity))


def _mixture(mechanism: Mixture, method: str, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.trade_off.mixture import mixed

    drawn = mechanism.drawn()
    if len(drawn) == 1:
        return pair(drawn[0][1], method, sensitivity, options)
    options = options.for_parts(len(drawn))
    pairs = [pair(part, method, sensitivity, options) for _, part in drawn]
    reason = "mixture: profiles of the components mix linearly; the bound holds even if the draw becomes known."
    source = "Leemann et al. 2023, Definition 4.1 (stochastic composition), by joint convexity"
    return mixed([share for share, _ in drawn], pairs, source, reason)


# Engines are imported when first asked for: closed forms answer without them.


def _discretised(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.discretised import discretised_pair

    return discretised_pair(steps, sensitivity, options)


def _saddlepoint(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.saddlepoint import saddlepoint_pair

    return saddlepoint_pair(steps, sensitivity, options)


def _edgeworth(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.edgeworth import edgeworth_pair

    return edgeworth_pair(steps, sensitivity, options)


def _clt(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.clt import clt_pair

    return clt_pair(steps, sensitivity, options)


def _monte_carlo(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.monte_carlo import monte_carlo_pair

    return monte_carlo_pair(steps, sensitivity, options)


def _ground_truth(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.ground_truth import ground_truth_pair

    return ground_truth_pair(steps, sensitivity, options)


_OTHER_ENGINES: Final[dict[str, Engine]] = {
    "discretised": _discretised,
    "saddlepoint": _saddlepoint,
    "edgeworth": _edgeworth,
    "clt": _clt,
    "monte_carlo": _monte_carlo,
    "ground_truth": _ground_truth,
}


def _engine(method: str, steps: Steps) -> Engine | None:
    """What serves the method, other than curves that are known alone; several exponential steps are served apart."""
    engine = _OTHER_ENGINES.get(method)
    if not several_exponentials(steps):
        return engine
    from service.privacy.composition.adaptive_exponential import adaptive_exponential_pair, approximated, sampled

    if method in ("auto", "discretised"):
        return adaptive_exponential_pair
    if engine is None:
        return None
    return sampled(engine) if method == "monte_carlo" else approximated(engine)


def _gaussians(parts: tuple[Counted, ...] | None) -> tuple[tuple[Enclosure, int], ...] | None:
    if parts is None:
        return None
    shifts = tuple((part.shift, count) for part, count in parts if isinstance(part, GaussianPart))
    return shifts if len(shifts) == len(parts) else None


def _composed_gaussians(shifts: tuple[tuple[Enclosure, int], ...]) -> TradeOffPair:
    total = Enclosure(
        _root_of_squares((shift.lower, count) for shift, count in shifts) * (1 - 8 * UNIT_ROUNDOFF),
        _root_of_squares((shift.upper, count) for shift, count in shifts) * (1 + 8 * UNIT_ROUNDOFF),
        Evidence.EXACT,
    )
    curve = gaussian_curve(total)
    reason = "closed_form: Gaussian steps compose to one Gaussian, mu^2 adds up."
    return TradeOffPair(curve, curve, "Dong, Roth, Su 2022 (Gaussian differential privacy), Corollary 3.3", (reason,))


def _summed(steps: Steps, sensitivity: float) -> TradeOffPair | None:
    """The curves of a run whose law of losses can be summed up exactly; None for others."""
    responses = responses_of(steps)
    if responses is not None:
        return _responses(responses)
    return _composed_laplace(steps, sensitivity) if _can_sum(steps, sensitivity) else None


def _responses(run: Responses) -> TradeOffPair:
    from service.privacy.composition.responses import response_curve

    curve = response_curve(run)
    reason = (
        "closed_form: steps that are (epsilon, delta)-DP and no more are randomised responses, whose losses add up."
    )
    return TradeOffPair(curve, curve, "Kairouz, Oh, Viswanath 2015, Theorems 3.3 and 3.5", (reason,))


def _smoothed(run: Responses, steps: Steps, sensitivity: float, second: EngineOptions | None) -> TradeOffPair:
    """Runs of too many responses for exact sums. `second`: options of the engine that is asked where that is wide."""
    from service.privacy.composition.responses import smoothed_curve

    curve = smoothed_curve(run)
    reason = "contour: a line reads the run beside a Gaussian step of next to no shift; what that step adds is bounded."
    source = "Murtagh, Vadhan 2016, Theorem 1.5; Kairouz, Oh, Viswanath 2015, Theorem 3.5"
    lines = TradeOffPair(curve, curve, source, (reason,))
    if second is None:
        return lines
    loose = replace(second, relative_tolerance=max(second.relative_tolerance, SMOOTHED_TOLERANCE))
    return _with_parts(_with_second(lines, steps, sensitivity, loose), steps, sensitivity)


def _can_sum(steps: Steps, sensitivity: float) -> bool:
    """Whether a run is one of equal Laplace steps whose law can be summed up exactly."""
    (step, count), *others = steps
    return not others and isinstance(step, Laplace) and can_sum(count, sensitivity / step.noise_multiplier)


def _composed_laplace(steps: Steps, sensitivity: float) -> TradeOffPair:
    from service.privacy.composition.composed_laplace import ComposedLaplace

    ((step, count),) = steps
    curve = ComposedLaplace(count, sensitivity, cast("Laplace", step).noise_multiplier)
    reason = "closed_form: the loss of equal Laplace steps is a sum of lattices and splines with positive terms."
    return TradeOffPair(curve, curve, "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)", (reason,))


def _beside_two_points(steps: Steps, sensitivity: float) -> TradeOffPair | None:
    """Steps of two losses beside others in closed form; None where the others have none, or the losses are many."""
    from service.privacy.trade_off.shifted_mixture import ShiftedMixture, Shifts

    found = shifts_beside(steps, sensitivity)
    if found is None:
        return None
    (step, count), _ = found
    rest = step.curves(sensitivity) if count == 1 else _composed_laplace(((step, count),), sensitivity)
    parts = [(other.part(sensitivity), times) for other, times in steps]
    known = [(part, times) for part, times in parts if isinstance(part, TwoPointPart)]
    two_point = tuple((part.epsilon, times) for part, times in known if part.epsilon > 0)
    add: AbstractTradeOff = ShiftedMixture(rest.add, Shifts.of(two_point))
    mass = SingularMass.of((part.delta, times) for part, times in known)
    if mass.mass.upper > 0:
        add = WithSingularMass(add, mass)
    reason = "closed_form: steps of two losses shift the thresholds at which the curve of the others is read."
    source = f"Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs); {rest.source}"
    return TradeOffPair(add, add.reversed(), source, (reason,), bracket=rest.bracket)


def _two_steps(steps: Steps, sensitivity: float) -> TradeOffPair | None:
    """Two steps in closed form, one read at thresholds that the other shifts; None for other runs."""
    from service.privacy.composition.two_step_run import two_steps_curve

    curve = two_steps_curve(steps, sensitivity)
    if curve is None:
        return None
    reason = "closed_form: the loss of one step shifts the thresholds at which the curve of the other is read."
    source = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)"
    return TradeOffPair(curve, curve.reversed(), source, (reason,))


def _root_of_squares(shifts: Iterable[tuple[float, int]]) -> float:
    """sqrt(sum N mu^2) within 6 u, scaled so that no square under- or overflows."""
    listed = tuple(shifts)
    largest = max(mu for mu, _ in listed)
    if largest == 0:
        return 0.0
    return largest * math.sqrt(math.fsum(count * (mu / largest) ** 2 for mu, count in listed))


def _loss_of(counted: Counted) -> tuple[float, int]:
    """About the standard deviation of a step's loss, and how often it is taken."""
    part, count = counted
    if isinstance(part, GaussianPart):
        return part.shift.upper, count
    if isinstance(part, TwoPointPart):
        return min(max(part.epsilon, part.delta), 1.0), count
    loss = part.loss if isinstance(part, LaplacePart) else 1 / part.noise_multiplier
    return min(part.sample_rate * loss, 1.0), count


def _lines(steps: Steps, sensitivity: float, second: EngineOptions | None) -> TradeOffPair:
    """A run that has lines, all of whose parameters are doubles. `second`: options of the engine to ask beside."""
    lines = _contour(contour_parts(steps, sensitivity) or ())
    if second is None:
        return lines
    return _with_parts(_with_second(lines, steps, sensitivity, second), steps, sensitivity)


def _contour(parts: tuple[Counted, ...]) -> TradeOffPair:
    # Imported when first needed: closed forms answer without it.
    from service.privacy.composition.contour import contour_pair

    squares = math.fsum(count * part.shift.upper**2 for part, count in parts if isinstance(part, GaussianPart))
    sampled = tuple(
        (part.noise_multiplier, part.sample_rate, count)
        for part, count in parts
        if isinstance(part, SampledGaussianPart)
    )
    laplace = tuple((part.loss, part.sample_rate, count) for part, count in parts if isinstance(part, LaplacePart))
    reason = "contour: cumulant generating functions of the steps add up; a certified line integral reads the sum."
    known = [(part, count) for part, count in parts if isinstance(part, TwoPointPart)]
    two_point = tuple((part.epsilon, count) for part, count in known if part.epsilon > 0)
    add, remove = contour_pair(squares, sampled, laplace, two_point)
    mass = SingularMass.of((part.delta, count) for part, count in known)
    if mass.mass.upper > 0:
        add = WithSingularMass(add, mass)
        remove = add.reversed()
    return TradeOffPair(
        add, remove, "Zhu, Dong, Wang 2022, Theorems 10 and 11 (composition of dominating pairs)", (reason,)
    )


def _with_second(lines: TradeOffPair, steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    tolerance = max(options.relative_tolerance, WIDEST_SECOND)
    direct = _two_steps(steps, sensitivity)
    if direct is not None and any(_noise(step) < DIRECT_NOISE for step, _ in steps):
        return _few_directly(direct, lines, tolerance)

    def second() -> AbstractTradeOff:
        if direct is not None:
            return direct.add
        return _discretised(steps, sensitivity, replace(options, relative_tolerance=tolerance)).add

    name = "discretised" if direct is None else "closed_form of one step, shifted by the other"
    asked = SecondEngine(f"{name}: also asked, since contour was wider than {tolerance:g}; both enclosures hold.")
    add = Intersected(lines.add, second, tolerance, asked)
    return replace(lines, add=add, remove=add.reversed(), second=asked)


def _few_directly(direct: TradeOffPair, lines: TradeOffPair, tolerance: float) -> TradeOffPair:
    """Two steps of which one has so little noise that lines would be wide: they read long lists, and what is wide."""
    from service.privacy.trade_off.few_directly import FewDirectly

    asked = SecondEngine(f"contour: also asked, since closed_form was wider than {tolerance:g}; both enclosures hold.")
    add = FewDirectly(Intersected(direct.add, lambda: lines.add, tolerance, asked), lines.add)
    return replace(direct, add=add, remove=add.reversed(), second=asked)


def _noise(step: AbstractStep) -> float:
    """The noise multiplier of a sampled Gaussian step; infinite for others."""
    part = step.part(1.0)
    return part.noise_multiplier if isinstance(part, SampledGaussianPart) else math.inf


def _with_parts(whole: TradeOffPair, steps: Steps, sensitivity: float) -> TradeOffPair:
    """The curves of a run, where they are wide no lower than those of parts with a closed form or a line."""

    def cheaply(part: Steps) -> TradeOffPair | None:
        if len(part) == 1 and part[0][1] == 1:
            return part[0][0].curves(sensitivity)
        summed = _summed(part, sensitivity)
        if summed is not None:
            return summed
        part = tuple((step.rounded(-1), count) for step, count in part)  # revealing no more
        known = contour_parts(part, sensitivity)
        if known is None or (sensitivity != 1 and any(isinstance(step, PoissonSampled) for step, _ in part)):
            return None
        gaussians = _gaussians(known)
        return _contour(known) if gaussians is None else _composed_gaussians(gaussians)

    return with_parts(whole, steps, sensitivity, cheaply)


def _refusal(kind: str, method: str) -> UnsupportedCombination:
    others = tuple(name for name in METHODS if name != method)
    if method == "closed_form":
        reason = "several steps have a closed form only if all are Gaussian, all pure or approximate DP of few kinds, "
        reason += "or equal Laplace steps, not too many."
        return UnsupportedCombination("method", f"closed_form for {kind}", reason, others)
    reason = (
        "the line integral needs a Gaussian step, many Laplace steps of moderate loss, or many pure or approximate "
    )
    reason += "DP steps alone, and known cumulants."
    return UnsupportedCombination("method", f"contour for {kind}", reason, others)
