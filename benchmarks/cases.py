"""The runs that are measured: DP-SGD with (noise multiplier, sampling rate, steps), and what is true of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd
from tests.privacy.references import number, rows


@dataclass(frozen=True)
class Run:
    """A training run."""

    name: str
    noise_multiplier: float
    sample_rate: float
    steps: int

    @property
    def mechanism(self) -> AbstractMechanism:
        return built(dpsgd(self.noise_multiplier, self.sample_rate, self.steps))

    def curves(self) -> TradeOffPair:
        """Made anew: nothing that was computed for other curves is used again."""
        return WorstCase().curves(self.mechanism)

    def __str__(self) -> str:
        return f"{self.name} ({self.noise_multiplier:g}, {self.sample_rate:g}, {self.steps:g})"


C1 = Run("C1", 1.0, 0.01, 1_000)
C2 = Run("C2", 0.8, 0.001, 10_000)
C3 = Run("C3", 2.0, 0.1, 100)
C4 = Run("C4", 1.0, 0.5, 1)
C5 = Run("C5", 3.0, 0.02, 100_000)
C6 = Run("C6", 40.0, 0.2, 1_000_000)
README_OF_RISKCAL = Run("riskcal's README", 0.5, 0.002, 10_000)
COMPOSED = (C1, C2, C3, C5, C6)
UNRELATED = Run("unrelated", 1.3, 0.03, 700)
"""Asked once before anything is timed, so that first calls into numpy and scipy are not counted."""


def truths(run: Run) -> dict[str, Fraction]:
    """Values of the reference, by name: `gamma-0.001`, `eps-1e-5`, `delta-1`, ..."""
    prefix = f"{run.name}-"
    return {
        row["id"].removeprefix(prefix): Fraction(row["value"])
        for row in rows("truth_composed")
        if row["id"].startswith(prefix)
    }


def argument(name: str) -> float:
    """What a name of `truths` asks for: 1e-5 of `eps-1e-5`."""
    return number(name.partition("-")[2])
