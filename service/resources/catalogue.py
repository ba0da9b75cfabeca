"""All resources of the service, in the order of the documentation. A resource is imported at its first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final

from service.resources.abstract import Computation

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
        "certificates": "certificates.certifying:CERTIFICATES",
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
"""Module in this package and name of the value, by the name of the resource."""

PACKAGE: Final = __name__.rpartition(".")[0]
"""Package of the resources, wherever it is installed."""


@cache
def resource(name: str) -> Computation[Any, Any]:
    """Return the resource (`bounds`, `sweeps`, ...) with this name.

    Raise KeyError for an unknown name.
    """
    found: Computation[Any, Any] = resolve_name(f"{PACKAGE}.{RESOURCES[name]}")
    return found


def resources() -> tuple[Computation[Any, Any], ...]:
    """Return all resources of the service in the order of the documentation."""
    return tuple(map(resource, RESOURCES))
