"""Every computation that the service offers, in the order of its documentation."""

from __future__ import annotations

from typing import Any, Final

from service.computations.abstract import Computation
from service.computations.audits.attack_counts import ATTACK_COUNTS
from service.computations.audits.glir import GLIR_AUDIT
from service.computations.audits.glrt import GLRT_AUDIT
from service.computations.bounds import BOUNDS
from service.computations.conversions.gdp_gmip import GDP_GMIP
from service.computations.conversions.membership import MEMBERSHIP_CONVERSIONS
from service.computations.curves import CURVES
from service.computations.pmp.exponential import PMP_EXPONENTIAL
from service.computations.pmp.finite import PMP_FINITE
from service.computations.pmp.gaussian import PMP_GAUSSIAN
from service.computations.pmp.simulations import PMP_SIMULATIONS

COMPUTATIONS: Final[tuple[Computation[Any, Any], ...]] = (
    BOUNDS,
    CURVES,
    GDP_GMIP,
    MEMBERSHIP_CONVERSIONS,
    ATTACK_COUNTS,
    GLIR_AUDIT,
    GLRT_AUDIT,
    PMP_EXPONENTIAL,
    PMP_FINITE,
    PMP_GAUSSIAN,
    PMP_SIMULATIONS,
)
