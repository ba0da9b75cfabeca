"""A run of DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractMechanism, Steps
from service.privacy.mechanisms.caveats import ONE_RECORD_IS_PROTECTED, Hazard, Premise
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER, SAMPLE_RATE, STEPS, check_fields
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.repeated import Repeated

MICROBATCHES_DOUBLE_SENSITIVITY: Final = Hazard(
    code="microbatches_double_sensitivity",
    text="Clipping averages of microbatches instead of single examples doubles the sensitivity: noise_multiplier is "
    "then half of what was configured.",
    about="gradients",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd(AbstractMechanism):
    """Short for `steps` repetitions of a Poisson-sampled Gaussian step: what an ML platform logs of a training run.

    Attained as its step is (`poisson_sampled.py`): gradients of all other examples are 0, the record's is as long as
    clipping allows and the same in every step.
    """

    type: ClassVar[str] = "dpsgd"
    noise_multiplier: Annotated[float, NOISE_MULTIPLIER]
    sample_rate: Annotated[float, SAMPLE_RATE]
    steps: Annotated[int, STEPS]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        return (self._run,)

    @property
    @override
    def premises(self) -> tuple[Premise, ...]:
        return ()

    @property
    @override
    def hazards(self) -> tuple[Hazard, ...]:
        return (MICROBATCHES_DOUBLE_SENSITIVITY, ONE_RECORD_IS_PROTECTED)

    @override
    def elementary_steps(self) -> Steps:
        return self._run.elementary_steps()

    @property
    def _run(self) -> Repeated:
        """What it is short for."""
        base = Gaussian(noise_multiplier=self.noise_multiplier)
        step = PoissonSampled(sample_rate=self.sample_rate, mechanism=base)
        return Repeated(mechanism=step, steps=self.steps)
