"""Random mechanisms and questions, by seed: a sample for tests, thousands for the sweeps of the benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.random import Generator

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.neighbours import ONE_ADDED, ONE_REPLACED, Neighbours
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import Direction, built, dpsgd, gaussian, laplace, mixture, sampled

Spec = dict[str, Any]
Reading = Literal["power", "type_two_error", "delta", "epsilon"]
READINGS: Final[tuple[Reading, ...]] = ("power", "type_two_error", "delta", "epsilon")
DIRECTIONS: Final[tuple[Direction, ...]] = ("add", "remove", "both")


@dataclass(frozen=True)
class BoxPoint:
    """Sampled Gaussian run drawn from a box of parameters, and the false positive rate (baseline) of its power."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    baseline: float

    @property
    def mechanism(self) -> AbstractMechanism:
        return built(dpsgd(self.noise_multiplier, self.sample_rate, self.steps))

    def __str__(self) -> str:
        run = f"noise {self.noise_multiplier:.6g}, rate {self.sample_rate:.6g}, steps {self.steps}"
        return f"{run}, baseline {self.baseline:.6g}"


def box_points(count: int, seed: int) -> list[BoxPoint]:
    """Draw log-uniform points of the box: noise multiplier 0.3 to 100, rate 1e-6 to 1, steps 1 to 1e6, baseline
    1e-12 to 1/2.
    """
    random = np.random.default_rng(seed)
    return [
        BoxPoint(
            log_uniform(random, 0.3, 100.0),
            log_uniform(random, 1e-6, 1.0),
            int(log_uniform(random, 1.0, 1e6)),
            log_uniform(random, 1e-12, 0.5),
        )
        for _ in range(count)
    ]


@dataclass(frozen=True)
class RandomQuestion:
    """Question about one number of a pair of curves."""

    reading: Reading
    at: float
    direction: Direction

    def ask(self, pair: TradeOffPair) -> Enclosure:
        curve = getattr(pair, self.direction)
        if self.reading == "power":
            return curve.power_at(self.at)
        if self.reading == "type_two_error":
            return curve.type_two_error(np.array([self.at])).at(0, curve.evidence)
        return curve.profile_at(self.at) if self.reading == "delta" else curve.epsilon(self.at)

    def __str__(self) -> str:
        return f"{self.reading}({self.at:.6g}), {self.direction}"


@dataclass(frozen=True)
class RandomCase:
    """Mechanism with its questions. `choice` in [0, 1) selects one of several second engines."""

    family: str
    spec: Spec
    neighbours: Neighbours
    questions: tuple[RandomQuestion, ...]
    choice: float


def random_cases(mechanisms: int, questions: int, seed: int) -> list[RandomCase]:
    """Return `count` mechanisms of all families, each with several questions."""
    random = np.random.default_rng(seed)
    names = list(FAMILIES)
    weights = np.array([FAMILIES[name][0] for name in names])
    drawn: list[str] = random.choice(names, mechanisms, p=weights / weights.sum()).tolist()
    return [
        RandomCase(
            family,
            FAMILIES[family][1](random),
            NEIGHBOURS[family](random) if family in NEIGHBOURS else ONE_ADDED,
            tuple(random_question(random) for _ in range(questions)),
            random.uniform(),
        )
        for family in drawn
    ]


def random_question(random: Generator) -> RandomQuestion:
    reading = random.choice(READINGS)
    at = random.uniform(0.0, 6.0) if reading == "delta" else log_uniform(random, 1e-10, 0.5)
    direction = random.choice(DIRECTIONS, p=(0.45, 0.45, 0.1))  # The search for both directions is expensive.
    return RandomQuestion(reading, at, direction)


def log_uniform(random: Generator, low: float, high: float) -> float:
    return float(math.exp(random.uniform(math.log(low), math.log(high))))


def _steps(random: Generator, most: float) -> int:
    return int(log_uniform(random, 2.0, most))


def _rate(random: Generator) -> float:
    return log_uniform(random, 0.01, 0.9)


def _noise(random: Generator) -> float:
    return log_uniform(random, 0.5, 20.0)


def _gaussian(random: Generator) -> Spec:
    return gaussian(_noise(random))


def _laplace(random: Generator) -> Spec:
    return laplace(_noise(random))


def _sampled_gaussian(random: Generator) -> Spec:
    return sampled(_rate(random), _gaussian(random))


def _sampled_laplace(random: Generator) -> Spec:
    return sampled(_rate(random), _laplace(random))


def _exponential(random: Generator) -> Spec:
    return {"type": "exponential", "epsilon": log_uniform(random, 0.05, 5.0)}


def _pure_dp(random: Generator) -> Spec:
    return {"type": "pure_dp", "epsilon": log_uniform(random, 0.05, 3.0)}


def _approximate_dp(random: Generator) -> Spec:
    return {**_pure_dp(random), "type": "approximate_dp", "delta": log_uniform(random, 1e-9, 1e-2)}


STEPS: Final[tuple[Callable[[Generator], Spec], ...]] = (
    _gaussian,
    _laplace,
    _sampled_gaussian,
    _sampled_laplace,
    _exponential,
    _pure_dp,
    _approximate_dp,
)


def _repeated(step: Spec, steps: int) -> Spec:
    return {"type": "repeated", "mechanism": step, "steps": steps}


def _run(random: Generator) -> Spec:
    """Draw hundreds of steps without tiny rates; other sweeps have the difficult and expensive runs."""
    steps = int(log_uniform(random, 100.0, 2e4))
    return dpsgd(log_uniform(random, 0.6, 5.0), log_uniform(random, 0.01, 0.5), steps)


def _runs(random: Generator) -> Spec:
    return {"type": "composed", "mechanisms": [_run(random), _run(random), _gaussian(random)]}


def _gaussians(random: Generator) -> Spec:
    several = [_repeated(_gaussian(random), _steps(random, 100.0)), {"type": "gdp", "mu": random.uniform(0.1, 2.0)}]
    return {"type": "composed", "mechanisms": several}


def _repeated_step(random: Generator) -> Spec:
    return _repeated(STEPS[random.integers(len(STEPS))](random), _steps(random, 100.0))


def _mix(random: Generator) -> Spec:
    several = [_repeated_step(random) for _ in range(random.integers(2, 4))]
    return {"type": "composed", "mechanisms": several}


def _mixed_run(random: Generator) -> Spec:
    """Draw two to six parts of all kinds: sampled and plain runs, and single steps with few losses."""
    kinds = (_run, _gaussian, _sampled_gaussian, _repeated_step, _laplace, _sampled_laplace, _pure_dp, _approximate_dp)
    parts = [kinds[kind](random) for kind in random.integers(len(kinds), size=random.integers(2, 7))]
    return {"type": "composed", "mechanisms": parts}


def _mixture(random: Generator) -> Spec:
    """Draw a mixture of mechanisms with more than one engine that answers within a tenth of a second."""
    share = random.uniform(0.05, 0.95)
    return mixture((share, _gaussian(random)), (1 - share, _sampled_gaussian(random)))


def _group_run(random: Generator) -> Spec:
    """Draw a run that still reveals little about all records of one person."""
    steps = int(log_uniform(random, 100.0, 2e4))
    return dpsgd(log_uniform(random, 2.0, 50.0), log_uniform(random, 0.003, 0.1), steps)


def _fixed_batches(random: Generator) -> Spec:
    size = int(log_uniform(random, 1e3, 1e6))
    batch = int(size * log_uniform(random, 0.003, 0.1))
    kind = ("fixed_without_replacement", "fixed_with_replacement")[int(random.integers(2))]
    run = dpsgd(log_uniform(random, 1.5, 30.0), batch / size, int(log_uniform(random, 100.0, 2e4)))
    return {**run, "sampling": kind, "batch_size": batch, "dataset_size": size}


def _shifts(random: Generator) -> Spec:
    """Draw mixtures of two to seven shifts, often one of them 0 with most of the weight, in one step or many."""
    count = int(random.integers(2, 8))
    shifts = np.arange(1, count + 1) if random.uniform() < 0.5 else np.sort(random.uniform(0.2, 6.0, count))
    weights = random.dirichlet(np.ones(count))
    if random.uniform() < 0.7:
        rare = log_uniform(random, 0.003, 0.5)
        shifts, weights = np.append(0.0, shifts), np.append(1 - rare, rare * weights)
    step = {
        "type": "gaussian_mixture",
        "noise_multiplier": log_uniform(random, 1.0, 30.0),
        "shifts": shifts.tolist(),
        "weights": (weights / weights.sum()).tolist(),
    }
    return step if random.uniform() < 0.2 else _repeated(step, int(log_uniform(random, 30.0, 2e4)))


def _several(random: Generator) -> Neighbours:
    return Neighbours(records=int(log_uniform(random, 2.0, 65.0)))


def _some(random: Generator) -> Neighbours:
    return Neighbours(records=int(log_uniform(random, 1.0, 17.0)))


FAMILIES: Final[dict[str, tuple[float, Callable[[Generator], Spec]]]] = {
    "gaussian": (1.5, _gaussian),
    "laplace": (1.5, _laplace),
    "sampled Gaussian": (0.5, _sampled_gaussian),
    "sampled laplace": (2, _sampled_laplace),
    "exponential": (1.5, _exponential),
    "pure DP": (1, _pure_dp),
    "approximate DP": (1, _approximate_dp),
    "composed Gaussians": (1.5, _gaussians),
    "sampled Gaussian run": (3, _run),
    "composed runs": (0.5, _runs),
    "repeated step": (2, _repeated_step),
    "mix of anything": (0.5, _mix),
    "mixed run": (0.5, _mixed_run),
    "mixture": (0.25, _mixture),
    "replaced record": (1.0, _run),
    "group": (1.0, _group_run),
    "fixed batches": (1.0, _fixed_batches),
    "mixture of shifts": (1.2, _shifts),
}
"""Weight of each family, and the function that draws it."""
NEIGHBOURS: Final[dict[str, Callable[[Generator], Neighbours]]] = {
    "replaced record": lambda _: ONE_REPLACED,
    "group": _several,
    "fixed batches": _some,
}
"""Neighbours of a family, if they are not one added record."""
OF_SHIFTS: Final = (*NEIGHBOURS, "mixture of shifts")
"""Families of mixtures of shifted Gaussians."""
