"""Mechanism of a DP-SGD run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import cycle, islice
from typing import Annotated, ClassVar, Final, assert_never, final, get_args

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractMechanism, AbstractStep, Steps, merged
from service.privacy.mechanisms.batches.fixed_batches import FixedBatches
from service.privacy.mechanisms.batches.shuffled_epochs import ShuffledEpochs
from service.privacy.mechanisms.caveats import MechanismHazard, Premise
from service.privacy.mechanisms.domain import (
    BATCH_SIZE,
    DATASET_SIZE,
    EPOCHS,
    NOISE_MULTIPLIER,
    PHASES,
    SAMPLE_RATE,
    STEPS,
    check_fields,
)
from service.privacy.mechanisms.dpsgd_caveats import ORDER_IS_DRAWN_ONCE, SAMPLERS, Sampling, steps_rounded_up
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.repeated import Repeated

NEARLY: Final = Fraction(2) ** -50
"""Relative distance to a whole number of batches within which a number from a rounded rate counts as whole."""
Phase = tuple[float, float, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd(AbstractMechanism):
    """Run of DP-SGD as a training platform logs it: noisy sums of clipped gradients over batches.

    Lists have one entry for each phase of a schedule; a number stands for all phases.

    Attributes
    ----------
    noise_multiplier : float or tuple of float
        Noise on the sum over the norm to which the gradient of one record is clipped.
    sample_rate : float or tuple of float
        Share of the records in a batch.
    steps : int or tuple of int
        Count of batches.
    sampling : Sampling
        How batches were drawn, see Notes.
    batch_size, dataset_size : int or None
        Their quotient replaces `sample_rate` exactly, if both are known.
    epochs : float or None
        The requested number of epochs if `steps` follow from it. The field changes no number.
    reshuffled : bool or None
        Whether every epoch has a new order; False if all epochs have the order of the first epoch.

    Notes
    -----
    - `poisson` stands for `steps` repetitions of a Poisson-sampled Gaussian step. It is attained if the gradients of
      all other examples are 0, and the record has the same gradient in every step, of the length of the clipping norm.
    - `fixed_without_replacement` draws a share `sample_rate` of all records, and `fixed_with_replacement` draws every
      record of a batch among all records (`batches/fixed_batches.py`).
    - `shuffled` consists of whole epochs of dataset_size/batch_size batches, rounded up (`batches/shuffled_epochs.py`).
    """

    type: ClassVar[str] = "dpsgd"
    noise_multiplier: Annotated[float | tuple[float, ...], NOISE_MULTIPLIER]
    sample_rate: Annotated[float | tuple[float, ...], SAMPLE_RATE]
    steps: Annotated[int | tuple[int, ...], STEPS]
    sampling: Sampling = "poisson"
    batch_size: Annotated[int | None, BATCH_SIZE] = None
    dataset_size: Annotated[int | None, DATASET_SIZE] = None
    epochs: Annotated[float | None, EPOCHS] = None
    reshuffled: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.sampling not in get_args(Sampling):
            raise OutOfDomain("sampling", self.sampling, f"one of {', '.join(get_args(Sampling))}")
        if (self.batch_size or 0) > (self.dataset_size or math.inf):
            raise OutOfDomain("batch_size", self.batch_size, f"at most dataset_size, {self.dataset_size}")
        if self.sampling == "fixed_with_replacement" and None in (self.batch_size, self.dataset_size):
            raise OutOfDomain("batch_size", self.batch_size, "given, with dataset_size")
        columns = {"noise_multiplier": self.noise_multiplier, "sample_rate": self.sample_rate, "steps": self.steps}
        for name, value in columns.items():
            if isinstance(value, tuple) and not (len(value) == self._length and self._length in PHASES):
                raise OutOfDomain(name, value, f"a number, or a list as long as the others, of {PHASES} entries")

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        """Steps of the phases with the smallest and the largest sampling rate.

        Together these two steps have all premises and hazards of the run. A hazard is a known way in which a run is
        less private than described.
        """
        if self.sampling != "poisson":
            return ()
        phases = list(self._phases())
        sampled = [phase for phase in phases if phase[1] < 1] or phases[:1]
        extremes = dict.fromkeys((min(sampled, key=_rate), max(sampled, key=_rate)))
        return tuple(dict.fromkeys(_poisson_run(*phase) for phase in extremes))

    @property
    @override
    def premises(self) -> tuple[Premise, ...]:
        order = (ORDER_IS_DRAWN_ONCE,) if self.reshuffled is False else ()
        return (*SAMPLERS[self.sampling].premises, *order, *self._rounding())

    @property
    @override
    def hazards(self) -> tuple[MechanismHazard, ...]:
        return SAMPLERS[self.sampling].hazards

    @override
    def elementary_steps(self) -> Steps:
        return merged(self._epochs() if self.sampling == "shuffled" else self._counted())

    def _epochs(self) -> Iterator[tuple[AbstractStep, int]]:
        """Yield (step of epochs, count) for batches in a shuffled order.

        With a new order in every epoch, a step is one epoch. With one order for all epochs, all epochs are one step.
        """
        known = [
            (1 / Fraction(noise) ** 2, whole(self._batches_per_epoch(rate)), steps)
            for noise, rate, steps in self._phases()
        ]
        if all(batches == 1 for _, batches, _ in known):  # all records in every batch
            yield from self._counted()
            return
        if self.reshuffled is False:
            square = sum(-(-steps // batches) * square for square, batches, steps in known)
            yield ShuffledEpochs(square=Fraction(square), batches=known[0][1]), 1
            return
        for square, batches, steps in known:
            yield ShuffledEpochs(square=square, batches=batches), -(-steps // batches)

    def _counted(self) -> Iterator[tuple[AbstractStep, int]]:
        """Yield the step of each phase of the training with its number of repetitions; equal phases share a step."""
        made: dict[tuple[float, float], AbstractStep] = {}
        for noise, rate, steps in self._phases():
            if (noise, rate) not in made:
                made[noise, rate] = self._step(noise, rate)
            yield made[noise, rate], steps

    def _step(self, noise: float, rate: float) -> AbstractStep:
        match self.sampling:
            case "poisson":
                return _sampled(noise, rate) if rate < 1 else Gaussian(noise_multiplier=noise)
            case "shuffled":
                return Gaussian(noise_multiplier=noise)
            case "fixed_without_replacement" | "fixed_with_replacement":
                return FixedBatches(
                    sample_rate=self._share or Fraction(rate),
                    noise_multiplier=Fraction(noise),
                    dataset_size=self.dataset_size,
                    batch_size=self.batch_size,
                    replacement=self.sampling == "fixed_with_replacement",
                )
            case _:
                assert_never(self.sampling)

    @property
    def _share(self) -> Fraction | None:
        """Exact quotient of batch size and number of all records, if both are known, else None."""
        known = self.batch_size is not None and self.dataset_size is not None
        return Fraction(self.batch_size or 1, self.dataset_size or 1) if known else None

    @property
    def _length(self) -> int:
        """Number of phases of the training schedule."""
        columns = (self.noise_multiplier, self.sample_rate, self.steps)
        return max((len(column) for column in columns if isinstance(column, tuple)), default=1)

    def _phases(self) -> Iterator[Phase]:
        noises, rates, steps = (
            cycle(column if isinstance(column, tuple) else (column,))
            for column in (self.noise_multiplier, self.sample_rate, self.steps)
        )
        return zip(noises, rates, map(int, islice(steps, self._length)), strict=False)

    def _batches_per_epoch(self, rate: float) -> Fraction:
        """Return the exact number of batches in an epoch, 1/`rate`, for a sampling rate.

        A rate of 0.1 means exactly a tenth, not the double nearest to 0.1.
        """
        return 1 / (self._share or Fraction(repr(rate)))

    def _rounding(self) -> tuple[Premise, ...]:
        """Return the premise that answers are for more steps than described; empty if no count was rounded up."""
        if self.epochs is None and self.sampling != "shuffled":
            return ()
        for _, rate, steps in self._phases():
            each = self._batches_per_epoch(rate)
            exact = steps if self.epochs is None else Fraction(repr(self.epochs)) * each
            served = -(-steps // whole(each)) * whole(each) if self.sampling == "shuffled" else steps
            if abs(exact - served) > NEARLY * served:
                length = f"{steps} batches" if self.epochs is None else f"{self.epochs:g} epochs"
                return (steps_rounded_up(f"{length} of {float(each):.10g} batches an epoch", served),)
        return ()


def whole(number: Fraction) -> int:
    """Return a number of batches, rounded up to a whole number of at least 1.

    A number that differs from a whole number by at most `NEARLY` (relative) is rounded to it.
    """
    nearest = max(round(number), 1)
    return nearest if abs(number - nearest) <= NEARLY * number else math.ceil(number)


def _rate(phase: Phase) -> float:
    return phase[1]


def _poisson_run(noise: float, rate: float, steps: int) -> Repeated:
    return Repeated(mechanism=_sampled(noise, rate), steps=steps)


@lru_cache(maxsize=1024)  # needed for premises and for steps, and by runs of other lengths
def _sampled(noise: float, rate: float) -> PoissonSampled:
    return PoissonSampled(sample_rate=rate, mechanism=Gaussian(noise_multiplier=noise))
