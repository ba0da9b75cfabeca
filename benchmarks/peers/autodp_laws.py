"""autodp: Renyi curves of mechanisms, converted to epsilon and to power."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from autodp import mechanism_zoo, transformer_zoo

from benchmarks.peers.dp_accounting_laws import inside

Spec = Mapping[str, Any]


def build(spec: Spec) -> dict[str, Callable[[float], float]]:
    """Return functions that answer for the mechanism of a request: `eps` at a delta, and `gamma`, the power
    at a rate.
    """
    inner, steps = inside(spec)
    made = _mechanism(inner)
    if steps > 1:
        made = transformer_zoo.Composition()([made], [steps])
    return {"eps": made.get_approxDP, "gamma": lambda rate: 1 - float(made.get_fDP(rate))}


def _mechanism(spec: Spec) -> Any:
    match spec["type"]:
        case "zcdp":
            return mechanism_zoo.zCDP_Mechanism(spec["rho"])
        case "discrete_gaussian":
            return mechanism_zoo.DiscreteGaussianMechanism(spec["sigma"] / spec["sensitivity"])
        case "randomized_response":
            return mechanism_zoo.RandresponseMechanism(1 / (1 + math.exp(-spec["epsilon"])))
        case "report_noisy_max":
            return mechanism_zoo.ExponentialMechanism(2 * spec["sensitivity"] / spec["scale"])
        case "sparse_vector":
            positives, scale = spec["positives"], 1 / spec["threshold_epsilon"]
            return mechanism_zoo.LaplaceSVT_Mechanism({"b": scale, "k": math.inf, "c": positives})
        case other:
            raise ValueError(other)
