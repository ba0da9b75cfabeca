"""Random runs of mixed parts of all kinds, by seed, each with one question.

Tests use a sample, and the sweeps of the benchmarks use hundreds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator

from service.privacy.mechanisms.abstract import AbstractMechanism
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.privacy.random_cases import RandomQuestion, Reading, Spec, log_uniform

MIXED_READINGS: Final[tuple[Reading, ...]] = ("power", "delta", "epsilon")
MOST_PARTS: Final = 6


@dataclass(frozen=True)
class MixedPoint:
    """A composition with its question."""

    spec: Spec
    question: RandomQuestion

    @property
    def mechanism(self) -> AbstractMechanism:
        return built(self.spec)

    def __str__(self) -> str:
        return f"{' + '.join(map(_words, self.spec['mechanisms']))}: {self.question}"


def mixed_points(count: int, seed: int) -> list[MixedPoint]:
    """Draw runs of 2 to 6 parts of any kind, each with a question.

    Questions are epsilon at delta 1e-12 to 1e-2, delta at epsilon 0.01 to 10, and power at rates 1e-12 to 1/2, in
    either direction. Parameters are log-uniform: noise multiplier 0.3 to 30, rate 1e-6 to 1, steps 1 to 1e5; epsilon
    0.01 to 5 and delta 1e-12 to 1e-2, each in 1 to 100 equal steps.
    """
    random = np.random.default_rng(seed)
    return [MixedPoint(_spec(random), _question(random)) for _ in range(count)]


def _spec(random: Generator) -> Spec:
    parts = random.integers(2, MOST_PARTS + 1)
    return {
        "type": "composed",
        "mechanisms": [KINDS[name](random) for name in random.choice(list(KINDS), parts)],
    }


def _question(random: Generator) -> RandomQuestion:
    reading = random.choice(MIXED_READINGS)
    low, high = {"power": (1e-12, 0.5), "delta": (0.01, 10.0), "epsilon": (1e-12, 1e-2)}[reading]
    return RandomQuestion(reading, log_uniform(random, low, high), random.choice(("add", "remove")))


def _noise(random: Generator) -> float:
    return log_uniform(random, 0.3, 30.0)


def _rate(random: Generator) -> float:
    return log_uniform(random, 1e-6, 1.0)


def _steps(random: Generator, most: float) -> int:
    return int(log_uniform(random, 1.0, most))


def _repeated(step: Spec, steps: int) -> Spec:
    return step if steps == 1 else {"type": "repeated", "mechanism": step, "steps": steps}


def _dpsgd(random: Generator) -> Spec:
    """Draw a DP-SGD part; one in four has two equal steps of small noise."""
    if random.uniform() < 0.25:
        return dpsgd(log_uniform(random, 0.3, 1.0), _rate(random), 2)
    return dpsgd(_noise(random), _rate(random), _steps(random, 1e5))


def _laplace(random: Generator) -> Spec:
    return _repeated(laplace(_noise(random)), _steps(random, 1e5))


def _sampled_laplace(random: Generator) -> Spec:
    return _repeated(sampled(_rate(random), laplace(_noise(random))), _steps(random, 1e5))


def _epsilon(random: Generator) -> float:
    return log_uniform(random, 0.01, 5.0)


def _pure_dp(random: Generator) -> Spec:
    return _repeated({"type": "pure_dp", "epsilon": _epsilon(random)}, _steps(random, 100.0))


def _approximate_dp(random: Generator) -> Spec:
    step = {"type": "approximate_dp", "epsilon": _epsilon(random), "delta": log_uniform(random, 1e-12, 1e-2)}
    return _repeated(step, _steps(random, 100.0))


KINDS: Final[dict[str, Callable[[Generator], Spec]]] = {
    "dpsgd": _dpsgd,
    "gaussian": lambda random: gaussian(_noise(random)),
    "laplace": _laplace,
    "sampled laplace": _sampled_laplace,
    "pure_dp": _pure_dp,
    "approximate_dp": _approximate_dp,
}


def _words(spec: Spec) -> str:
    if spec["type"] == "repeated":
        return f"{spec['steps']} x {_words(spec['mechanism'])}"
    if spec["type"] == "poisson_sampled":
        return f"sampled({spec['sample_rate']:.4g}) {_words(spec['mechanism'])}"
    return f"{spec['type']}({', '.join(f'{value:.4g}' for key, value in spec.items() if key != 'type')})"
