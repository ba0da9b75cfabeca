"""Names of the modules that a process of the service loads before its first request. This module loads none of them."""

from __future__ import annotations

from typing import Final

from service.privacy.threat_models.catalogue import PACKAGE as THREAT_MODEL_PACKAGE
from service.privacy.threat_models.catalogue import THREAT_MODELS
from service.resources.catalogue import PACKAGE, RESOURCES

_ATTACKERS: Final = tuple(f"{THREAT_MODEL_PACKAGE}.{value.partition(':')[0]}" for value in THREAT_MODELS.values())
NUMERIC_LIBRARIES: Final = ("mpmath", "scipy.fft", "scipy.optimize")
"""Libraries that the numeric core imports at their first use. No computation shall wait for them."""
ENGINES: Final = (
    "service.privacy.composition.inversion.deformed.run",
    "service.privacy.composition.inversion.rare_jumps.one_jump",
    "service.privacy.composition.inversion.rare_jumps.roots",
)
"""Modules of the numeric core that only some runs need, and that are imported at their first use."""
LOADED_FOR_PRICES: Final = ("mpmath", *_ATTACKERS)
"""Modules that prices and closed forms need. Nobody shall wait for them in the event loop."""
SELF_TEST: Final = "service.self_test"


def preloaded_modules() -> tuple[str, ...]:
    """Return the names of the modules that every worker process has loaded before its first computation."""
    resources = (f"{PACKAGE}.{value.partition(':')[0]}" for value in RESOURCES.values())
    return (*NUMERIC_LIBRARIES, *_ATTACKERS, *ENGINES, *resources, SELF_TEST)
