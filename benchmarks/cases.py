"""The measured runs (noise multiplier, sampling rate, steps) with Gaussian or Laplace noise, and their reference
values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.questions import profile, reconstruction
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, laplace, sampled
from tests.privacy.references import number, rows


@dataclass(frozen=True)
class Run:
    """Case of the benchmarks: noise that is repeated for `steps` Poisson-sampled steps.

    With Gaussian noise this is a DP-SGD run. A rate of 1 means no sampling.
    """

    name: str
    noise_multiplier: float
    sample_rate: float
    steps: int
    noise: Literal["gaussian", "laplace"] = "gaussian"
    neighboring_relation: NeighboringRelation = "add_or_remove_one"
    records: int | None = None

    @property
    def mechanism(self) -> AbstractMechanism:
        if self.noise == "gaussian":
            return built(dpsgd(self.noise_multiplier, self.sample_rate, self.steps))
        step = laplace(self.noise_multiplier)
        step = step if self.sample_rate == 1 else sampled(self.sample_rate, step)
        return built({"type": "repeated", "mechanism": step, "steps": self.steps})

    def curves(self, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS) -> TradeOffPair:
        """Build new trade-off curves of the run. They share no computed values with other curves."""
        return WorstCase(self.neighboring_relation, self.records).curves(self.mechanism, method, options)

    def __str__(self) -> str:
        return f"{self.name} ({self.noise_multiplier:g}, {self.sample_rate:g}, {self.steps:g})"


C1 = Run("C1", 1.0, 0.01, 1_000)
C2 = Run("C2", 0.8, 0.001, 10_000)
C3 = Run("C3", 2.0, 0.1, 100)
C4 = Run("C4", 1.0, 0.5, 1)
C5 = Run("C5", 3.0, 0.02, 100_000)
C6 = Run("C6", 40.0, 0.2, 1_000_000)
S1 = Run("S1", 1.0, 0.01, 1_000, "laplace")
S2 = Run("S2", 2.0, 0.2, 50, "laplace")
L1 = Run("L1", 10.0, 1.0, 100, "laplace")
G1 = Run("G1", 10.0, 1.0, 100)
README_OF_RISKCAL = Run("riskcal's README", 0.5, 0.002, 10_000)
REPLACED = tuple(
    replace(run, name=f"{run.name} replace_one", neighboring_relation="replace_one") for run in (C1, C2, C3)
)
COMPOSED = (C1, C2, C3, C5, C6)
BESIDE_PEERS = (C1, C2, C3, C4, C5, C6, S1, S2, L1, G1)
UNRELATED = Run("unrelated", 1.3, 0.03, 700)
"""Run once before any timing, so that the first calls into NumPy and SciPy are not counted."""


def truths(run: Run) -> dict[str, Fraction]:
    """Return the reference values of the run by name: `gamma-0.001`, `eps-1e-5`, `delta-1`, ... Run S2 has none."""
    prefix = f"{run.name}-"
    return {
        row["id"].removeprefix(prefix): Fraction(row["value"])
        for row in rows("truth_composed")
        if row["id"].startswith(prefix)
    }


def argument(name: str) -> float:
    """Return the number in a name of a reference value: 1e-5 for `eps-1e-5`."""
    return number(name.partition("-")[2])


def read(pair: TradeOffPair, name: str) -> Enclosure:
    """Evaluate the question that the name of a reference value stands for, such as `eps-1e-5`, on trade-off curves."""
    kind, at = name.partition("-")[0], argument(name)
    if kind == "gamma":
        return reconstruction.gamma(pair.add, at).value
    reading = profile.epsilon if kind == "eps" else profile.delta
    return reading(pair.both, at).value
