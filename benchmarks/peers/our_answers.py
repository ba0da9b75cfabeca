"""This project behind the interface of a peer: the conservative bound of the enclosure.

All of the core is imported before any timing, like the modules of a peer.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Literal

import service.privacy
from benchmarks.cases import Run
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.questions import profile, reconstruction

for found in pkgutil.walk_packages(service.privacy.__path__, "service.privacy."):
    importlib.import_module(found.name)


def build(
    noise: Literal["gaussian", "laplace"],
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    method: str = "auto",
    **options: Any,
) -> dict[str, Callable[[float], float]]:
    pair = Run("", noise_multiplier, sample_rate, steps, noise).curves(method, EngineOptions(**options))
    return {
        "gamma": lambda rate: reconstruction.gamma(pair.add, rate).safe_value,
        "eps": lambda delta: profile.epsilon(pair.both, delta).safe_value,
        "delta": lambda epsilon: profile.delta(pair.both, epsilon).safe_value,
    }
