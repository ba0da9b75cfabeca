"""Steps that are mixtures of shifted Gaussians, as a run has them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from flint import arb
from typing_extensions import override

from service.privacy.composition.ground_truth.mixture_balls import MixtureBalls
from service.privacy.composition.ground_truth.mixture_guide import MixtureGuide
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.moments import ExactSteps


@final
@dataclass(frozen=True, slots=True)
class ExactMixtureSteps(ExactSteps):
    """`count` equal mixtures."""

    mixture: ExactMixture
    count: int

    @override
    def balls(self) -> MixtureBalls:
        return MixtureBalls(self.mixture)

    @override
    def guide(self) -> MixtureGuide:
        return MixtureGuide(self.mixture, self.count)

    @property
    @override
    def log_silent(self) -> arb | None:
        return self.mixture.log_silent

    @property
    @override
    def global_mu_squared(self) -> Fraction | None:
        """Of the largest shift: a nearer hump is no easier to tell, and no weight matters to small rates."""
        return None if self.mixture.mirrored else self.mixture.largest_shift**2

    @property
    @override
    def symmetric(self) -> bool:
        return self.mixture.mirrored

    @property
    @override
    def dropped(self) -> arb:
        return self.mixture.dropped
