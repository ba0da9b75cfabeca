"""riskcal: power at a rate from a stated class, or from the loss distribution of dp-accounting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from riskcal import analysis

from benchmarks.peers.dp_accounting_laws import distribution, inside


def build(spec: Mapping[str, Any]) -> dict[str, Callable[[float], float]]:
    """Return a function that answers for the mechanism of a request: `gamma`, the power at a false positive rate."""
    inner, steps = inside(spec)
    match inner["type"]:
        case "zcdp":
            rho = steps * inner["rho"]
            return {"gamma": lambda rate: 1 - float(analysis.get_beta_from_zcdp(rho, rate))}
        case "rdp":
            stated = list(zip(inner["orders"], inner["epsilons"], strict=True))
            return {
                "gamma": lambda rate: (
                    1 - max(float(analysis.get_beta_from_rdp(steps * bound, rate, order)) for order, bound in stated)
                )
            }
        case _:
            composed = distribution(spec)
            return {"gamma": lambda rate: 1 - float(analysis.get_beta_from_pld(composed, rate))}
