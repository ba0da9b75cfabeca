"""The adversary of differential privacy: knows everything but the record, and tests as Neyman and Pearson allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from typing_extensions import override

from service.privacy.composition import choose
from service.privacy.composition.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.plan import Plan
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.neighbours import NeighboringRelation, Neighbours
from service.privacy.threat_models.abstract import AbstractThreatModel


@final
@dataclass(frozen=True, slots=True)
class WorstCase(AbstractThreatModel):
    """`add_or_remove_one`, or `replace_one`, which doubles the sensitivity of Gaussian and Laplace steps, leaves `gdp`,
    `pure_dp`, `approximate_dp` and `exponential` as stated, and is not supported for Poisson-sampled steps with a rate
    below 1 (no dominating pair is known); `noisy_sgd` has an exact pair under the first, and under the second one that
    several steps are not known to attain (`mechanisms/batches/batch_mean.py`)."""

    type: ClassVar[str] = "worst_case"
    neighboring_relation: NeighboringRelation = "add_or_remove_one"

    def __post_init__(self) -> None:
        _ = self.neighbours  # checks

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets the attacker tells apart."""
        return Neighbours(self.neighboring_relation)

    @override
    def plan(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> Plan:
        return choose.plan(mechanism, method, self.neighbours, options)

    @override
    def premises(self, mechanism: AbstractMechanism) -> tuple[()]:
        return ()


def worst_of(models: Iterable[WorstCase]) -> WorstCase:
    """The one under whose relation a record moves a release most: whatever is served under several relations has, at
    every rate, at least as much power under it as under any other.
    """
    return max(models, key=lambda model: model.neighbours.distance)
