"""Every computation that the service offers, in the order of its documentation."""

from __future__ import annotations

from typing import Any, Final

from service.computations.abstract import Computation
from service.computations.attack_counts import ATTACK_COUNTS
from service.computations.bounds import BOUNDS
from service.computations.conversions import GDP_GMIP
from service.computations.curves import CURVES
from service.computations.glir_audit import GLIR_AUDIT
from service.computations.glrt_audit import GLRT_AUDIT
from service.computations.membership_conversions import MEMBERSHIP_CONVERSIONS

COMPUTATIONS: Final[tuple[Computation[Any, Any], ...]] = (
    BOUNDS,
    CURVES,
    GDP_GMIP,
    MEMBERSHIP_CONVERSIONS,
    ATTACK_COUNTS,
    GLIR_AUDIT,
    GLRT_AUDIT,
)
