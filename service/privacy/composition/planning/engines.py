"""Engines with a name in the API (parameter `method`), each as a plan.

The module is imported when curves are first built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from service.privacy.composition.planning import cost
from service.privacy.composition.planning.contour_inversion import bounded_by_guarantees
from service.privacy.composition.planning.cost_model import CostModel
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.parts import several_exponentials
from service.privacy.composition.planning.plan import Plan
from service.privacy.limit import WidthLimit
from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.pair import TradeOffPair

Build = Callable[[Steps, EngineOptions], TradeOffPair]
"""Function of steps and options that returns curves. It raises UnsupportedCombination with field `method`."""


def discretised(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Return the trade-off curves of these steps from the lattice engine, which rounds losses to a lattice.

    `options.relative_tolerance` is the relative width of enclosures aimed at.
    """
    from service.privacy.composition.lattice.engine import discretised_pair

    return discretised_pair(steps, options)


def _saddlepoint(steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.comparison.asymptotic.saddlepoint import saddlepoint_pair

    return saddlepoint_pair(steps, options)


def _edgeworth(steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.comparison.asymptotic.edgeworth import edgeworth_pair

    return edgeworth_pair(steps, options)


def _clt(steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.comparison.asymptotic.clt import clt_pair

    return clt_pair(steps, options)


def _monte_carlo(steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.comparison.monte_carlo.engine import monte_carlo_pair

    return monte_carlo_pair(steps, options)


def _ground_truth(steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.ground_truth.engine import ground_truth_pair

    return ground_truth_pair(steps, options)


@dataclass(frozen=True, slots=True)
class Engine:
    """Engine of the registry: `build` makes the trade-off curves of steps, and `cost` estimates their cost.

    Costs are in microseconds of CPU time.
    """

    build: Build
    cost: Callable[[Steps, EngineOptions], CostModel]


ENGINES: Final[dict[str, Engine]] = {
    "discretised": Engine(discretised, cost.lattices),
    "saddlepoint": Engine(_saddlepoint, cost.saddlepoint),
    "edgeworth": Engine(_edgeworth, cost.series),
    "clt": Engine(_clt, cost.series),
    "monte_carlo": Engine(_monte_carlo, cost.monte_carlo),
    "ground_truth": Engine(_ground_truth, cost.ground_truth),
}
"""Engines by their names on the wire, with the strongest evidence first."""


def by_name(method: str, steps: Steps, options: EngineOptions) -> Plan | None:
    """Return the plan (curves and their cost) of the engine named `method`; None where no engine has that name.

    A run with several exponential steps gets bounds over adaptive choices from another engine, under the same name.
    """
    if several_exponentials(steps):
        return _several_exponentials(method, steps, options)
    if method not in ENGINES:
        return None
    engine = ENGINES[method]
    return Plan(method, engine.cost(steps, options), partial(_alone, method, steps, options))


def _alone(method: str, steps: Steps, options: EngineOptions) -> TradeOffPair:
    return replace(ENGINES[method].build(steps, options), limit=WidthLimit.ONE_ENGINE)


def lattices(steps: Steps, options: EngineOptions) -> Plan:
    """Return the plan (engine, curves and cost) of lattices, for steps that contours cannot serve."""
    return Plan("discretised", cost.alone_on_lattices(steps, options), partial(discretised, steps, options))


def _several_exponentials(method: str, steps: Steps, options: EngineOptions) -> Plan | None:
    if method in ("auto", "discretised"):
        model = cost.adaptive_exponential(steps, options)
        return Plan("discretised", model, partial(_adaptive_exponential, steps, options))
    if method not in ENGINES:
        return None
    engine = ENGINES[method]
    ends = 2 if method == "monte_carlo" else 1  # the bounds use different draws
    return Plan(method, engine.cost(steps, options).scaled(ends), partial(_approximation, method, steps, options))


def _approximation(method: str, steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.adaptive_exponential.engine import approximated, sampled

    return (sampled if method == "monte_carlo" else approximated)(ENGINES[method].build, steps, options)


def _adaptive_exponential(steps: Steps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.adaptive_exponential.engine import adaptive_exponential_pair

    return bounded_by_guarantees(adaptive_exponential_pair(steps, options), steps)
