"""Names of the modules that a process of the service loads before its first request. This module loads none of them."""

from __future__ import annotations

from typing import Final

from service.resources.catalogue import PACKAGE, RESOURCES

NUMERIC_LIBRARIES: Final = ("mpmath", "scipy.fft", "scipy.optimize")
"""What the numeric core imports where it is used: no computation shall wait for it."""
LOADED_FOR_PRICES: Final = ("mpmath",)
"""The part of that which prices and closed forms use: nobody shall wait for it in the event loop."""
SELF_TEST: Final = "service.self_test"


def preloaded_modules() -> tuple[str, ...]:
    """Return the names of the modules that every worker process has loaded before its first computation."""
    resources = (f"{PACKAGE}.{value.partition(':')[0]}" for value in RESOURCES.values())
    return (*NUMERIC_LIBRARIES, *resources, SELF_TEST)
