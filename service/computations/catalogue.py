"""Every resource that the service offers, in the order of its documentation; each is loaded when it is first asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final

from service.computations.abstract import Computation

RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bounds": "bounds:BOUNDS",
        "curves": "curves:CURVES",
        "calibrations": "calibration.resource:CALIBRATIONS",
        "sweeps": "sweeps.sweeping:SWEEPS",
        "assessments": "assessments.assessment:ASSESSMENTS",
        "imports": "imports:IMPORTS",
        "comparisons": "comparisons.comparing:COMPARISONS",
        "claims": "claims.checking:CLAIMS",
        "gdp-gmip": "conversions.gdp_gmip:GDP_GMIP",
        "membership-conversions": "conversions.membership:MEMBERSHIP_CONVERSIONS",
        "attack_counts_audit": "audits.attack_counts:ATTACK_COUNTS",
        "glir_audit": "audits.glir:GLIR_AUDIT",
        "glrt_audit": "audits.glrt:GLRT_AUDIT",
        "pmp-exponential": "pmp.exponential:PMP_EXPONENTIAL",
        "pmp-finite": "pmp.finite:PMP_FINITE",
        "pmp_gaussian": "pmp.gaussian:PMP_GAUSSIAN",
        "pmp_simulations": "pmp.simulations:PMP_SIMULATIONS",
    }
)
"""The module of this room and the value in it, by the name of the resource."""


@cache
def resource(name: str) -> Computation[Any, Any]:
    """The resource of this name."""
    found: Computation[Any, Any] = resolve_name(f"service.computations.{RESOURCES[name]}")
    return found


def resources() -> tuple[Computation[Any, Any], ...]:
    """All of them."""
    return tuple(map(resource, RESOURCES))
