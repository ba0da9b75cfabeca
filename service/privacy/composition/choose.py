"""Which engine composes a mechanism, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from service.privacy.composition.laplace_reach import can_sum
from service.privacy.composition.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.parts import Counted, contour_parts
from service.privacy.composition.responses import Responses, responses_of
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism, GaussianPart, LaplacePart, SampledGaussianPart, Steps
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.gaussian import gaussian_curve
from service.privacy.trade_off.intersected import Intersected
from service.privacy.trade_off.pair import TradeOffPair

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
    `approximate_dp` steps of few kinds, and runs of equal Laplace steps that are not too long for exact sums;
    `contour` any mix of Gaussian, gdp and Laplace steps, sampled or not, unless these are Laplace steps alone and so
    few that their atoms rule; `discretised` any steps. `auto` takes the first that can, and asks `discretised` too
    where `contour` is wide. A mixture has the mixed curves of its components, each by the same method.
    Raises UnsupportedCombination with field `method` when the engine asked for cannot, with field `threat_model` when
    the relation has no known curve.
    """
    if method not in METHODS:
        raise UnsupportedCombination("method", f"method {method!r}", "no engine has that name.", METHODS)
    if isinstance(mechanism, Mixture):
        return _mixture(mechanism, method, sensitivity, options)
    steps = mechanism.elementary_steps()
    engine = _OTHER_ENGINES.get(method)
    if engine is not None:
        return engine(steps, sensitivity, options)
    if method != "contour" and len(steps) == 1 and steps[0][1] == 1:
        alone = steps[0][0].curves(sensitivity)
        notes = (*alone.notes, "closed_form: a single step has an exact curve.")
        return TradeOffPair(alone.add, alone.remove, alone.source, notes)
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
        lines = _contour(parts)
        if method == "contour" or _root_of_squares(map(_loss_of, parts)) < SMALLEST_SECOND:
            return lines
        return _with_second(lines, steps, sensitivity, options)
    if method == "auto":
        return _discretised(steps, sensitivity, options)
    raise _refusal(mechanism, method)


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
    loss = part.loss if isinstance(part, LaplacePart) else 1 / part.noise_multiplier
    return min(part.sample_rate * loss, 1.0), count


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
    add, remove = contour_pair(squares, sampled, laplace)
    return TradeOffPair(
        add, remove, "Zhu, Dong, Wang 2022, Theorems 10 and 11 (composition of dominating pairs)", (reason,)
    )


def _with_second(lines: TradeOffPair, steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    tolerance = max(options.relative_tolerance, WIDEST_SECOND)

    def second() -> AbstractTradeOff:
        return _discretised(steps, sensitivity, replace(options, relative_tolerance=tolerance)).add

    add = Intersected(lines.add, second, tolerance)
    reason = f"discretised: also asked where contour is wider than {tolerance:g}; both enclosures hold."
    return TradeOffPair(add, add.reversed(), lines.source, (*lines.notes, reason))


def _refusal(mechanism: AbstractMechanism, method: str) -> UnsupportedCombination:
    others = tuple(name for name in METHODS if name != method)
    if method == "closed_form":
        reason = "several steps have a closed form only if all are Gaussian, all pure or approximate DP of few kinds, "
        reason += "or equal Laplace steps, not too many."
        return UnsupportedCombination("method", f"closed_form for {mechanism.type}", reason, others)
    reason = "the line integral needs the cumulants of Gaussian steps, or of many Laplace steps of moderate loss."
    return UnsupportedCombination("method", f"contour for {mechanism.type}", reason, others)
