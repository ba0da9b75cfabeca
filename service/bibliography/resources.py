"""Groups of resources whose answers rest on the same sources, by name (`service.resources.catalogue`)."""

from __future__ import annotations

from typing import Final

RUNS: Final = ("bounds", "curves", "calibrations", "sweeps", "assessments", "comparisons", "claims")
"""Resources that answer questions about mechanisms."""
BOUNDED: Final = (*RUNS, "attack_counts_audit")
"""Resources that compute the trade-off curve of any mechanism."""
PMP: Final = ("pmp-exponential", "pmp-finite", "pmp_gaussian", "pmp_simulations")
