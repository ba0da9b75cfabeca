"""dp-accounting: laws that are no runs of DP-SGD, by its loss distributions or its Renyi accountant."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from dp_accounting import dp_event, rdp
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import rdp_privacy_accountant

Spec = Mapping[str, Any]
Readings = dict[str, Callable[[float], float]]
SHAPES: Final = {"geometric": 1.0, "poisson": math.inf}


def build(spec: Spec) -> Readings:
    """Return functions that answer for the mechanism of a request: `eps` at a delta, and `delta` at an epsilon."""
    inner, steps = inside(spec)
    if inner["type"] == "rdp":
        return _orders(inner, steps)
    if inner["type"] in ("zcdp", "selected"):
        return _events(_event(inner), steps)
    composed = distribution(spec)
    return {"eps": composed.get_epsilon_for_delta, "delta": composed.get_delta_for_epsilon}


def inside(spec: Spec) -> tuple[Spec, int]:
    """Return the repeated mechanism and the number of steps."""
    return (spec["mechanism"], spec["steps"]) if spec["type"] == "repeated" else (spec, 1)


def distribution(spec: Spec) -> pld.PrivacyLossDistribution:
    """Return the loss distribution of a discrete mechanism on the default grid."""
    inner, steps = inside(spec)
    match inner["type"]:
        case "discrete_gaussian":
            single = pld.from_discrete_gaussian_mechanism(inner["sigma"], inner["sensitivity"])
        case "discrete_laplace":
            single = pld.from_discrete_laplace_mechanism(1 / inner["scale"], inner["sensitivity"])
        case "randomized_response":
            options = inner["options"]
            single = pld.from_randomized_response(options / (math.exp(inner["epsilon"]) + options - 1), options)
        case other:
            raise ValueError(other)
    return single.self_compose(steps)


def _event(spec: Spec) -> dp_event.DpEvent:
    match spec["type"]:
        case "zcdp":
            return dp_event.ZCDpEvent(spec["rho"])
        case "gaussian":
            return dp_event.GaussianDpEvent(spec["noise_multiplier"])
        case "dpsgd":
            step = dp_event.PoissonSampledDpEvent(
                spec["sample_rate"], dp_event.GaussianDpEvent(spec["noise_multiplier"])
            )
            return dp_event.SelfComposedDpEvent(step, spec["steps"])
        case "selected":
            trials = spec["trials"]
            shape = trials["shape"] if "shape" in trials else SHAPES[trials["type"]]
            return dp_event.RepeatAndSelectDpEvent(_event(spec["mechanism"]), trials["mean"], shape)
        case other:
            raise ValueError(other)


def _events(event: dp_event.DpEvent, steps: int) -> Readings:
    accountant = rdp.RdpAccountant().compose(event, steps)
    return {"eps": accountant.get_epsilon, "delta": accountant.get_delta}


def _orders(spec: Spec, steps: int) -> Readings:
    orders = [math.inf if each == "Infinity" else each for each in spec["orders"]]
    bounds = [steps * each for each in spec["epsilons"]]
    return {
        "eps": lambda delta: rdp_privacy_accountant.compute_epsilon(orders, bounds, delta)[0],
        "delta": lambda epsilon: rdp_privacy_accountant.compute_delta(orders, bounds, epsilon)[0],
    }
